"""Nothing that another party wrote strengthens a statement: every field of every file, forged. `python -m tests.forged` prints the table."""

import shutil

import pytest

from labeldp.errors import FileFormatError
from labeldp.mechanisms import Guarantee
from labeldp.release.core import Release
from labeldp.release.origin import PriorOrigin, with_origins
from labeldp.report.build import Report

from .fields import parquet_file
from .forge import forged
from .kinds import KINDS
from .order import Claim, stronger
from .world import build, inside, said

pytestmark = pytest.mark.xdist_group("forged")

# A field that is added is walked of itself; fewer than there were would be a walk that missed some.
FIELDS = {
    "release": 51, "release, with a prior": 68, "release, insecure": 44, "public prior": 23, "scores": 23,
    "scores of another model": 23, "canaries": 10, "kept audit": 140, "run": 202, "run with canaries": 287, "insecure run": 182,
    "selected run": 235, "PATE run": 414,
}  # fmt: skip


@pytest.fixture(scope="session")
def honest(tmp_path_factory):
    return build(tmp_path_factory.mktemp("forged") / "world")


@pytest.fixture
def world(honest, tmp_path):
    shutil.copytree(honest, tmp_path / "world")
    return tmp_path / "world"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_no_field_makes_a_statement_stronger(kind, world):
    found = forged(kind, world, everything=False)
    assert found.faults == []
    assert found.fields >= FIELDS[kind.name]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_nor_does_any_value_in_it(kind, world):
    assert forged(kind, world, everything=True).faults == []


def test_the_order_of_statements():
    """Smaller ε, larger bounds, narrower intervals, lost warnings, less trust asked for: stronger."""
    pairs = [
        ("most", 2.0, 1.0), ("most", None, 1.0), ("least", 1.0, 2.0), ("within", [0.1, 0.9], [0.2, 0.9]), ("warning", True, False),
        ("trust", "central", "local"), ("text", "all", "some"),
    ]  # fmt: skip
    for kind, weak, strong in pairs:
        one, other = {"x": Claim(kind, weak)}, {"x": Claim(kind, strong)}
        assert stronger(one, other)
        assert not stronger(one, one)
        assert kind == "text" or not stronger(other, one)


def forgery(world, file, name):
    """The first two forgeries of a release's field: dropped, and null."""
    field = next(field for field in parquet_file(world, file, b"labeldp") if field.name == name)
    return list(field.forged(False))[:2]


@pytest.mark.parametrize(("file", "name"), [("second.parquet", "public_prior"), ("weak.parquet", "insecure")])
def test_a_header_that_lost_its_warning_is_damage(world, file, name):
    dropped, null = forgery(world, file, name)
    (world / file).write_bytes(dropped)
    with pytest.raises(FileFormatError):
        Release.load(world / file)
    (world / file).write_bytes(null)
    if name == "public_prior":
        with pytest.raises(FileFormatError, match="what is behind it"):
            Release.load(world / file)


def test_a_promise_below_what_was_paid_is_none(world):
    field = next(f for f in parquet_file(world, "first.parquet", b"labeldp") if f.name == "budget.publishable.epsilon")
    (world / "first.parquet").write_bytes(list(field.forged(False))[2])  # half of it
    with pytest.raises(FileFormatError, match="promises less"):
        Release.load(world / "first.parquet")


def test_what_is_behind_a_prior_counts_where_it_is_not_named():
    """No name is among the parts of every join: the ε without one was skipped."""
    assert with_origins(Guarantee(1.0, 0.0), [PriorOrigin(epsilon=4.0, same_rows=True)], ["a"]).epsilon == 5.0


def test_pages_and_commands_say_what_they_have_on_somebodys_word(world):
    with inside(world):
        html = Report.of([world / "run", world / "audit"]).html()
        assert html.count("by its own account") >= 4
        assert "no file can show" in said("inspect", "first.parquet")["given"]
        (world / "run" / "released.parquet").unlink()
        (world / "first.parquet").unlink()
        assert "not checked</strong>, by its own account" in Report.of([world / "run"]).html()

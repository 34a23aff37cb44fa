"""Nothing that another party wrote strengthens a statement: every field forged. `python -m tests.forged` prints the table."""

import contextlib
import shutil

import pytest

from labeldp.errors import FileFormatError
from labeldp.mechanisms import Guarantee
from labeldp.release.prior import PriorOrigin, with_origins
from labeldp.release.release import Release
from labeldp.report.page import Report

from .fields import parquet_file
from .forge import forged
from .kinds import KINDS
from .order import Claim, stronger
from .world import build, inside, said

pytestmark = pytest.mark.xdist_group("forged")

# A field that is added is walked of itself; fewer than there were would be a walk that missed some.
FIELDS = {
    "score": 111, "score, insecure": 100, "choice": 70, "moments": 123, "run of moments": 84,
    "histogram": 136, "run of a histogram": 80,
    "release": 51, "release, with a prior": 68, "release, insecure": 44, "public prior": 23, "scores": 23,
    "scores of another model": 23, "canaries": 10, "kept audit": 140, "run": 202,
    "run with curves": 250, "run with canaries": 287, "insecure run": 182,
    "selected run": 225, "PATE run": 360,
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
    """A sample of the fields by a fixed rule, each with two values; the next test has all."""
    found = forged(kind, world, most=2, step=5 if kind.name == "public prior" else max(1, FIELDS[kind.name] // 12))
    assert found.faults == []
    assert found.fields >= FIELDS[kind.name]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_all_fields_with_five_values_each(kind, world):
    found = forged(kind, world, most=5)
    assert found.faults == []
    assert sum(found.counts.values()) == found.fields


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
    """All forgeries of a release's field."""
    field = next(field for field in parquet_file(world, file, b"labeldp") if field.name == name)
    return list(field.forged(1000))


def test_a_prior_aware_release_that_lost_its_origin_is_damage(world):
    for content in forgery(world, "second.parquet", "public_prior"):
        (world / "second.parquet").write_bytes(content)
        with pytest.raises(FileFormatError):
            Release.load(world / "second.parquet")


def test_a_promise_below_what_was_paid_is_none(world):
    paid = Release.load(world / "first.parquet").guarantee.epsilon
    accepted = []
    for content in forgery(world, "first.parquet", "budget.publishable.epsilon"):
        (world / "first.parquet").write_bytes(content)
        with contextlib.suppress(FileFormatError):
            accepted.append(Release.load(world / "first.parquet").header["budget"]["publishable"]["epsilon"])
    assert accepted
    assert min(accepted) >= paid * (1 - 1e-9)


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

"""What a library must offer is asked before anything is charged; what is stated is what `make test-floors` installs."""

import pytest
from tools.floors import pinned

from labeldp import InputError, Ledger, RandomizedResponse, requirements
from labeldp.requirements import Requirement, check_requirements, read


@pytest.fixture
def installed(monkeypatch):
    """Pretend that these versions of libraries are installed, and that labeldp declares these lines."""

    def pretend(*lines, **versions):
        monkeypatch.setattr(requirements, "requires", lambda name: lines)
        monkeypatch.setattr(requirements, "version", versions.__getitem__)

    return pretend


def test_lines_of_metadata_are_read():
    lines = ["numpy>=1.26", "rich >= 13,<99", "pillow>=10; extra == 'train'", 'ruff; extra == "dev"']
    assert list(read(lines)) == [
        Requirement("numpy", "1.26", None),
        Requirement("rich", "13", None),
        Requirement("pillow", "10", "train"),
        Requirement("ruff", None, "dev"),
    ]


@pytest.mark.parametrize("version", ["17", "17.0.0", "17.0.0.post1", "17.0.1", "26.0.1", "100.1+local"])
def test_what_is_new_enough(installed, version):
    installed("pyarrow>=17", pyarrow=version)
    check_requirements()


@pytest.mark.parametrize("version", ["16.1.0", "16", "9.99", "1.7.0", "16.99.dev3"])
def test_what_is_too_old_is_named_with_the_remedy(installed, version):
    installed("pyarrow>=17.0", pyarrow=version)
    with pytest.raises(InputError, match=rf'pyarrow {version} is installed.*17\.0 or newer: pip install.*"pyarrow>=17'):
        check_requirements()


def test_an_extra_is_nobodys_business_before_it_is_used(installed):
    installed("torch>=2.13; extra == 'train'")
    check_requirements()


def test_nothing_is_charged_with_a_library_that_is_too_old(installed, tmp_path):
    ledger = Ledger(tmp_path / "owner.ledger")
    installed("pyarrow>=17", pyarrow="16.1.0")
    with pytest.raises(InputError, match=r"pyarrow 16\.1\.0 is installed"):
        RandomizedResponse.calibrated(epsilon=1.0, num_classes=2).release(
            [0, 1], data_set="d", ledger=ledger, ids=[1, 2]
        )
    assert ledger.book().releases == {}


def test_every_floor_is_pinned():
    assert pinned(read(["b>=2", "a>=1.5; extra == 'x'", "b>=2; extra == 'dev'", "ruff; extra == 'dev'"])) == [
        "a==1.5",
        "b==2",
    ]
    with pytest.raises(SystemExit, match="two floors for b"):
        pinned(read(["b>=2", "b>=3; extra == 'dev'"]))
    with pytest.raises(SystemExit, match="no floor for b"):
        pinned(read(["b"]))


def test_pyproject_states_floors_for_everything():
    lines = pinned(requirements.requirements())
    assert {line.split("==")[0] for line in lines} >= {"numpy", "pyarrow", "typer", "torch", "scikit-learn"}

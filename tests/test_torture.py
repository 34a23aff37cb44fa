"""A short torture; `make torture` is the long one."""

from pathlib import Path

import pytest

from tests.torture.calls import calls
from tests.torture.commands import COMMANDS
from tests.torture.kills import kills
from tests.torture.races import RACES, STATISTICS, races


def test_a_killed_release_is_finished_under_its_one_charge(tmp_path: Path) -> None:
    result = kills(6, tmp_path, seed=1)
    assert result["failures"] == []


def test_two_releases_at_once_never_overspend(tmp_path: Path) -> None:
    result = races(6, tmp_path, 1, {kind: race for kind, race in RACES.items() if kind not in STATISTICS})
    assert result["failures"] == []


def test_statistics_at_once_are_drawn_once_and_never_overspend(tmp_path: Path) -> None:
    """Three processes each: for the same score or moments, and for different ones within one budget."""
    result = races(4, tmp_path, 1, STATISTICS)
    assert result["failures"] == []
    assert set(result["kinds"]) == set(STATISTICS)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("calls")


def test_whichever_file_call_fails_the_same_command_finishes(prepared: Path) -> None:
    """One blow at each command, drawn; without a C compiler, at Python's own calls only."""
    result = calls(prepared, seed=1, most=1)
    assert result["failures"] == []
    assert all(one["points"] > 5 for one in result["commands"].values())


def test_the_same_without_a_compiler(prepared: Path) -> None:
    some = [command for command in COMMANDS if command.name in ("release --id", "canaries plant", "features")]
    result = calls(prepared, seed=1, most=4, preload=False, commands=some)
    assert result["shim"] == "python"
    assert result["failures"] == []
    assert all(one["points"] > 5 for one in result["commands"].values())

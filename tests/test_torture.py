"""A short torture; `make torture` is the long one."""

from pathlib import Path

import pytest

from tests.torture.calls import calls
from tests.torture.kills import kills
from tests.torture.races import races


def test_a_killed_release_is_finished_under_its_one_charge(tmp_path: Path) -> None:
    result = kills(6, tmp_path, seed=1)
    assert result["failures"] == []


def test_two_releases_at_once_never_overspend(tmp_path: Path) -> None:
    result = races(6, tmp_path, seed=1)
    assert result["failures"] == []


@pytest.mark.parametrize("preload", [True, False])
def test_whichever_file_call_fails_the_same_command_finishes(tmp_path: Path, preload: bool) -> None:
    """Some blows at each command; without a C compiler both see Python's own calls only."""
    result = calls(tmp_path, seed=1, most=2 if preload else 1, preload=preload)
    assert result["failures"] == []
    assert all(one["points"] > 5 for one in result["commands"].values())

"""A short torture; `make torture` is the long one."""

from pathlib import Path

from tests.torture.kills import kills
from tests.torture.races import races


def test_a_killed_release_is_finished_under_its_one_charge(tmp_path: Path) -> None:
    result = kills(6, tmp_path, seed=1)
    assert result["failures"] == []


def test_two_releases_at_once_never_overspend(tmp_path: Path) -> None:
    result = races(6, tmp_path, seed=1)
    assert result["failures"] == []

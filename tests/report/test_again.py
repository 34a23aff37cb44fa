"""Commands to make it again: put together from what files say, such that labeldp takes them; nothing else is in them."""

import shlex
from dataclasses import replace

import numpy as np
import pytest

import labeldp
from labeldp.release.release import Release
from labeldp.report.again import owners_commands, plant_command, release_command
from labeldp.report.page import Report

from .conftest import labeldp_commands
from .pages import text

pytestmark = pytest.mark.xdist_group("runs")


def test_the_commands_make_the_same_again(owned, tmp_path):
    """What was typed: see conftest. Under a fresh ledger the commands on the page make a release of the same kind."""
    (run,) = Report.of([owned / "run", owned / "audit"]).runs
    plant, release = owners_commands(run)
    assert plant.command == (
        "labeldp canaries plant LABELS --label y --classes no,yes --id id --count 60 --out PLANTED.parquet --secret SECRET.npz"
    )
    assert release.command == (
        "labeldp release PLANTED.parquet --label y --classes no,yes --id id --data-set v --epsilon 1 --mechanism response --budget 2 "
        "--shuffle --purpose fraud --out released.parquet"
    )
    (tmp_path / "labels.csv").write_bytes((owned / "v.csv").read_bytes())
    typed = [shlex.split(one.command.replace("LABELS", "labels.csv"))[1:] for one in (plant, release)]
    labeldp_commands([[*typed[0], "--data-set", "v"], typed[1]], tmp_path)
    first, again = (Release.load(place / "released.parquet") for place in (owned, tmp_path))
    same = (
        "mechanism",
        "label",
        "label_names",
        "ids",
        "shuffled",
        "rows",
        "data_set",
        "certificate",
        "budget",
        "handed_over",
    )
    assert {name: first.header[name] for name in same} == {name: again.header[name] for name in same}


def test_they_are_on_the_page_before_the_training(owned):
    words = text(Report.of([owned / "run", owned / "audit"]).html())
    places = [
        words.index(f"labeldp {one} ", words.index("To make it again"))
        for one in ("canaries", "release", "train", "audit")
    ]
    assert places == sorted(places)


def test_no_canaries_no_planting(runs):
    (run,) = Report.of([runs / "few"]).runs
    (release,) = owners_commands(run)
    assert "--rows 3600:4000" in release.command
    assert "LABELS" in release.command


@pytest.mark.parametrize("name", ["plain", "staged", "pate", "chosen", "games", "heuristic"])
def test_commands_that_plant_and_release_themselves(runs, name):
    (run,) = Report.of([runs / name]).runs
    assert owners_commands(run) == ()


def test_of_a_release_that_is_not_here_nothing_is_known(owned):
    (run,) = Report.of([owned / "run"]).runs
    gone = replace(run, releases=(), checked=False)
    assert owners_commands(gone) == ()
    assert "is in the release file, which is not here" in text(Report((gone,)).html())


def test_odd_names_stay_words(tmp_path):
    """Text of a header is quoted: who pastes a command runs nothing else."""
    ledger = labeldp.Ledger(tmp_path / "l.ledger")
    mechanism = labeldp.RandomizedResponse.calibrated(epsilon=1, num_classes=2)
    made = mechanism.release(np.array([0, 1] * 20), ids=np.arange(40), data_set="a; rm -rf $HOME", ledger=ledger)
    evil = {"recipient": "$(touch x)", "purpose": "`y`", "approver": "'; z"}
    release = Release(
        made.header | {"handed_over": evil}, made.mechanism, made.arrow_ids, made.observations, made.checksum
    )
    words = shlex.split(release_command(release))
    assert words[words.index("--data-set") + 1] == "a; rm -rf $HOME"
    for name, value in evil.items():
        assert words[words.index(f"--{name}") + 1] == value
    assert shlex.split(plant_command(release, 10, 4))[-8:-4] == ["--count", "10", "--candidates", "4"]

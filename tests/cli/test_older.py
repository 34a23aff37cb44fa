"""What the command line used to be still works, and says what it is called now."""

import pytest

from tests.cli.terminal import process
from tests.commands.test_commands import plain


def test_train_on_a_data_set_is_an_experiment(run, tmp_path):
    usual = (
        "--dataset",
        "digits",
        "--epsilon",
        "4",
        "--insecure-seed",
        "1",
        "--epochs",
        "1",
        "--model",
        "linear",
        "--json",
    )
    older = run("train", *usual, "--out", tmp_path / "a")
    assert older.code == 0, older.err
    notes = [line for line in older.err.splitlines() if "labeldp experiment" in line]
    assert notes == ["note: `train --dataset` is now a command of its own: labeldp experiment --dataset …"]
    now = run("experiment", *usual, "--out", tmp_path / "b")
    assert "note:" not in now.err
    assert plain(older.json) == plain(now.json)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--dataset=digits", "--release", "r.parquet"), "leave out --release and --features"),
        (("--preset", "cpu-cifar10", "--features", "x.npy"), "leave out --release and --features"),
        (("--release", "r.parquet", "--stages", "2"), "--stages goes with --dataset (`labeldp experiment`)"),
        (("--release", "r.parquet", "--canaries", "2"), "labeldp canaries plant"),
    ],
)
def test_what_does_not_go_together(run, words, said):
    outcome = run("train", *words, "--out", "run")
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_the_help_of_train_fits_a_screen():
    shown = process("train", "--help", COLUMNS="120").stdout
    assert "--release" in shown
    assert "--dataset" not in shown
    assert len(shown.splitlines()) <= 60

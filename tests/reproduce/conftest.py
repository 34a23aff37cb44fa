"""Fake cells: a program that counts how often it was run, and summaries as the real commands write them."""

import json
import sys

import pytest

from labeldp.reproduce.cells import Cell, Place

FAKE = """
import json, pathlib, sys, time
arguments = sys.argv[1:]
out = pathlib.Path(arguments[arguments.index("--out") + 1])
with (out / "runs.txt").open("a") as file:
    file.write("run\\n")
print("working on", out.name)
if "--sleep" in arguments:
    time.sleep(float(arguments[arguments.index("--sleep") + 1]))
if "--fail" in arguments:
    sys.exit("error: this one always fails.")
if "--learn" in arguments and not (out / "features").exists():
    (out / "features").mkdir()
    (out / "features" / "features.npy").write_text("learned by " + out.name)
(out / "summary.json").write_text(pathlib.Path(__file__).with_name("summary.json").read_text())
"""


def summary(accuracy=0.5, epsilon=1.0, delta=0.0, **more):
    """As `labeldp train` sums up."""
    return {
        "certificate": {"epsilon": epsilon, "delta": delta, "reason": None},
        "trust": "local",
        "insecure": None,
        "release": "ab" * 32,
        "mechanism": {"name": "laplace", "num_classes": 10, "parameters": {}},
        "model": "fast",
        "rows_trained": 1000,
        "epochs": 8,
        "dtype": "float32",
        "device": "cpu",
        "accuracy_test": accuracy,
        "train_flop": 5.62e13,
        "seconds": 340.4,
        **more,
    }


@pytest.fixture
def fake(tmp_path):
    """A program in place of labeldp."""
    program = tmp_path / "fake" / "program.py"
    program.parent.mkdir()
    program.write_text(FAKE)
    (program.parent / "summary.json").write_text(json.dumps(summary()))
    return (sys.executable, str(program))


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path / "out")


def cell(name, *arguments, features=None):
    return Cell(name, "digits", "alibi", 1.0, 0, ("experiment", *arguments), features)


def finished(place, cell, **changes):
    """Pretend that a cell has been run."""
    folder = place.folder(cell)
    folder.mkdir(parents=True, exist_ok=True)
    facts = summary(**changes)
    if "--canaries" in cell.arguments and "audit" not in facts:
        facts["audit"] = audit(0.0, 0.5)
    (folder / "summary.json").write_text(json.dumps(facts))


def audit(model, release):
    """Of both attackers, as `experiment --canaries` sums up."""
    same = {
        "epsilon_high": None, "delta": 0.0, "confidence": 0.95, "method": "one-run", "assumption": "none", "guesses": 5, "correct": 3,
        "abstained": 95, "canaries": 100, "candidates": 10,
    }  # fmt: skip
    lows = {"model": model, "release": release}
    return {attack: {"epsilon_low": low, "attack": attack, **same} for attack, low in lows.items()}

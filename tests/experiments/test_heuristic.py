"""1 × N canaries against k × N/k: the command trains, compares, and goes on where it stopped."""

import json

import numpy as np
import pytest

from labeldp.audit.canaries import Canaries
from labeldp.errors import InputError
from labeldp.experiments.heuristic import Check, compare


def test_the_same_canaries_are_planted_at_once_and_apart(tmp_path, cli):
    command = (
        "audit-heuristic", "--dataset", "digits", "--mechanism", "none", "--epochs", 2, "--canaries", 30, "--plantings", 3,
        "--processes", 1, "--out", tmp_path / "check", "--json",
    )  # fmt: skip
    code, out, _ = cli(*command)
    assert code == 0
    found = json.loads(out)
    whole = Canaries.load(tmp_path / "check" / "canaries.npz")
    parts = [Canaries.load(tmp_path / "check" / f"apart-{k}" / "canaries.npz") for k in range(3)]
    assert sorted(np.concatenate([part.rows for part in parts]).tolist()) == whole.rows.tolist()
    assert (whole.true != whole.planted).all()  # the paper plants wrong labels
    assert found["together"]["canaries"] == found["apart"]["canaries"] == 30
    assert found["together"]["method"] == "paper"
    assert len(found["accuracy_apart"]) == 3
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "check").rglob("model.safetensors")}
    assert len(before) == 4
    assert json.loads(cli(*command)[1]) == found  # nothing is trained again
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert whole.data_set == "digits"
    code, _, said = cli(*command[:7], "--canaries", 10**6, *command[9:-2], tmp_path / "more")
    assert (code, "--canaries is at most" in said) == (2, True)
    code, _, said = cli(*command, "--seed", 1)
    assert code == 2
    assert "--out" in said


def test_a_model_that_memorises_gives_its_canaries_away_both_ways(tmp_path):
    found = compare(
        Check("digits", None, "none", model="mlp", epochs=60, canaries=120, plantings=3), tmp_path, processes=2
    )
    assert found.overlap()
    for result in (found.together, found.apart):
        assert result.correct > 0.6 * result.guesses > 0


@pytest.mark.parametrize("plantings", [1, 31])
def test_plantings_out_of_range(plantings):
    with pytest.raises(InputError, match="plantings"):
        Check("digits", 1.0, canaries=30, plantings=plantings)

"""`labeldp pate run --canaries`: labels are planted before the teachers see them, and looked for afterwards."""

import json

import numpy as np
import pytest

from labeldp.audit.canaries import Canaries
from labeldp.data.bundled import load
from labeldp.pate.material import Origin, keep
from labeldp.release import Release

RUN = (
    "pate", "run", "--dataset", "digits", "--teachers", 20, "--max-asked", 300, "--max-answered", 300, "--sigma1", 1, "--sigma2", 1,
    "--threshold", 0, "--student", "evidence", "--student-epochs", 1, "--processes", 0,
)  # fmt: skip


def test_canaries_are_planted_and_audited(tmp_path, cli):
    out = tmp_path / "run"
    code, said, err = cli(*RUN, "--canaries", 60, "--candidates", 10, "--out", out, "--json")
    assert code == 0, err
    found = json.loads(said)["audit"]
    assert {(who, one["canaries"], one["candidates"], one["delta"]) for who, one in found.items()} == {
        ("model", 60, 10, 1e-5), ("release", 60, 10, 1e-5),
    }  # fmt: skip
    canaries = Canaries.load(out / "owner" / "planted" / "canaries.npz")
    assert (canaries.data_set, canaries.data_rows, len(canaries)) == ("digits", 1437, 60)
    assert np.load(out / "student-1" / "probabilities.npy").shape == (1437, 10)
    assert json.loads((out / "summary.json").read_text())["audit"] == found
    answers = Release.load(out / "answers.parquet").checksum
    code, again, err = cli(*RUN, "--canaries", 60, "--candidates", 10, "--out", out, "--json")
    assert (code, json.loads(again)["audit"], Release.load(out / "answers.parquet").checksum) == (0, found, answers)
    code, said, _ = cli(*RUN, "--canaries", 60, "--candidates", 10, "--out", out)
    assert "audit: model" in said
    # Later stages know of them.
    assert cli("pate", "student", out, "--name", "other", "--student", "evidence", "--student-epochs", 1)[0] == 0
    assert "audit" in json.loads((out / "summary-other.json").read_text())


def test_teachers_see_what_was_planted(tmp_path):
    """And every other label as it is. Read before anything is kept, canaries are drawn anew: nothing is written yet."""
    origin = Origin("digits", canaries=300, candidates=10)
    first, second = (origin.read(tmp_path) for _ in range(2))
    assert list(tmp_path.iterdir()) == []
    assert first.canaries.planting != second.canaries.planting
    keep(tmp_path, first.canaries)
    material = origin.read(tmp_path)
    assert material.canaries.planting == material.source.planting == first.canaries.planting
    true, seen, rows = load("digits").labels.reveal(), material.labels.reveal(), material.canaries.rows
    assert seen[rows].tolist() == material.canaries.planted.tolist()
    assert (np.delete(seen, rows) == np.delete(true, rows)).all()
    assert 230 < (seen != true).sum() < 300


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--candidates", 3), "say how many"),
        (("--canaries", 10, "--holdout", 0.1), "do not go together"),
        (("--canaries", 0), "--count is from 1"),
        (("--canaries", 10, "--candidates", 11), "--candidates is from 2"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(tmp_path, cli, more, message):
    code, _, err = cli(*RUN, *more, "--out", tmp_path / "run")
    assert (code, message in err) == (2, True), err
    assert not (tmp_path / "run").exists()


def test_a_run_keeps_its_canaries(tmp_path, cli):
    assert cli(*RUN, "--out", tmp_path / "plain")[0] == 0
    code, _, err = cli(*RUN, "--canaries", 9, "--out", tmp_path / "plain")
    assert (code, "holds a run without canaries" in err) == (2, True)
    assert cli(*RUN, "--canaries", 9, "--out", tmp_path / "planted")[0] == 0
    code, _, err = cli(*RUN, "--canaries", 8, "--out", tmp_path / "planted")
    assert (code, "other canaries" in err) == (2, True)
    code, _, err = cli(*RUN, "--out", tmp_path / "planted")
    assert (code, "holds another run" in err) == (2, True)


def test_of_your_own_labels_plant_first(tmp_path, cli):
    code, _, err = cli(
        "pate",
        "run",
        "--features",
        "x.npy",
        "--labels",
        "y.csv",
        "--label",
        "y",
        "--canaries",
        5,
        "--out",
        tmp_path / "r",
    )
    assert (code, "labeldp canaries plant" in err) == (2, True)

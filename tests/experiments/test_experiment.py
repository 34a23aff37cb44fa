"""A run with canaries can be looked at again: `labeldp audit run/`."""

import json
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from labeldp import Ledger
from labeldp.audit.canaries import Canaries
from labeldp.commands import ExperimentOptions, experiment
from labeldp.data.bundled import load
from labeldp.errors import InputError


@pytest.mark.parametrize(("mechanism", "delta"), [("subset", 0.0), ("gaussian", 1e-5)])
def test_a_runs_directory_is_audited(tmp_path, cli, mechanism, delta):
    run = tmp_path / "run"
    options = ("--epsilon", 2, "--mechanism", mechanism, "--epochs", 2, "--canaries", 60, "--candidates", 10)
    code, out, _ = cli("experiment", "--dataset", "digits", *options, "--out", run, "--json")
    assert code == 0
    both = json.loads(out)["audit"]
    code, out, _ = cli("audit", run, "--json", "--figure", tmp_path / "violins.png")
    assert code == 0
    found = json.loads(out)
    assert found["delta"] == delta  # the release's own
    assert [look["attack"] for look in found["looks"]] == ["model", "release"]
    for look in found["looks"]:  # looked at again, it is the same: both share the 5% here and there
        alone = both[look["attack"]]
        assert (alone["epsilon_low"], alone["correct"]) == (look["epsilon_low"], look["correct"])
        assert (alone["confidence"], alone["shared_by"]) == (0.95, 2)
    assert (tmp_path / "violins.png").read_bytes()[:4] == b"\x89PNG"
    assert cli("audit", run, "--canaries", run / "canaries.npz")[0] == 2
    assert cli("audit", tmp_path)[0] == 2
    code, _, said = cli("audit", run, "--method", "paper")
    assert code == 2
    assert "--wrong-only" in said


def test_a_run_in_stages_is_audited_with_all_its_releases(tmp_path, cli):
    run = tmp_path / "run"
    options = ("--epsilon", 4, "--stages", 2, "--epochs", 1, "--canaries", 60, "--candidates", 4)
    code, out, err = cli("experiment", "--dataset", "digits", *options, "--out", run, "--json")
    assert code == 0, err
    both = json.loads(out)["audit"]
    code, out, err = cli("audit", run, "--json", "--out", tmp_path / "audit")
    found = json.loads(out)
    assert {look["attack"]: look["epsilon_low"] for look in found["looks"]} == {
        who: one["epsilon_low"] for who, one in both.items()
    }
    assert found["certificate"] == json.loads((run / "summary.json").read_text())["certificate"]["epsilon"]
    code, out, err = cli("report", run, tmp_path / "audit", "--out", tmp_path / "r.html", "--json")
    (shown,) = json.loads(out)["runs"]
    assert shown["headline"]["shared_by"] == len(shown["measured"]) == 4
    assert shown["headline"]["epsilon_low"] <= found["epsilon_low"]


def test_seeded_gaussian_noise_is_audited_at_the_mechanisms_delta(tmp_path, cli):
    """The certificate of seeded noise is void, and names no δ; the noise has one all the same."""
    options = ("--epsilon", 2, "--mechanism", "gaussian", "--epochs", 1, "--canaries", 30, "--insecure-seed", 1)
    code, out, err = cli("experiment", "--dataset", "digits", *options, "--out", tmp_path / "run", "--json")
    assert code == 0, err
    summary = json.loads(out)
    assert summary["certificate"]["delta"] is None
    assert {found["delta"] for found in summary["audit"].values()} == {1e-5}


def test_a_runs_model_is_known_to_come_from_its_release(tmp_path, cli):
    run = tmp_path / "run"
    options = ("--epsilon", 2, "--mechanism", "gaussian", "--epochs", 1, "--canaries", 30)
    assert cli("experiment", "--dataset", "digits", *options, "--out", run)[0] == 0
    canaries = Canaries.load(run / "canaries.npz")
    assert (canaries.data_set, canaries.data_rows) == ("digits", len(np.load(run / "probabilities.npy")))
    (record,) = Ledger(run / "labels.ledger").book().releases.values()
    assert record.request["planting"] == canaries.planting
    code, out, _ = cli("audit", run, "--method", "gaussian", "--json")
    assert [look["attack"] for look in json.loads(out)["looks"]] == ["model", "release"]
    # The same by way of `predict`, whose file says what it comes from, and that its ids are row numbers.
    np.save(tmp_path / "x.npy", load("digits", None).features)
    assert cli("predict", run, "--features", tmp_path / "x.npy", "--out", tmp_path / "s.parquet")[0] == 0
    assert json.loads(pq.read_schema(tmp_path / "s.parquet").metadata[b"labeldp"])["named"] is False
    files = ("--canaries", run / "canaries.npz", "--release", run / "released.parquet", "--delta", "1e-5")
    code, again, err = cli("audit", tmp_path / "s.parquet", *files, "--method", "gaussian", "--json")
    assert (code, json.loads(again)) == (0, json.loads(out)), err
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(config | {"release": "0" * 64}))
    code, _, err = cli("audit", run, "--method", "gaussian")
    assert (code, "another release" in err) == (2, True)


def test_what_train_says_of_its_canaries(tmp_path, cli):
    def trained(name, *more):
        return cli("experiment", "--dataset", "digits", "--epsilon", 2, "--epochs", 1, "--out", tmp_path / name, *more)

    code, _, err = trained("run", "--canaries", 9)
    assert (code, "9 canaries can prove next to nothing" in err, "of the rows" in err) == (0, True, False)
    code, _, err = trained("many", "--canaries", 60)
    assert (code, "% of the rows are canaries; above 2% the model itself suffers" in err) == (0, True)
    for more, message in (
        (("--canaries", 0), "--canaries is from 1 to"),
        (("--canaries", 10**6), "--canaries is from 1 to"),
        (("--canaries", 10, "--candidates", 0), "--candidates is from 2 to"),
        (("--candidates", 10), "each of the --canaries"),
    ):
        code, _, err = trained("refused", *more)
        assert (code, message in err, "--count" in err) == (2, True, False), err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--model", "nope"), "unknown model"),
        (("--model", "resnet18"), "at least 17"),
        (("--model", "linear", "--cutout", 4), "for images"),
        (("--model", "json:loads"), "your model json:loads failed"),
        (("--holdout", 1.5), "a share of the rows"),
        (("--select", "best", "--holdout", 0.001), "at least four rows"),
        (("--patience", 3), "goes with --select best"),
        (("--folds", 1), "--folds is from 2"),
        (("--canary-share", 2), "the share of canaries"),
        (("--stages", 2, "--model", "nope"), "unknown model"),
        (("--stages", 2, "--model", "mlp", "--cutout", 4), "for images"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_the_charge(tmp_path, cli, options, words):
    """Exit code 2 says that nothing was charged."""
    run = tmp_path / "run"
    code, out, err = cli("experiment", "--dataset", "digits", "--epsilon", 2, *options, "--out", run)
    assert (code, out) == (2, ""), err
    assert words in err
    assert not (run / "labels.ledger").exists()
    assert not (run / "released.parquet").exists()


MOODY = """
from pathlib import Path
from torch import nn


class Moody(nn.Linear):
    def __init__(self, shape, num_classes):
        super().__init__(shape[0], num_classes)

    def forward(self, x):
        if len(x) > 100 and (Path(__file__).parent / "bad day").exists():
            raise OSError("not today")
        return super().forward(x)
"""


@pytest.mark.parametrize("stages", [1, 2])
def test_what_fails_after_the_charge_says_that_it_is_paid_for(tmp_path, cli, monkeypatch, stages):
    """A model that a rehearsal of a few rows cannot see through; the same command then finishes, under the one charge of each part."""
    (tmp_path / "moody.py").write_text(MOODY)
    (tmp_path / "bad day").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "moody", raising=False)
    run = tmp_path / "run"
    options = (
        "--epsilon",
        2,
        "--model",
        "moody:Moody",
        "--epochs",
        1,
        "--batch-size",
        256,
        "--stages",
        stages,
        "--out",
        run,
    )
    command = ("experiment", "--dataset", "digits", *options)
    code, out, err = cli(*command)
    assert (code, out) == (4, ""), err
    assert "moody:Moody failed" in err
    assert "The release is charged (entry" in err
    code, _, err = cli(*command)  # this one has charged nothing
    assert (code, "is charged" in err) == (2, False), err
    (tmp_path / "bad day").unlink()
    code, _, err = cli(*command)
    assert code == 0, err
    assert len(Ledger(run / "labels.ledger").book().releases) == stages


@pytest.mark.parametrize("stages", [1, 2])
def test_steps_of_more_parts_than_rows_are_refused_before_anything_is_paid(tmp_path, stages):
    """They would be refused by the first step, once everything is charged, and for ever."""
    given = {"dataset": "digits", "epsilon": 2.0, "model": "mlp", "epochs": 1, "stages": stages}
    with pytest.raises(InputError, match="lower `accumulate`"):
        experiment(ExperimentOptions(out=tmp_path / "run", batch_size=100_000, accumulate=40_000, **given))
    assert not (tmp_path / "run" / "labels.ledger").exists()

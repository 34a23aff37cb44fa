"""Boosted trees and the exact linear solver in run directories: from two files to a judged model, with no torch in sight."""

import json
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("lightgbm")

import labeldp
from labeldp import commands
from labeldp.errors import InputError
from labeldp.estimators.boosted import BoostingRecipe
from labeldp.files.run import RunFolder
from labeldp.runs.job import Job
from labeldp.runs.run import evaluate, fitted, open_run, predict, train

ROWS = 1500


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A CSV file with texts, holes and a secret; its first 1,000 rows released for training, the others to judge by; its features."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    kind, amount = rng.choice(["a", "b", "c", "d"], ROWS), rng.normal(size=ROWS)
    score = 2.0 * (kind == "b") - 2.0 * (kind == "c") + 1.5 * (amount > 0.5) - 1
    sold = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-score)), "yes", "no")
    lines = [f"v{i},{kind[i]},{amount[i]:.4f},{sold[i]}" for i in range(ROWS)]
    lines[7] = f"v7,,,{sold[7]}"  # a row with holes
    (folder / "all.csv").write_text("visit,kind,amount,sold\n" + "\n".join(lines) + "\n")
    for name, part in (("first", slice(0, 1000)), ("later", slice(1000, ROWS))):
        (folder / f"{name}.csv").write_text("visit,kind,amount,sold\n" + "\n".join(lines[part]) + "\n")
        commands.release(
            commands.ReleaseOptions(
                labels=folder / f"{name}.csv", label="sold", id_column="visit", classes="no,yes", epsilon=3.0, shuffle=True,
                ledger=folder / "labels.ledger", data_set=name, out=folder / f"{name}.parquet",
            )
        )  # fmt: skip
    for name, categories in (("kept", "keep"), ("plain", "one-hot")):
        options = commands.FeaturesOptions(
            file=folder / "all.csv",
            labels=("sold",),
            id_column="visit",
            categories=categories,
            out=folder / f"{name}.parquet",
        )
        commands.features(options)
    return folder, sold


def options(folder, out, **given):
    usual = {"release": folder / "first.parquet", "features": folder / "kept.parquet", "id_column": "visit", "model": "lightgbm",
             "threads": 1}  # fmt: skip
    return commands.TrainOptions(**{**usual, "out": out, **given})


def judged(folder, run, **given):
    usual = {
        "folder": run,
        "release": folder / "later.parquet",
        "features": folder / "kept.parquet",
        "id_column": "visit",
    }
    return commands.evaluate(commands.EvaluateOptions(**{**usual, **given}))


def test_trees_from_files_to_metrics(world, tmp_path):
    folder, sold = world
    summary = commands.train(options(folder, tmp_path / "run"))
    assert summary["model"] == "lightgbm"
    assert set(summary["metrics"]) == {"roc_auc", "average_precision", "log_loss", "brier", "log_likelihood"}
    low, high = summary["metrics"]["roc_auc"]["interval_95"]
    assert 0 <= low < high <= 1
    run = RunFolder(tmp_path / "run")
    assert run.fitted.exists()
    assert run.curves.exists()
    assert not run.checkpoint.exists()
    assert [line["epoch"] for line in run.history()] == list(range(1, len(run.history()) + 1))
    found = judged(folder, tmp_path / "run")
    commands.predict(
        commands.PredictOptions(folder=tmp_path / "run", features=folder / "kept.parquet", id_column="visit", out=tmp_path / "p.parquet")
    )  # fmt: skip
    scores = pq.read_table(tmp_path / "p.parquet").to_pydict()
    by_id = dict(
        zip(
            scores["id"], scores["p_1"] if "p_1" in scores else [row[1] for row in scores["probabilities"]], strict=True
        )
    )
    truth = sold[1000:] == "yes"
    values = np.array([by_id[f"v{i}"] for i in range(1000, ROWS)])
    from sklearn.metrics import roc_auc_score

    auc = roc_auc_score(truth, values)
    assert auc > 0.75
    low, high = found.judged.metrics["roc_auc"].interval_95
    assert low <= auc <= high
    # Again, it is the same run; asked for something else there, it is refused.
    assert commands.train(options(folder, tmp_path / "run"))["metrics"] == summary["metrics"]
    with pytest.raises(InputError, match="holds another run"):
        commands.train(options(folder, tmp_path / "run", seed=5))


def test_one_metric_at_a_time(world, tmp_path):
    folder, _ = world
    commands.train(options(folder, tmp_path / "run", epochs=5))
    assert list(judged(folder, tmp_path / "run", metric="roc_auc").judged.metrics) == ["roc_auc"]
    both = judged(
        folder, tmp_path / "run", metric=("precision", "recall"), threshold=0.3, positive="yes"
    ).judged.metrics
    assert list(both) == ["precision", "recall"]
    other = judged(folder, tmp_path / "run", metric="roc_auc", positive="no").judged.metrics["roc_auc"]
    assert other.value == pytest.approx(
        judged(folder, tmp_path / "run", metric="roc_auc").judged.metrics["roc_auc"].value
    )
    for given, message in (
        ({"metric": "f1"}, "unknown metric 'f1'"),
        ({"metric": "recall"}, "threshold"),
        ({"threshold": 0.5}, "threshold"),
        ({"metric": "roc_auc", "positive": "maybe"}, "no, yes"),
    ):
        with pytest.raises(InputError, match=message):
            judged(folder, tmp_path / "run", **given)
    with pytest.raises(InputError, match="were trained on"):
        judged(folder, tmp_path / "run", release=folder / "first.parquet")


def test_the_linear_model_has_an_exact_solver_unless_steps_are_asked_for(world, tmp_path):
    folder, _ = world
    plain = {"features": folder / "plain.parquet", "model": "linear"}
    summary = commands.train(options(folder, tmp_path / "exact", **plain))
    assert RunFolder(tmp_path / "exact").fitted.exists()
    assert summary["metrics"]["roc_auc"]["value"] > 0.6
    strengths = RunFolder(tmp_path / "exact").history()
    assert len(strengths) > 2
    commands.train(options(folder, tmp_path / "steps", epochs=2, **plain))
    assert RunFolder(tmp_path / "steps").checkpoint.exists()
    assert not RunFolder(tmp_path / "steps").fitted.exists()
    assert judged(folder, tmp_path / "exact", features=folder / "plain.parquet").judged.accuracy.accuracy > 0.6


_WITHOUT_TORCH = """
import sys
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "safetensors"):
            raise ImportError("no torch here")
sys.meta_path.insert(0, Gone())
from labeldp.cli import main
sys.argv = ["labeldp", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(("model", "features"), [("lightgbm", "kept"), ("linear", "plain")])
def test_no_torch_is_needed(world, tmp_path, model, features):
    folder, _ = world
    common = ["--features", folder / f"{features}.parquet", "--id", "visit"]
    for line in (
        [
            "train",
            "--release",
            folder / "first.parquet",
            *common,
            "--model",
            model,
            "--threads",
            "1",
            "--out",
            tmp_path / "run",
        ],
        ["predict", tmp_path / "run", *common, "--out", tmp_path / "p.parquet"],
        ["evaluate", tmp_path / "run", "--release", folder / "later.parquet", *common, "--metric", "roc_auc"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", _WITHOUT_TORCH, *map(str, line)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert "ROC AUC 0." in done.stdout


def test_what_does_not_fit_is_refused_in_a_sentence(world, tmp_path):
    folder, _ = world
    out = tmp_path / "run"
    for given, message in (
        ({"batch_size": 10}, "`batch_size` is for models that are trained by gradient steps"),
        ({"select": "best"}, "always stops by the likelihood"),
        ({"model": "linear"}, "needs numbers everywhere"),
        ({"model": "mlp", "epochs": 1}, "or use `model='lightgbm'`"),
        ({"epochs": 0}, "rounds is a whole number from 1"),
        ({"learning_rate": 3.0}, "rate is a number from 0.0001 to 1"),
        ({"threads": 0}, "at least 1"),
    ):
        with pytest.raises(InputError, match=message):
            commands.train(options(folder, out, **given))
        assert not out.exists()


def test_other_codes_are_refused(world, tmp_path):
    """The same column encoded anew has other codes: predictions would be silently wrong."""
    folder, _ = world
    commands.train(options(folder, tmp_path / "run", epochs=3))
    (tmp_path / "new.csv").write_text("visit,kind,amount\nw1,d,0.5\nw2,d,0.1\nw3,a,1\n")
    commands.features(
        commands.FeaturesOptions(
            file=tmp_path / "new.csv", no_label=True, id_column="visit", categories="keep", out=tmp_path / "new.parquet"
        )
    )
    given = {"folder": tmp_path / "run", "id_column": "visit", "out": tmp_path / "p.parquet"}
    with pytest.raises(InputError, match="stand for other values"):
        commands.predict(commands.PredictOptions(features=tmp_path / "new.parquet", **given))
    commands.features(
        commands.FeaturesOptions(file=tmp_path / "new.csv", like=folder / "kept.parquet", out=tmp_path / "like.parquet")
    )
    assert commands.predict(commands.PredictOptions(features=tmp_path / "like.parquet", **given))["rows"] == 3


def test_a_damaged_model_is_refused(world, tmp_path):
    folder, _ = world
    commands.train(options(folder, tmp_path / "run", epochs=3))
    run = RunFolder(tmp_path / "run")
    whole = run.fitted.read_bytes()
    for content in (b"", b"{}", whole[: len(whole) // 2], whole.replace(b"threshold=", b"threshold=1e999 ")):
        run.fitted.write_bytes(content)
        with pytest.raises(InputError, match="damaged"):
            open_run(run.path)
    run.fitted.write_bytes(whole)
    config = json.loads(run.config.read_text())
    run.config.write_text(json.dumps({**config, "model": "fast"}))
    with pytest.raises(InputError, match="damaged"):
        open_run(run.path)


def test_folds_and_memory_and_judging_from_python(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 600)
    features = (2 * np.eye(3, 4)[labels] + rng.normal(size=(600, 4))).astype(np.float32)
    mechanism = labeldp.SubsetSelection.calibrated(epsilon=3.0, num_classes=3)
    ids = [f"r{i}" for i in range(600)]
    release = mechanism.release(labels, data_set="d", ids=ids, ledger=tmp_path / "l", entropy=labeldp.SeededEntropy(1))
    job = Job(release, features, "lightgbm", BoostingRecipe(rounds=20), holdout=0.2)
    summary = train(job, tmp_path / "run")
    assert [one["name"] for one in summary["metrics"]["roc_auc"]["by_class"]] == ["roc_auc"] * 3
    np.testing.assert_array_equal(fitted(job)(features), predict(tmp_path / "run", features))
    with pytest.raises(InputError, match="were trained on"):
        evaluate(tmp_path / "run", release, features)
    from labeldp.runs.crossfit import cross_fit

    folds = cross_fit(job, tmp_path / "folds", 3)
    assert folds["rows_judged"] == 600
    assert folds["accuracy_estimated"] > 0.6
    assert pq.read_table(tmp_path / "folds" / "crossfitted.parquet").num_rows == 600


@pytest.mark.parametrize(
    ("model", "library", "extra"), [("lightgbm", "lightgbm", "lightgbm"), ("linear", "scipy", "sklearn")]
)
def test_a_missing_library_is_named_before_anything_is_written(world, tmp_path, model, library, extra, monkeypatch):
    folder, _ = world
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"labeldp\[{extra}\]"):
        commands.train(options(folder, tmp_path / "run", model=model, features=folder / "plain.parquet"))
    assert not (tmp_path / "run").exists()

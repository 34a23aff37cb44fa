"""Runs from the command line: two parties, experiments, predictions, honest evaluation."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp
from labeldp.errors import InputError
from labeldp.files.run import RunFolder
from labeldp.release.classes import Classes
from labeldp.training.trainer import Trainer
from tests.commands.releasing import release_file

ROWS = 2000


@pytest.fixture
def parties(tmp_path):
    """A label owner's release (two halves), and a feature owner's table in another order."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 5)) * 3
    labels = rng.integers(0, 3, ROWS)
    features = (centres[labels] + rng.normal(size=(ROWS, 5))).astype(np.float32)
    ids = [f"u{i}" for i in range(ROWS)]
    pq.write_table(pa.table({"uid": ids, "y": labels}), tmp_path / "labels.parquet")
    order = rng.permutation(ROWS)
    columns = {f"x{j}": features[order, j] for j in range(5)}
    pq.write_table(pa.table({"uid": [ids[i] for i in order], **columns}), tmp_path / "x.parquet")
    for name, rows in (("train", "0:1500"), ("heldout", "1500:2000")):
        options = {
            "label": "y", "classes": Classes(3), "epsilon": 2.0, "id_column": "uid", "data_set": "visits",
            "ledger": tmp_path / "l.ledger", "rows": tuple(map(int, rows.split(":"))),
        }  # fmt: skip
        release_file(tmp_path / "labels.parquet", tmp_path / f"{name}.parquet", options)
    return tmp_path, labels, ids


def arguments(folder, **changes):
    given = {"--release": folder / "train.parquet", "--features": folder / "x.parquet", "--id": "uid", "--out": folder / "run",
             "--epochs": 5, "--model": "linear"} | changes  # fmt: skip
    return ["train", *[part for pair in given.items() if pair[1] is not None for part in pair]]


def test_two_parties(parties, cli):
    folder, labels, ids = parties
    code, out, _ = cli(*arguments(folder), "--json")
    assert code == 0
    summary = json.loads(out)
    assert summary["certificate"]["epsilon"] == pytest.approx(2.0)
    assert (summary["rows_trained"], summary["rows_held_out"], summary["insecure"]) == (1350, 150, None)
    assert abs(summary["accuracy_estimated"] - 0.95) < 5 * summary["standard_error"]
    assert summary["accuracy_test"] is None
    assert summary["train_flop"] == 5 * 1350 * 3 * 2 * 5 * 3
    assert sorted(name for name in os.listdir(folder / "run") if name != ".lock") == [
        "config.json", "confusion.json", "metrics.jsonl", "model.safetensors", "starts.json", "summary.json", "trained.parquet",
    ]  # fmt: skip
    assert json.loads((folder / "run" / "summary.json").read_text()) == {"kind": "training", **summary}

    code, _, _ = cli(
        "predict", folder / "run", "--features", folder / "x.parquet", "--id", "uid", "--out", folder / "s.parquet"
    )
    scores = pq.read_table(folder / "s.parquet")
    guesses = dict(
        zip(
            scores.column("id").to_pylist(), np.array(scores.column("probabilities").to_pylist()).argmax(1), strict=True
        )
    )
    truth = np.mean([guesses[name] == label for name, label in zip(ids[1500:], labels[1500:], strict=True)])
    assert truth > 0.9

    code, out, _ = cli("evaluate", folder / "run", "--release", folder / "heldout.parquet", "--features", folder / "x.parquet",
                       "--id", "uid", "--json")  # fmt: skip
    estimate = json.loads(out)
    assert abs(estimate["accuracy_estimated"] - truth) < 5 * estimate["standard_error"]
    assert estimate["rows_judged"] == 500


def test_rows_that_were_trained_on_are_refused(parties, cli):
    folder, _, _ = parties
    cli(*arguments(folder))
    code, _, err = cli(
        "evaluate",
        folder / "run",
        "--release",
        folder / "train.parquet",
        "--features",
        folder / "x.parquet",
        "--id",
        "uid",
    )
    assert code == 2
    assert "1,350 of these rows were trained on" in err


def test_evaluate_is_not_fooled(parties, cli):
    """Ids of another type or under another data set's name, other classes, the label among the features."""
    folder, labels, ids = parties
    cli(*arguments(folder))

    def evaluated(name, ids, **changes):
        release = labeldp.RandomizedResponse.calibrated(epsilon=2.0, num_classes=changes.pop("classes", 3)).release(
            labels[: len(ids)], data_set=name, ids=ids, ledger=folder / f"{name}.ledger", **changes
        )
        release.save(folder / f"{name}.parquet")
        return cli(
            "evaluate",
            folder / "run",
            "--release",
            folder / f"{name}.parquet",
            "--features",
            folder / "x.parquet",
            "--id",
            "uid",
        )

    code, _, err = evaluated("other-name", ids[:1000])
    assert (code, "were trained on" in err) == (2, True)
    code, _, err = evaluated("more", ids[1500:], classes=5)
    assert (code, "other classes" in err) == (2, True)
    code, _, err = evaluated("renamed", ids[1500:], label_names=["a", "b", "c"])
    assert (code, "other classes" in err) == (2, True)


def test_the_label_is_no_feature(parties, cli):
    folder, labels, _ids = parties
    table = pq.read_table(folder / "x.parquet")
    pq.write_table(table.append_column("y", pa.array(labels)), folder / "with.parquet")
    code, _, err = cli(*arguments(folder, **{"--features": folder / "with.parquet"}))
    assert (code, "leave it out" in err) == (2, True)
    cli(*arguments(folder))
    code, _, err = cli(
        "predict", folder / "run", "--features", folder / "with.parquet", "--id", "uid", "--out", folder / "s.npy"
    )
    assert (code, "leave it out" in err) == (2, True)


def test_a_cut_line_of_metrics_is_no_obstacle(parties, cli):
    folder, _, _ = parties
    cli(*arguments(folder))
    metrics = folder / "run" / "metrics.jsonl"
    metrics.write_text(metrics.read_text() + '{"epoch": 9, "lo')
    (folder / "run" / "summary.json").unlink()
    assert cli(*arguments(folder))[0] == 0
    assert json.loads((folder / "run" / "summary.json").read_text())["epochs"] == 5


def test_another_run_is_not_mixed_in(parties, cli):
    folder, _, _ = parties
    cli(*arguments(folder))
    assert cli(*arguments(folder))[0] == 0  # the same again: nothing left to do
    code, _, err = cli(*arguments(folder, **{"--epochs": 6}))
    assert code == 2
    assert "holds another run" in err


def test_bad_input(parties, cli, tmp_path):
    folder, _, _ = parties
    table = pq.read_table(folder / "x.parquet")
    pq.write_table(table.slice(0, 1000), folder / "few.parquet")
    nan = np.array(table.column("x0").to_numpy())
    nan[7] = np.nan
    pq.write_table(table.set_column(1, "x0", pa.array(nan, from_pandas=False)), folder / "nan.parquet")
    pq.write_table(table.append_column("city", pa.array(["a"] * ROWS)), folder / "text.parquet")
    np.save(folder / "x.npy", np.zeros((ROWS, 5)))
    for changes, message in (
        ({"--features": folder / "few.parquet"}, "have no features"),
        ({"--features": folder / "nan.parquet"}, "row 7"),
        ({"--features": folder / "text.parquet"}, "column 'city'"),
        ({"--features": folder / "x.npy"}, "no columns"),
        ({"--features": folder / "x.npy", "--id": None}, "names its rows by id"),
        ({"--features": None}, "Missing option '--features'"),
        ({"--id": "nobody"}, "no column 'nobody'"),
        ({"--release": folder / "x.parquet"}, "not a labeldp release"),
        ({"--holdout": 1}, "--holdout"),
        ({"--model": "magic"}, "unknown model"),
        ({"--model": "fast"}, "for images"),
        ({"--dataset": "digits"}, "leave out --release"),
    ):
        code, out, err = cli(*arguments(folder, **changes))
        assert (code, out) == (2, ""), message
        assert message in err
    assert cli("predict", tmp_path / "none", "--features", folder / "x.npy", "--out", tmp_path / "o.npy")[0] == 2


def test_positions_without_ids(tmp_path, cli):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 400)
    np.save(tmp_path / "x.npy", (labels[:, None] * 4 + rng.normal(size=(400, 3))).astype(np.float32))
    pq.write_table(pa.table({"row": np.arange(400), "y": labels}), tmp_path / "y.parquet")
    cli("release", tmp_path / "y.parquet", "--label", "y", "--classes", "2", "--epsilon", "3", "--ledger", tmp_path / "l",
        "--out", tmp_path / "r.parquet")  # fmt: skip
    code, _out, _ = cli(
        "train",
        "--release",
        tmp_path / "r.parquet",
        "--features",
        tmp_path / "x.npy",
        "--out",
        tmp_path / "run",
        "--json",
    )
    assert code == 0
    cli("predict", tmp_path / "run", "--features", tmp_path / "x.npy", "--out", tmp_path / "p.npy")
    assert (np.load(tmp_path / "p.npy").argmax(axis=1) == labels).mean() > 0.95


def test_experiments_release_once(tmp_path, cli):
    command = [
        "experiment",
        "--dataset",
        "digits",
        "--epsilon",
        "4",
        "--epochs",
        "3",
        "--out",
        tmp_path / "run",
        "--threads",
        "1",
        "--json",
    ]
    code, out, _ = cli(*command)
    assert code == 0
    first = json.loads(out)
    assert first["accuracy_test"] > 0.6
    assert first["mechanism"]["name"] == "response"
    again = json.loads(cli(*command)[1])
    assert again["release"] == first["release"]
    assert len(labeldp.Ledger(tmp_path / "run" / "labels.ledger").book().releases) == 1


def test_experiments_without_privacy_say_so(tmp_path, cli):
    code, out, _ = cli(
        "experiment", "--dataset", "digits", "--mechanism", "none", "--epochs", "5", "--out", tmp_path / "run"
    )
    assert code == 0
    assert "certificate  none: no privacy" in out
    assert "INSECURE" in out
    assert cli("experiment", "--dataset", "digits", "--out", tmp_path / "b")[0] == 2
    assert cli("experiment", "--dataset", "moons", "--epsilon", "1", "--out", tmp_path / "c")[0] == 2


def test_killed_and_resumed(tmp_path):
    """A real kill -9 after some epoch; the resumed run ends where an uninterrupted one does."""

    def command(folder):
        return [sys.executable, "-m", "labeldp", "experiment", "--dataset", "digits", "--epsilon", "4", "--insecure-seed", "1", "--model",
                "mlp", "--epochs", "40", "--threads", "1", "--dtype", "float32", "--out", str(folder)]  # fmt: skip

    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = subprocess.Popen(command(killed), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    metrics = killed / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (metrics.exists() and metrics.read_text().count("\n") >= 3):
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (killed / "summary.json").exists()
    for folder in (killed, whole):
        subprocess.run(command(folder), check=True, capture_output=True)
    results = [json.loads((folder / "summary.json").read_text()) for folder in (killed, whole)]
    for key in ("accuracy_test", "accuracy_estimated", "train_flop"):
        assert results[0][key] == results[1][key]


def test_metrics_that_cannot_be_read_or_written_are_said(parties, cli):
    folder, _, _ = parties
    (folder / "run" / "metrics.jsonl").mkdir(parents=True)
    code, _, err = cli(*arguments(folder))
    assert code == 2
    assert "metrics.jsonl cannot be read: Is a directory." in err
    with pytest.raises(InputError, match=r"metrics\.jsonl cannot be written: Is a directory\."):
        RunFolder(folder / "run").add({"epoch": 1})


def test_a_lock_that_cannot_be_made_is_said(parties, cli):
    folder, _, _ = parties
    (folder / "run" / ".lock").mkdir(parents=True)
    code, _, err = cli(*arguments(folder))
    assert code == 2
    assert ".lock cannot be written: Is a directory." in err


def test_an_epoch_whose_model_could_not_be_kept_is_noted_once(parties, cli, monkeypatch):
    folder, _, _ = parties
    kept = []

    def full(trainer, path):
        kept.append(path)
        if len(kept) == 3:
            raise InputError(f"there is not enough room on the disk for {path}.")
        trainer.save(path)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "save", full)
        assert cli(*arguments(folder))[0] == 2
    left = folder / "run" / ".labeldp-01234567-dead.part"
    left.write_bytes(b"half")
    assert cli(*arguments(folder))[0] == 0
    metrics = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in metrics] == [1, 2, 3, 4, 5]
    assert not left.exists()

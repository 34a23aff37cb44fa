"""Which rows choose, which rows report, and clean labels only where they are public."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import labeldp
from labeldp.commands import TrainOptions
from labeldp.commands.progress import SILENT
from labeldp.commands.train import fit
from labeldp.errors import InputError
from labeldp.machine import ALONE
from labeldp.mechanisms import PriorAware
from labeldp.mechanisms.candidates import most_informative
from labeldp.runs.crossfit import cross_fit
from labeldp.runs.job import Job
from labeldp.runs.run import open_run, train
from labeldp.training.recipe import Recipe

ROWS = 1500


def world(rows=ROWS, seed=0):
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(3, 5)) * 1.2
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, rows)
    return (centres[labels] + rng.normal(size=(rows, 5))).astype(np.float32), labels


@pytest.fixture
def job(tmp_path):
    features, labels = world()
    mechanism = labeldp.SubsetSelection.calibrated(epsilon=2.0, num_classes=3)
    release = mechanism.release(
        labels, data_set="rows", ids=[f"r{i}" for i in range(ROWS)], ledger=tmp_path / "l", entropy=labeldp.SeededEntropy(5)
    )  # fmt: skip
    return Job(release, features, "linear", Recipe(6, 64, 0.05), holdout=0.4)


def test_no_row_is_in_two_parts(job):
    for changed in (job, replace(job, select="best"), replace(job, fold=(1, 4)), replace(job, holdout=0.0)):
        split = changed.split()
        together = np.concatenate([split.train, split.select, split.report])
        np.testing.assert_array_equal(np.sort(together), np.arange(ROWS))
    chosen = replace(job, select="best").split()
    assert (len(chosen.train), len(chosen.select), len(chosen.report)) == (900, 300, 300)
    parts = [replace(job, fold=(k, 4)).split().report for k in range(4)]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(ROWS))


def test_rows_that_are_left_out_are_not_trained_on_but_judge(job):
    usual, left_out = replace(job, select="best").split(), np.arange(0, ROWS, 3)
    split = replace(job, select="best", left_out=left_out).split()
    np.testing.assert_array_equal(split.select, usual.select)
    np.testing.assert_array_equal(split.report, usual.report)
    np.testing.assert_array_equal(split.train, np.setdiff1d(usual.train, left_out))
    np.testing.assert_array_equal(split.dropped, np.intersect1d(usual.train, left_out))
    with pytest.raises(InputError, match="left out"):
        replace(job, left_out=np.arange(ROWS)).split()
    configs = [replace(job, left_out=rows).config() for rows in (None, left_out, left_out[1:], left_out[::-1])]
    assert "left_out" not in configs[0]
    assert configs[1] == configs[3] != configs[2]


def test_the_best_epoch_is_kept_and_the_other_half_reports(job, tmp_path):
    # A learning rate that spoils the last epochs: the best is an earlier one.
    job = replace(job, select="best", recipe=replace(job.recipe, learning_rate=8.0, epochs=8))
    summary = train(job, tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    scores = [line["likelihood_selecting"] for line in lines]
    assert summary["epoch_selected"] == 1 + int(np.argmax(scores))
    assert (summary["epochs"], summary["rows_judged"], summary["rows_held_out"]) == (8, 300, 600)
    predicted, _ = open_run(tmp_path / "run")
    split = job.split()
    predictions = predicted(job.features[split.report]).argmax(axis=1)
    assert summary["accuracy_unbiased"] == job.release.estimate_accuracy(split.report, predictions).unbiased
    joint = np.log(predicted(job.features[split.select])) + job.release.evidence(split.select)
    assert max(scores) == pytest.approx(np.logaddexp.reduce(joint, axis=1).mean(), abs=1e-6)
    # Paired with the best so far, an epoch's gain says whether it became the best itself.
    best = [max(scores[:number]) for number in range(1, 8)]
    assert [line["gain_selecting"] > 0 for line in lines[1:]] == [
        now > b for now, b in zip(scores[1:], best, strict=True)
    ]


def test_patience_ends_a_training_and_a_resumed_one_at_the_same_epoch(job, tmp_path):
    job = replace(job, select="best", patience=2, recipe=replace(job.recipe, epochs=40))
    whole = train(job, tmp_path / "whole")
    assert whole["epochs"] < 40
    assert whole["epochs"] - whole["epoch_selected"] == 2

    class StopError(Exception):
        pass

    def stop(metrics):
        if metrics["epoch"] == whole["epoch_selected"]:
            raise StopError

    with pytest.raises(StopError):
        train(job, tmp_path / "cut", progress=stop)
    resumed = train(job, tmp_path / "cut")
    assert {**resumed, "seconds": 0} == {**whole, "seconds": 0}
    assert train(job, tmp_path / "cut") == resumed  # nothing left to do


def test_cross_fitting_judges_with_every_row_and_trains_on_all(job, tmp_path):
    summary = cross_fit(job, tmp_path / "run", 3)
    assert (summary["rows_judged"], summary["rows_trained"], summary["folds"]) == (ROWS, ROWS, 3)
    _, labels = world()
    scores = pq.read_table(tmp_path / "run" / "crossfitted.parquet")
    assert scores.column("id").to_pylist() == job.release.ids.tolist()
    guesses = np.array(scores.column("probabilities").to_pylist()).argmax(axis=1)
    truth = (guesses == labels).mean()
    assert abs(summary["accuracy_estimated"] - truth) < 4 * summary["standard_error"]
    one = train(job, tmp_path / "plain")
    assert summary["standard_error"] < 0.75 * one["standard_error"]  # all rows judge, not 40%
    assert summary["train_flop"] == 6 * 3 * ROWS * 3 * 2 * 5 * 3
    trained = pq.read_table(tmp_path / "run" / "fold-1" / "trained.parquet").column("id").to_pylist()
    assert len(trained) == 1000
    for wrong in (1, ROWS + 1):
        with pytest.raises(InputError, match="`folds`"):
            cross_fit(job, tmp_path / "b", wrong)
    with pytest.raises(InputError, match="do not go together"):
        cross_fit(replace(job, select="best"), tmp_path / "b", 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"select": "first"}, "last or best"),
        ({"patience": 3}, "`select='best'`"),
        ({"holdout": 1.0}, "`holdout`"),
        ({"select": "best", "patience": 0}, "from 1"),
    ],
)
def test_bad_choices(job, changes, message):
    with pytest.raises(InputError, match=message):
        replace(job, **changes)


def test_without_a_judge_there_is_no_accuracy(job, tmp_path):
    channels = most_informative(np.full((ROWS, 3), 1 / 3), 2.0)
    aware = PriorAware.calibrated(epsilon=2.0, num_classes=3, channels=channels)
    observations = aware.observe_given(labeldp.PrivateLabels(world()[1], 3), channels, labeldp.SeededEntropy(5))
    release = labeldp.Release(job.release.header, aware, pa.array(job.release.ids), observations, job.release.checksum)
    assert replace(job, release=release).judge() is None
    summary = train(replace(job, release=release), tmp_path / "run")
    assert summary["accuracy_estimated"] is None
    assert summary["standard_error"] is None
    assert summary["commonest_class_estimated"] is None


def test_too_few_rows_to_choose_by(job):
    with pytest.raises(InputError, match="raise `holdout`"):
        replace(job, select="best", holdout=0.001).split()


# ── clean test labels, from the command line ──


@pytest.fixture
def files(job, tmp_path):
    job.release.save(tmp_path / "released.parquet")
    columns = {f"x{i}": job.features[:, i] for i in range(5)}
    pq.write_table(pa.table({"uid": job.release.ids.tolist(), **columns}), tmp_path / "x.parquet")
    features, labels = world(400, seed=1)
    ids = [f"t{i}" for i in range(400)]
    pq.write_table(pa.table({"uid": ids, **{f"x{i}": features[:, i] for i in range(5)}}), tmp_path / "tx.parquet")
    order = np.random.default_rng(0).permutation(400)
    pq.write_table(pa.table({"uid": [ids[i] for i in order], "y": labels[order]}), tmp_path / "ty.parquet")
    np.save(tmp_path / "ty.npy", labels)
    pq.write_table(pa.table({"uid": ids[:300], "y": labels[:300]}), tmp_path / "few.parquet")
    pq.write_table(pa.table({"uid": ids, "y": labels + 1}), tmp_path / "more.parquet")
    return tmp_path


def arguments(folder, *more, out="run"):
    return ["train", "--release", folder / "released.parquet", "--features", folder / "x.parquet", "--id", "uid", "--epochs", "3",
            "--out", folder / out, *more]  # fmt: skip


def test_public_test_labels(files, cli):
    results = []
    for name in ("ty.parquet", "ty.npy"):
        given = ("--test-features", files / "tx.parquet", "--test-labels", files / name, "--test-labels-are-public")
        code, out, err = cli(*arguments(files, *given, "--json", out=f"run-{name}"))
        assert code == 0, err
        results.append(json.loads(out)["accuracy_test"])
    assert results[0] == results[1] > 0.6
    code, out, _ = cli(*arguments(files, *given, out="text"))
    assert f"{results[0]:.2%} (95%: " in out
    assert "public test labels" in out


def test_test_labels_need_a_word(files, cli):
    labels, test = ("--test-labels", files / "ty.parquet"), ("--test-features", files / "tx.parquet")
    for given, message in (
        ((*test, *labels), "--test-labels-are-public"),
        ((*labels, "--test-labels-are-public"), "--test-features with"),
        ((*test, "--test-labels", files / "few.parquet", "--test-labels-are-public"), "100 rows of the test features have no label"),
        ((*test, "--test-labels", files / "more.parquet", "--test-labels-are-public"), "none of the release's 3 classes"),
        ((*test, "--test-labels", files / "x.parquet", "--test-labels-are-public"), "one column beside the id"),
    ):  # fmt: skip
        code, out, err = cli(*arguments(files, *given))
        assert (code, out) == (2, ""), message
        assert message in err


def test_selection_and_folds_from_the_command_line(files, cli):
    code, out, err = cli(*arguments(files, "--select", "best", "--holdout", "0.4", out="best"))
    assert code == 0
    assert "selected     epoch" in out
    assert "of the rows that select" in err
    assert "left" in err
    code, out, _ = cli(*arguments(files, "--folds", "3", out="folds"))
    assert code == 0
    assert "1,500 cross-fitted (by models trained on 67% of the rows) released labels" in out
    assert cli(*arguments(files, "--holdout", "0", out="folds"))[0] == 2  # another run


def test_a_file_is_no_run_directory(files, cli):
    code, _, err = cli(*arguments(files, out="x.parquet"))
    assert (code, "cannot be made a run directory" in err) == (2, True)


def test_memory_that_runs_out_is_explained(files, cli):
    code, out, err = cli(*arguments(files, "--model", "tests.runs.test_job:Greedy"))
    assert (code, out) == (2, "")
    assert "memory ran out; a smaller --batch-size (it is 128)" in err


class Greedy(torch.nn.Module):
    def __init__(self, shape, num_classes):
        super().__init__()
        self.layer = torch.nn.Linear(*shape, num_classes)

    def forward(self, x):
        return self.layer(x) + torch.empty(1 << 50).sum()


def test_tensorboard(files, cli):
    pytest.importorskip("tensorboard")
    assert cli(*arguments(files, "--tensorboard"))[0] == 0
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(files / "run" / "tensorboard"))
    events.Reload()
    lines = [json.loads(line)["loss"] for line in (files / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [event.value for event in events.Scalars("loss")] == pytest.approx(lines)


def test_tensorboard_is_refused_under_central_trust(tmp_path):
    """Its files tell the second of every epoch, and so how long work on private labels before it took."""
    given = TrainOptions(out=tmp_path / "run", features=tmp_path, tensorboard=True)
    with pytest.raises(InputError, match="`tensorboard` notes the time"):
        fit(given, SimpleNamespace(timed=False), None, SILENT, ALONE)
    assert not (tmp_path / "run").exists()

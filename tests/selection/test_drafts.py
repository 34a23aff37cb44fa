"""Private selection from charge to model: one charge, one winner, and no trace of how often and with what it was tried."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from labeldp import Ledger, Release, SeededEntropy
from labeldp.accounting.entries import CHARGED, PUBLISHED
from labeldp.data.bundled import load
from labeldp.data.features import Features
from labeldp.errors import AlreadyReleasedError, InputError, LedgerError, UnfinishedError
from labeldp.mechanisms import Selected
from labeldp.mechanisms.repeats import Repeats, TwoSidedGeometric
from labeldp.private import PrivateLabels
from labeldp.release.classes import Classes
from labeldp.release.source import ArraySource
from labeldp.runs.run import predict
from labeldp.selection import drafts as selection
from labeldp.selection.candidates import candidates, listed
from labeldp.selection.drafts import PrivateSelection, score_path

ROWS = 300
RATES = {"mechanism": ["subset", "laplace"], "epochs": [3], "learning_rate": [1e-6, 0.05]}


class Killed(BaseException):
    """Stands for kill -9: nothing catches it."""


def people(rows=ROWS, seed=0):
    """Three classes that a linear model can tell apart."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, rows)
    features = np.random.default_rng(9).normal(size=(3, 5))[labels] * 3 + rng.normal(size=(rows, 5))
    return labels, features.astype(np.float32)


def contest(options=RATES, *, labels=None, epsilon=6.0, mean=3.0, **changes):
    y, x = people()
    source = ArraySource(PrivateLabels(y if labels is None else labels, 3), Classes(3), [f"u{i}" for i in range(ROWS)])
    order = np.random.default_rng(1).permutation(ROWS)
    features = Features(x[order], np.array([f"u{i}" for i in order]), ("a", "b", "c", "d", "e"), named=True)
    return PrivateSelection(
        source, features, candidates(listed(options), "linear"), epsilon, Repeats(mean=mean), **changes
    )


def run(folder, what=None, out="chosen", **changes):
    return (what or contest()).run(folder / out, data_set="visits", ledger=Ledger(folder / "l.ledger"), **changes)


def charges(folder):
    return len(Ledger(folder / "l.ledger").book().releases)


@pytest.fixture
def runs(monkeypatch):
    """Every run of the base, the winner and the losers: what nobody may learn."""
    seen = []
    original = Selected._run

    def spy(self, *arguments):
        seen.append(original(self, *arguments))
        return seen[-1]

    monkeypatch.setattr(Selected, "_run", spy)
    return seen


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_one_charge_on_all_rows_and_one_winner(tmp_path, runs):
    done = run(tmp_path)
    told, release = done.selection, Release.load(tmp_path / "chosen" / "released.parquet")
    assert done.made.charged_now
    assert charges(tmp_path) == 1
    (record,) = Ledger(tmp_path / "l.ledger").book().releases.values()
    assert len(record.rows) == len(release) == ROWS  # scoring rows pay too
    assert record.cost == release.mechanism.certificate()
    assert record.cost.pure <= 6.0
    assert told["certificate"] == {"epsilon": record.cost.pure, "delta": 0.0, "reason": None}
    assert release.mechanism.repeats.cost(release.mechanism.base()) == record.cost
    best = max(runs, key=lambda one: one.right)  # the first of equals
    np.testing.assert_array_equal(release.observations, best.observations)
    assert told["candidate"] == best.number
    assert told["score"] == best.right / 30
    assert told["options"] == {"mechanism": told["options"]["mechanism"], "model": "linear", "epochs": 3,
                               "learning_rate": told["options"]["learning_rate"]}  # fmt: skip
    assert told["scoring_rows"] == 30
    assert told["score_epsilon"] <= told["base_epsilon"] <= 6.0
    assert told["repeats"] == {"mean": 3.0, "shape": 1.0}
    assert (told["trust"], told["insecure"], told["release"]) == ("central", None, release.checksum)
    assert json.loads((tmp_path / "chosen" / "selection.json").read_text()) == told
    said = release.mechanism.informative(release.observations)
    assert (~said).sum() == 30
    assert not release.evidence()[~said].any()
    assert done.summary["rows_trained"] == 270
    assert done.summary["rows_held_out"] == 0
    assert done.summary["accuracy_estimated"] is None  # a selected release cannot judge
    assert set(pq.read_table(tmp_path / "chosen" / "trained.parquet")["id"].to_pylist()) == set(release.ids[said])
    config = json.loads((tmp_path / "chosen" / "config.json").read_text())
    assert config["recipe"]["learning_rate"] == told["options"]["learning_rate"]


def test_the_model_that_leaves_is_the_one_that_scored(tmp_path):
    """At this ε the score's noise is 0 but for a chance of 2e-5: the published model has exactly the published score."""
    what = contest(epsilon=30.0, mean=4.0)
    assert what.mechanism.noise.deviation < 0.005
    done = run(tmp_path, what)
    release = Release.load(tmp_path / "chosen" / "released.parquet")
    scoring = ~release.mechanism.informative(release.observations)
    y, x = people()
    right = predict(tmp_path / "chosen", x[scoring]).argmax(axis=1) == y[scoring]
    assert right.mean() == done.selection["score"]


def test_asked_again_it_returns_the_first_and_charges_nothing(tmp_path, runs):
    first = run(tmp_path)
    count = len(runs)
    before = {name: (tmp_path / "chosen" / name).read_bytes() for name in files(tmp_path / "chosen")}
    again, elsewhere = run(tmp_path), run(tmp_path, out="other")
    assert len(runs) == count  # nothing is drawn
    assert {name: (tmp_path / "chosen" / name).read_bytes() for name in files(tmp_path / "chosen")} == before
    for one in (again, elsewhere):
        assert (one.made.charged_now, one.made.resumed) == (False, False)
        assert one.selection == first.selection
    assert charges(tmp_path) == 1
    assert [entry.kind for entry in Ledger(tmp_path / "l.ledger").verify()].count(CHARGED) == 1
    for other in (
        contest({**RATES, "learning_rate": [1e-6, 0.06]}),
        contest(score_share=0.2),
        contest(seed=1),
        contest(epsilon=5.0),
        contest(mean=4.0),
    ):
        with pytest.raises(AlreadyReleasedError, match="costs again"):
            run(tmp_path, other, out="third")
    assert not (tmp_path / "third").exists()
    assert charges(tmp_path) == 1


def test_a_lost_score_is_said(tmp_path):
    done = run(tmp_path)
    score_path(Ledger(tmp_path / "l.ledger"), done.made.record).unlink()
    with pytest.raises(LedgerError, match="holds the score"):
        run(tmp_path)


@pytest.mark.parametrize("step", [PUBLISHED, "rename"])
def test_the_score_is_that_of_the_draw_that_was_published(tmp_path, monkeypatch, runs, step):
    """Killed before publication everything is drawn again, score and release together; later, nothing is."""
    with monkeypatch.context() as patch:
        if step == "rename":
            patch.setattr("labeldp.release.make._finish_rename", _kill)
        else:
            original = Ledger.advance

            def advance(self, release, state, **facts):
                if state == step:
                    raise Killed
                original(self, release, state, **facts)

            patch.setattr(Ledger, "advance", advance)
        with pytest.raises(Killed):
            run(tmp_path)
    first = len(runs)
    done = run(tmp_path)
    assert done.made.resumed == (step == PUBLISHED)
    assert (len(runs) == first) == (step == "rename")
    winner = max(runs[first:] or runs, key=lambda one: one.right)
    release = Release.load(tmp_path / "chosen" / "released.parquet")
    np.testing.assert_array_equal(release.observations, winner.observations)
    assert done.selection["score"] == winner.right / 30
    assert charges(tmp_path) == 1


def _kill(*_, **__):
    raise Killed


# ── what it is for ──


def digits(options, **changes):
    bundle = load("digits")
    source = ArraySource(bundle.labels, Classes(10))
    features = Features(bundle.features, np.arange(len(bundle.features)))
    return PrivateSelection(source, features, candidates(listed(options), "linear"), **changes), bundle


class Blind(torch.nn.Module):
    """It looks at no feature."""

    def __init__(self, shape, num_classes):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(num_classes))

    def forward(self, x):
        return self.bias + torch.zeros(len(x), 1)


class Exploding(Blind):
    """Whatever it says is beyond all numbers."""

    def forward(self, x):
        return super().forward(x) * torch.inf


def test_a_clearly_better_candidate_wins_whenever_it_is_tried(tmp_path, runs, monkeypatch):
    """A blind model or the mlp on digits at ε = 8: a hundred of 144 right answers apart, each with noise of ε > 3.

    False alarm: below e^-90 for noise that hides 30 of them, and none for the draws, whose coins are seeded and show both candidates.
    """
    monkeypatch.setattr(Repeats, "draw", lambda self, entropy: 4)
    what, bundle = digits({"model": ["tests.selection.test_drafts:Blind", "mlp"], "epochs": 10}, epsilon=8.0)
    done = what.run(tmp_path / "out", data_set="digits", ledger=Ledger(tmp_path / "l.ledger"), entropy=SeededEntropy(2))
    assert {one.number for one in runs} == {0, 1}
    assert done.selection["score_epsilon"] > 3
    scores = [[one.right for one in runs if one.number == number] for number in (0, 1)]
    assert min(scores[1]) > max(scores[0]) + 30
    assert done.selection["candidate"] == 1
    assert done.selection["insecure"] == "the noise comes from a known seed"
    right = predict(tmp_path / "out", bundle.test_features).argmax(axis=1) == bundle.test_labels
    assert right.mean() > 0.8


def test_a_training_that_fails_is_never_right_and_says_nothing(tmp_path, runs, monkeypatch, capfd):
    monkeypatch.setattr(Repeats, "draw", lambda self, entropy: 6)
    original = selection._train_and_predict

    def predicted(job, rows):
        if job.recipe.epochs == 7:  # in the rehearsal it has 2
            raise InputError("the training diverged in epoch 5; a lower --learning-rate helps.")
        return original(job, rows)

    monkeypatch.setattr(selection, "_train_and_predict", predicted)
    what = contest([{"epochs": 7}, {"epochs": 8}], epsilon=8.0)
    done = run(tmp_path, what, entropy=SeededEntropy(1))
    assert {one.number for one in runs} == {0, 1}
    assert done.selection["options"]["epochs"] == 8
    assert max(one.right for one in runs if one.number == 0) < 10  # noise around 0: ten times its scale
    assert "diverged" not in "".join(capfd.readouterr())


def test_short_memory_is_no_score(tmp_path, monkeypatch):
    """The machine's failure, not the candidate's: charged, said, and finished by the same command."""
    original = selection._train_and_predict

    def predicted(job, rows):
        if job.recipe.epochs > 2:
            raise torch.OutOfMemoryError
        return original(job, rows)

    with monkeypatch.context() as patch:
        patch.setattr(selection, "_train_and_predict", predicted)
        with pytest.raises(UnfinishedError, match="memory ran out"):
            run(tmp_path)
    assert run(tmp_path).made.resumed
    assert charges(tmp_path) == 1


# ── what must stay secret ──


def test_nothing_tells_how_many_runs_there_were_or_holds_a_loser(tmp_path, runs, monkeypatch, capfd):
    """The same first run wins once of one and once of five: every file is the same, and no loser is in any."""
    told = {}
    for count in (1, 5):
        runs.clear()
        folder = tmp_path / str(count)
        folder.mkdir()
        scores = iter([10_000, *([0] * 9)])
        with monkeypatch.context() as patch:
            patch.setattr(Repeats, "draw", lambda self, entropy, count=count: count)
            patch.setattr(TwoSidedGeometric, "sample", lambda self, entropy, scores=scores: next(scores))
            run(folder, entropy=SeededEntropy(5))
        assert len(runs) == count
        everything = {name: (folder / name).read_bytes() for name in files(folder)}
        for loser in runs[1:]:
            for row in range(0, ROWS, 25):  # 25 rows in a row, as bytes
                piece = loser.observations[row : row + 25].tobytes()
                assert not any(piece in content for content in everything.values())
        release = Release.load(folder / "chosen" / "released.parquet")
        assert not any(np.array_equal(release.observations, loser.observations) for loser in runs[1:])
        json_files = {
            name: _nameless(content.replace(bytes(folder), b""))
            for name, content in everything.items()
            if name.endswith((".json", ".jsonl"))
        }
        printed = capfd.readouterr()
        names = sorted(re.sub(r"[0-9a-f]{16,}", "#", name) for name in everything)
        entries = [
            (entry.kind, entry.body.get("request"), sorted(entry.body))
            for entry in Ledger(folder / "l.ledger").verify()
        ]
        told[count] = names, json_files, release.observations.tobytes(), printed.out + printed.err, entries
    assert told[1] == told[5]
    assert told[5][3] == ""
    assert b'"day": null' in told[5][1]["chosen/starts.json"]  # not even the day: a long choice crosses midnight
    assert told[5][0] == [
        "chosen/.lock", "chosen/config.json", "chosen/metrics.jsonl", "chosen/model.safetensors", "chosen/released.parquet",
        "chosen/selection.json", "chosen/starts.json", "chosen/summary.json", "chosen/trained.parquet", "l.ledger",
        "l.ledger.releases/#.lock",
        "l.ledger.releases/4-#.parquet", "l.ledger.releases/head-7-#", "l.ledger.releases/ids-#.u64", "l.ledger.releases/selection-4.json",
    ]  # fmt: skip


def _nameless(content):
    """Without the checksum of a release, which holds the name of its ledger. (No seconds: tests/test_clocks.py has the whole of it.)"""
    return re.sub(rb'"[0-9a-f]{64}"', b"", content)


def test_shuffled_rows_are_the_same_rows_in_another_order(tmp_path, runs):
    """The file's order may be that of its labels; what was drawn for a row stays with its id."""
    done = run(tmp_path, shuffle=True)
    release = Release.load(tmp_path / "chosen" / "released.parquet")
    plain = contest().source
    names = [name for batch in plain.batches() for name in batch.ids.to_pylist()]
    assert sorted(release.ids.tolist()) == sorted(names)
    assert release.ids.tolist() != names  # the same order comes once in 300!
    assert done.summary["release"] == release.checksum
    # One of the runs is what was published, row by row.
    place = {name: i for i, name in enumerate(names)}
    order = [place[name] for name in release.ids.tolist()]
    kept = release.mechanism.evidence(release.observations)
    assert any(np.array_equal(release.mechanism.evidence(one.observations)[order], kept) for one in runs)
    assert run(tmp_path, shuffle=True).made.charged_now is False


def test_private_files_stay_private(tmp_path):
    done = run(tmp_path)
    path = score_path(Ledger(tmp_path / "l.ledger"), done.made.record)
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


# ── before the charge ──


GRID = {"epochs": [1], "learning_rate": [0.1, 0.2]}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"mechanism": "gaussian"}, "response, subset, unary, laplace; got 'gaussian'"), ({"mechanism": "none"}, "got 'none'"),
        ({"mechanism": "selected"}, "got 'selected'"), ({"epochs": 0}, "candidate 1 .*at least one epoch"),
        ({"batch_size": 1}, "candidate 1 .*at least two rows"), ({"learning_rate": 0}, "candidate 1 .*must be positive"),
        ({"model": "tests.selection.test_drafts:Exploding"}, "candidate 1 .*diverged"),
        ({"weight_decay": -1}, "candidate 1 .*not negative"),
        ({"average": 1}, "candidate 1 .*`average`"), ({"prior": "uniform"}, "candidate 1 .*`prior`"),
        ({"denoise": "prayer"}, "candidate 1 .*`denoise`"), ({"randaugment": -1}, "candidate 1 .*not negative"),
        ({"randaugment": 2}, "candidate 1 .*for images"), ({"cutout": 3}, "candidate 1 .*for images"),
        ({"model": "transformer"}, "candidate 1 .*unknown model"), ({"model": "fast"}, "candidate 1 .*for images"),
        ({"model": "nowhere:Model"}, "candidate 1 .*cannot be imported"),
    ],
)  # fmt: skip
def test_a_candidate_that_cannot_be_trained_charges_nothing(tmp_path, runs, bad, message):
    with pytest.raises(InputError, match=message):
        run(tmp_path, contest([{"epochs": 2}, bad]))
    assert not runs
    assert charges(tmp_path) == 0
    assert not (tmp_path / "chosen").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"score_share": 0.0}, "`score_share`"), ({"score_share": 1.0}, "`score_share`"), ({"score_share": float("nan")}, "`score_share`"),
        ({"score_share": 0.001}, "leaves too few"), ({"score_share": 0.999}, "leaves too few"), ({"seed": -1}, "`seed`"),
        ({"epsilon": 0.0}, "positive"), ({"epsilon": 40.0}, "at most 32"), ({"mean": 1.0}, "expected number of runs"),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        run(tmp_path, contest(GRID, **changes))
    assert charges(tmp_path) == 0


def test_a_directory_of_another_run_is_refused_before_the_charge(tmp_path):
    run(tmp_path)
    (tmp_path / "chosen" / "released.parquet").unlink()
    with pytest.raises(InputError, match="another run"):
        run(tmp_path, contest(GRID))
    other = tmp_path / "other"
    other.mkdir()
    (other / "released.parquet").write_text("somebody else's")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    with pytest.raises(InputError, match="is another file"):
        contest(GRID).run(other, data_set="visits", ledger=Ledger(folder / "l.ledger"))
    assert charges(folder) == 0
    assert (other / "released.parquet").read_text() == "somebody else's"


def test_features_that_do_not_belong(tmp_path):
    what = contest(GRID)
    fewer = Features(what.features.values[5:], what.features.ids[5:], what.features.columns, named=True)
    with pytest.raises(InputError, match="5 of the 300 released rows have no features"):
        run(tmp_path, PrivateSelection(what.source, fewer, what.candidates, 2.0))
    by_number = Features(what.features.values, np.arange(ROWS))
    with pytest.raises(InputError, match="names its rows by id"):
        run(tmp_path, PrivateSelection(what.source, by_number, what.candidates, 2.0))
    assert charges(tmp_path) == 0


# ── a real kill ──


def test_killed_while_drawing_the_same_command_finishes_under_the_same_charge(tmp_path):
    """kill -9 as soon as the charge is in the ledger: candidates are being trained, for seconds."""
    y, x = people()
    names = [f"u{i}" for i in range(ROWS)]
    pq.write_table(pa.table({"uid": names, "y": y}), tmp_path / "labels.parquet")
    pq.write_table(pa.table({"uid": names, **{f"x{j}": x[:, j] for j in range(5)}}), tmp_path / "x.parquet")
    (tmp_path / "c.json").write_text(json.dumps({"epochs": [100], "batch_size": [16], "learning_rate": [0.01, 0.02]}))
    ledger, out = tmp_path / "l.ledger", tmp_path / "chosen"
    command = [
        sys.executable, "-m", "labeldp", "select", tmp_path / "labels.parquet", "--label", "y", "--classes", "3", "--id", "uid",
        "--features", tmp_path / "x.parquet", "--candidates", tmp_path / "c.json", "--epsilon", "4", "--expected-runs", "1.1",
        "--ledger", ledger, "--out", out, "--threads", "1", "--json",
    ]  # fmt: skip
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
        if ledger.exists() and ledger.stat().st_size:
            try:
                if Ledger(ledger, create=False).book().releases:
                    break
            except LedgerError:
                continue
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    (record,) = Ledger(ledger).book().releases.values()
    assert record.state == CHARGED
    assert not (out / "released.parquet").exists()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["charged"], told["resumed"]) == (False, True)
    (record,) = Ledger(ledger).book().releases.values()
    assert record.cost.pure <= 4.0
    assert [entry.kind for entry in Ledger(ledger).verify()].count(CHARGED) == 1
    assert files(out) == [
        ".lock", "config.json", "metrics.jsonl", "model.safetensors", "released.parquet", "selection.json", "starts.json", "summary.json",
        "trained.parquet",
    ]  # fmt: skip
    assert not list(Path(f"{ledger}.releases").glob("*.scratch"))


def test_what_fails_after_the_charge_says_that_it_is_paid_for(tmp_path):
    (tmp_path / "chosen" / "metrics.jsonl").mkdir(parents=True)
    with pytest.raises(UnfinishedError, match=r"metrics\.jsonl cannot be read.*charged \(entry 3\)"):
        run(tmp_path)
    assert charges(tmp_path) == 1
    (tmp_path / "chosen" / "metrics.jsonl").rmdir()
    assert not run(tmp_path).made.charged_now
    assert charges(tmp_path) == 1

"""Secrets in clocks and counts: what leaves the owner is the same however long private work took, and whatever it was done to.

Two worlds differ in all that is secret: the labels, how often a selection ran, what teachers voted, how long each step took. What is paid
for (observations, scores, answers) is forced to be the same in both. Then everything that may leave must be the same too, byte for byte:
files and their times, ledger statements, pages, what is printed, how commands end. A new field that reads any clock, or counts anything
private, fails here.
"""

import ast
import itertools
import json
import os
import re
import secrets
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import labeldp
from labeldp import Ledger, PrivateLabels, SeededEntropy
from labeldp.cli import main
from labeldp.entropy import SecureEntropy
from labeldp.errors import InputError
from labeldp.files.run import RunFolder
from labeldp.mechanisms import PateAnswers, Selected
from labeldp.mechanisms.repeats import Repeats
from labeldp.mechanisms.selected import Trial
from labeldp.pate import linear, teachers
from labeldp.pate.run import Stages
from labeldp.private import unheard
from labeldp.report import svg
from labeldp.training.fixmatch import FixMatchTrainer

MINUTE, HOUR = 60.0, 3600.0
NINE = 1_600_000_000.0 // 86400 * 86400 + 9 * HOUR  # of a day in 2020
ROWS = 120


class World:
    """One life of an owner: randomness that begins anew with every command, and a clock that private work moves.

    It moves a little whenever it is read, and the more the more private work there was: a machine that worked long is hot, and slow.
    """

    def __init__(self, patch, capfd, desk):
        self.patch, self.capfd, self.desk = patch, capfd, desk
        self.now, self.tick, self.told = NINE, 1e-5, []
        for name in ("time", "monotonic", "perf_counter", "process_time"):
            patch.setattr(time, name, self.read)
            patch.setattr(time, f"{name}_ns", lambda: int(self.read() * 1e9))
        patch.setattr(SecureEntropy, "bytes", lambda entropy, count: self.noise.bytes(count))
        patch.setattr(secrets, "token_hex", lambda count=32: self.noise.bytes(count).hex())
        patch.setattr(secrets, "token_bytes", lambda count=32: self.noise.bytes(count))
        desk.mkdir()
        patch.chdir(desk)

    def read(self):
        self.now += self.tick
        return self.now

    def work(self, seconds):
        """On private things."""
        self.now += seconds
        self.tick += 1e-7 * seconds / MINUTE

    def run(self, line):
        self.noise = SeededEntropy(0)
        self.patch.setattr(svg, "_numbers", itertools.count(1))  # as in a process of its own
        self.patch.setattr(sys, "argv", ["labeldp", *line.split()])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        printed = self.capfd.readouterr()
        assert code == 0, printed.err
        self.told.append((line, code, *printed))

    def labels(self, name, codes):
        (self.desk / name).write_text("uid,y\n" + "".join(f"{name[0]}{i},{code}\n" for i, code in enumerate(codes)))

    def left(self, *places, ledger="l.ledger"):
        """All that may be handed over, and what an auditor finds in the ledger."""
        files = {
            str(path.relative_to(self.desk)): (
                content(path) if path.is_file() else None,
                path.stat().st_mtime_ns
                if path.suffix != ".html"
                else None,  # the page's own: it is made whenever one likes
                path.stat().st_mode,
            )
            for place in places
            for path in (self.desk / place, *(self.desk / place).rglob("*"))
            if "owner" not in path.parts
        }
        entries = [(entry.number, entry.kind, entry.body) for entry in Ledger(self.desk / ledger).verify()]
        kept = {
            path.name: (path.read_bytes(), path.stat().st_mtime_ns)
            for path in (self.desk / f"{ledger}.releases").iterdir()
        }
        return files, entries, kept, self.told


def content(path):
    """Its bytes; of a checkpoint, whose library writes names in any order, the names in theirs."""
    read = path.read_bytes()
    if path.suffix != ".safetensors":
        return read
    end = 8 + int.from_bytes(read[:8], "little")
    return json.loads(read[8:end]), read[end:]


@pytest.fixture
def worlds(monkeypatch, capfd, tmp_path):
    """What a life leaves behind, for each of two; both are lived in the same place, one after the other."""

    def both(live, *settings):
        left = []
        for number, setting in enumerate(settings):
            desk = tmp_path / "desk"
            with monkeypatch.context() as patch:
                left.append(live(World(patch, capfd, desk), *setting))
            desk.rename(tmp_path / f"desk-{number}")
        return left

    return both


def same(first, second):
    """Said piece by piece, for whoever has to find what differs."""
    for one, other in zip(first, second, strict=True):
        if isinstance(one, dict):
            assert one.keys() == other.keys()
            for name in one:
                assert one[name] == other[name], name
        else:
            assert one == other
    files = first[0]
    assert len(files) > 5
    for name, (_, written, _) in files.items():
        if written is not None:
            assert written == NINE // 86400 * 86400 * 1e9, name  # the day of the charge, and no hour


# ── selection ──


def features(rows, seed=3):
    rng = np.random.default_rng(seed)
    return "uid,a,b\n" + "".join(f"v{i},{rng.normal():.4f},{rng.normal():.4f}\n" for i in range(rows))


def selection(world, codes, runs, step, after):
    """A release, a selection, what is made of it, and (`after`) another release: ordinary ones must not measure what lies between them."""
    world.labels("visits.csv", codes)
    world.labels("others.csv", [i % 2 for i in range(40)])
    (world.desk / "x.csv").write_text(features(ROWS))
    (world.desk / "c.json").write_text(json.dumps({"mechanism": ["subset", "laplace"], "epochs": [2]}))
    original, done = Selected._run, []

    def forced(self, labels, scoring, predict, entropy):
        original(self, labels, scoring, predict, entropy)
        world.work(step)
        warnings.warn(f"run {len(done)}", stacklevel=1)
        done.append(None)
        observations = np.zeros((ROWS, self.observation_bytes), dtype=np.uint8)
        released = np.setdiff1d(np.arange(ROWS), scoring)
        codes = PrivateLabels(np.arange(len(released)) % 2, 2)
        observations[released] = self.packed(1, self.parts[1].observe_uncharged(codes, SeededEntropy(1)))
        return Trial(1, observations, 20 - len(done))  # the first wins

    world.patch.setattr(Repeats, "draw", lambda self, entropy: runs)
    world.patch.setattr(Selected, "_run", forced)
    common = "--label y --classes 2 --id uid --epsilon 4 --ledger l.ledger"
    world.run(f"release others.csv {common} --rows 0:20 --out before.parquet")
    command = f"select visits.csv {common} --features x.csv --candidates c.json --threads 1 --out chosen"
    world.run(command)
    world.run("report chosen --ledger l.ledger --out page.html")
    world.run("ledger show --ledger l.ledger")
    world.run("ledger show --ledger l.ledger --json")
    world.run("inspect chosen/released.parquet --json")
    number = next(
        number for number, release in Ledger("l.ledger").book().releases.items() if release.data_set == "visits"
    )
    world.run(f"ledger get {number} --ledger l.ledger --out again.parquet")
    world.run(f"{command} --json")
    if after:
        world.run(f"release others.csv {common} --rows 20:40 --out after.parquet")
    assert len(done) == runs
    return world.left("chosen", "page.html", "again.parquet", "before.parquet", *(["after.parquet"] if after else []))


@pytest.mark.parametrize(("step", "after"), [(HOUR, True), (20 * HOUR, False)], ids=["hours", "days"])
def test_a_selection_of_one_run_and_of_nine(worlds, step, after):
    zeros = [0] * ROWS
    mixed = [i * 7919 % 10 // 5 for i in range(ROWS)]
    same(*worlds(selection, (zeros, 1, step, after), (mixed, 9, step, after)))


# ── PATE ──


def ensemble(world, codes, teaching, answering, method):
    """Teachers, answers, held-out rows, two students."""
    world.labels("visits.csv", codes)
    (world.desk / "x.csv").write_text(features(ROWS))
    private = []

    def working(place, name, seconds, inner=None):
        """This function is work on private things, which takes its time; whatever it is made of (`inner`) warns."""
        original = getattr(place, name)

        def work(*arguments, **options):
            world.work(seconds)
            private.append(None)
            try:
                return original(*arguments, **options)
            finally:
                private.pop()

        world.patch.setattr(place, name, work)
        if inner is not None:
            made_of = getattr(*inner)

            def warning(*arguments, **options):
                if private:  # a rehearsal is not private
                    warnings.warn("of labels", stacklevel=1)
                return made_of(*arguments, **options)

            world.patch.setattr(*inner, warning)

    working(teachers, "teach", teaching, (teachers, "_study"))
    working(teachers, "_train_frozen", teaching, (linear, "teacher_votes"))
    working(PateAnswers, "answer", answering, (PateAnswers, "_tossed"))
    working(Stages, "_owners", answering, (Stages, "_for_account"))
    drawn = PateAnswers.answer

    def answer(self, votes, entropy):
        drawn(self, votes, entropy)
        return np.where(np.arange(len(votes)) % 3 < 2, np.arange(len(votes)) % 2, 2).astype(np.uint8)

    world.patch.setattr(PateAnswers, "answer", answer)
    world.run(
        "pate run --features x.csv --labels visits.csv --label y --classes 2 --id uid --ledger l.ledger --out run --processes 0 "
        f"--teachers 4 --max-asked 30 --max-answered 20 --sigma1 4 --sigma2 2 --threshold 2 --method {method} "
        f"{'--model linear --epochs 1 ' if method == 'fixmatch' else ''}--student-epochs 2 --student-model linear "
        "--holdout 0.25 --holdout-epsilon 2 --budget 2 --budget-gaussian 90"
    )
    world.run("pate student run --student evidence --student-epochs 1 --name other --json")
    world.run("report run --ledger l.ledger --out page.html")
    world.run("ledger show --ledger l.ledger --json")
    return world.left("run", "page.html")


@pytest.mark.parametrize(
    ("method", "answering"), [("fixmatch", HOUR), ("frozen", 20 * HOUR)], ids=["fixmatch-hours", "frozen-days"]
)
def test_pate_with_other_labels_and_other_votes(worlds, method, answering):
    held_out = [1, 0] * (ROWS // 8)  # these are released by a mechanism of their own, which is not forced
    zeros = [0] * (ROWS * 3 // 4) + held_out
    mixed = [i * 7919 % 10 // 5 for i in range(ROWS * 3 // 4)] + held_out
    same(*worlds(ensemble, (zeros, MINUTE, MINUTE, method), (mixed, 40 * MINUTE, answering, method)))


def test_a_teacher_that_diverges_is_a_teacher_like_any_other(tmp_path, monkeypatch, cli):
    """Its votes are for the lowest class; nothing is said, nothing ends, and as many FLOP are counted. Made-up labels would say it."""
    original, seen = FixMatchTrainer.fit, []

    def fit(self, *arguments, **options):
        seen.append(None)
        for metrics in original(self, *arguments, **options):
            if len(seen) == failing and self.epoch == 2:
                raise InputError("the training diverged in epoch 2; a lower --learning-rate helps.")
            yield metrics

    monkeypatch.setattr(FixMatchTrainer, "fit", fit)
    command = (
        "pate", "teachers", "--dataset", "digits", "--method", "fixmatch", "--model", "linear", "--epochs", 3, "--teachers", 4,
        "--max-asked", 20, "--first", 200, "--processes", 0, "--json",
    )  # fmt: skip
    told = {}
    for failing in (None, 3):  # the rehearsal is the first
        seen.clear()
        code, out, err = cli(*command, "--out", tmp_path / str(failing))
        assert (code, err.count("diverged")) == (0, 0)
        told[failing] = {**json.loads(out), "out": None}
        with np.load(tmp_path / str(failing) / "owner" / "votes.npz") as file:
            votes = file["votes"]
            assert (votes.sum(axis=1) == 4).all()
    assert told[None] == told[3]
    assert (votes[:, 0] >= 1).all()
    failing = 1
    seen.clear()
    code, _, err = cli(*command, "--out", tmp_path / "rehearsed")
    assert (code, len(seen)) == (2, 1)  # before any teacher has seen a label
    assert "diverged" in err


def test_files_that_are_not_of_the_run_keep_their_times(tmp_path):
    """--out may be a folder in which the user works."""
    for name in ("config.json", "visits.csv", "inner/config.json", "inner/metrics.jsonl", "inner/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
        os.utime(tmp_path / name, (NINE, NINE))
    with pytest.raises(KeyboardInterrupt), RunFolder(tmp_path).dated("2020-02-29"):  # also where it is interrupted
        raise KeyboardInterrupt
    kept = {path.name for path in tmp_path.rglob("*") if path.stat().st_mtime == NINE}
    assert kept == {"visits.csv", "notes.txt"}


def test_private_work_is_unheard(recwarn):
    with unheard():
        warnings.warn("of a label", stacklevel=1)
        np.log(np.zeros(1))
    assert not recwarn.list


# ── one clock ──

SOURCES = Path(labeldp.__file__).parent
CLOCKS = {
    "provenance.py": {"time", "datetime"},  # the day, and nothing finer
    # Durations: shown on a terminal, or kept in files of local trust and under owner/.
    "cli/progress.py": {"time"}, "training/trainer.py": {"time"}, "training/fixmatch.py": {"time"}, "pate/teachers.py": {"time"},
    "reproduce/runner.py": {"time"}, "runs/tables.py": {"time"}, "runs/moments.py": {"time"},  # of what is fitted to a released statistic
    "experiments/compare.py": {"time"},  # CPU seconds, of public benchmarks
}  # fmt: skip


def test_who_reads_a_clock():
    """Every module that does is named here, with its reason; a stamp is `provenance.today()`, wherever it is written."""
    found = {}
    for path in SOURCES.rglob("*.py"):
        names = {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            for name in (
                [alias.name.split(".")[0] for alias in node.names]
                if isinstance(node, ast.Import)
                else [(node.module or "").split(".")[0]] if isinstance(node, ast.ImportFrom) else []
            )
        }  # fmt: skip
        if names & {"time", "datetime"}:
            found[path.relative_to(SOURCES).as_posix()] = names & {"time", "datetime"}
    assert found == CLOCKS


def test_a_ledger_that_noted_seconds_is_read_by_days(tmp_path, monkeypatch, cli):
    """As earlier versions wrote it: statements of it, and what is released on, have no hour either."""
    monkeypatch.setattr("labeldp.accounting.ledger.today", lambda: "2030-03-17T17:46:40+00:00")
    (tmp_path / "y.csv").write_text("uid,y\n" + "".join(f"u{i},{i % 2}\n" for i in range(40)))
    common = ("release", tmp_path / "y.csv", "--label", "y", "--classes", 2, "--id", "uid", "--ledger", tmp_path / "l")
    assert cli(*common, "--epsilon", 1, "--rows", "0:20", "--out", tmp_path / "a.parquet")[0] == 0
    raised = (
        *common,
        "--epsilon",
        1,
        "--rows",
        "20:40",
        "--budget",
        3,
        "--raise-budget",
        "--out",
        tmp_path / "b.parquet",
    )
    assert cli(*raised)[0] == 0
    code, out, _ = cli("ledger", "show", "--ledger", tmp_path / "l", "--json")
    assert (code, len(re.findall("2030-03-17", out)), re.findall(r"\d\d:\d\d", out)) == (0, 3, [])
    header = labeldp.Release.load(tmp_path / "b.parquet").header
    assert (header["made"], header["budget"]["raised"][0]["at"]) == ("2030-03-17", "2030-03-17")
    assert os.stat(tmp_path / "b.parquet").st_mtime % 86400 == 0

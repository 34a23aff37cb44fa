"""The queue: nothing is done twice, a failure stops nobody, an interruption loses nothing."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from filelock import FileLock

from labeldp.errors import InputError
from labeldp.reproduce.cells import Cell, Place
from labeldp.reproduce.runner import Runner, described
from tests.reproduce.conftest import cell, finished, summary


def runs(place, name):
    path = place.cells / name / "runs.txt"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_a_finished_cell_is_never_repeated(place, fake):
    cells, changes, said = [cell("a"), cell("b", "--epochs", "2")], [], []
    runner = Runner(place, 2, lambda: changes.append(1), lambda one, what: said.append((one.name, what)), fake)
    assert runner.run(cells) == []
    assert [runs(place, name) for name in "ab"] == [1, 1]
    assert len(changes) == 2
    assert runner.run(cells) == []
    assert [runs(place, name) for name in "ab"] == [1, 1]
    facts = json.loads((place.cells / "b" / "cell.json").read_text())
    assert facts["cell"]["arguments"] == ["experiment", "--epochs", "2"]
    assert facts["command"] == f"labeldp experiment --epochs 2 --out {place.cells / 'b'}"
    assert facts["summary"] == summary()
    assert facts["started_elsewhere"] is False
    assert facts["seconds"] > 0
    assert {"labeldp", "machine", "written"} <= set(facts)
    assert "working on b" in (place.cells / "b" / "log.txt").read_text()


def test_one_of_before_experiments_had_a_command_is_still_the_same(place, fake):
    """Cells that were finished as `labeldp train --dataset …`."""
    given = cell("a", "--epochs", "2")
    assert Runner(place, program=fake).run([given]) == []
    path = place.cells / "a" / "cell.json"
    facts = json.loads(path.read_text())
    facts["cell"]["arguments"][0] = "train"
    path.write_text(json.dumps(facts))
    assert place.facts(given)["summary"] == summary()
    assert Runner(place, program=fake).run([given]) == []
    assert runs(place, "a") == 1
    with pytest.raises(InputError, match="holds another cell"):
        place.facts(cell("a", "--epochs", "3"))


def test_one_that_was_started_by_hand_is_taken_over(place, fake):
    finished(place, cell("a"), accuracy=0.25)
    assert Runner(place, program=fake).run([cell("a")]) == []
    assert runs(place, "a") == 0
    facts = json.loads((place.cells / "a" / "cell.json").read_text())
    assert (facts["started_elsewhere"], facts["seconds"], facts["summary"]["accuracy_test"]) == (True, None, 0.25)


@pytest.mark.parametrize("other", [("epochs", 3), ("seed", 1), ("denoise", "argmax"), ("model", "linear")])
def test_one_that_was_started_by_hand_must_be_the_same_training(place, other):
    given = cell("a", "--model", "mlp", "--epochs", "2", "--seed", "0")
    finished(place, given)
    config = {
        "release": "ab" * 32, "model": "mlp", "num_classes": 10, "label": None, "label_names": None, "feature_shape": [64],
        "holdout": 0.1, "select": "last", "recipe": {"epochs": 2, "seed": 0},
    }  # fmt: skip
    path = place.folder(given) / "config.json"
    name, value = other
    changed = config | {"model": value} if name == "model" else config | {"recipe": config["recipe"] | {name: value}}
    path.write_text(json.dumps(changed))
    with pytest.raises(InputError, match=f"another {name}"):
        place.facts(given)
    path.write_text(json.dumps(config))
    assert place.facts(given) is not None


def test_an_ensemble_that_was_started_by_hand_must_be_the_same(place):
    given = Cell("a", "digits", "pate-frozen", 1.0, 0, ("pate", "run", "--sigma1", "30", "--max-asked", "5"))
    finished(
        place, given, mechanism={"name": "pate", "num_classes": 10, "parameters": {"sigma1": 29.5, "max_asked": 5}}
    )
    with pytest.raises(InputError, match="another sigma1\\)"):
        place.facts(given)


def test_canaries_must_have_been_audited(place):
    planted = cell("a", "--canaries", "5")
    finished(place, planted)
    assert place.facts(planted) is not None
    (place.cells / "a" / "cell.json").unlink()
    (place.cells / "a" / "summary.json").write_text(json.dumps(summary()))  # killed between training and audit
    assert place.facts(planted) is None


def test_a_directory_belongs_to_one_command(place, fake):
    assert Runner(place, program=fake).run([cell("a")]) == []
    with pytest.raises(InputError, match="holds another cell"):
        Runner(place, program=fake).run([cell("a", "--epochs", "3")])


def test_a_failing_cell_is_reported_and_the_others_go_on(place, fake):
    cells = [cell("a", "--fail"), cell("b"), cell("c", "--fail"), cell("d")]
    failed = Runner(place, 1, program=fake).run(cells)
    assert [one.cell.name for one in failed] == ["a", "c"]
    assert failed[0].code == 1
    assert "this one always fails" in described(failed)
    assert str(place.cells / "a" / "log.txt") in described(failed)
    assert [place.facts(one) is not None for one in cells] == [False, True, False, True]
    Runner(place, 1, program=fake).run(cells)
    assert [runs(place, name) for name in "abcd"] == [2, 1, 2, 1]


def test_so_many_at_a_time(place, fake):
    cells = [cell(name, "--sleep", "0.4") for name in "abcd"]
    at_once, most = set(), []

    def told(one, what):
        (at_once.add if what == "begins" else at_once.discard)(one.name)
        most.append(len(at_once))

    Runner(place, 3, told=told, program=fake).run(cells)
    assert max(most) == 3
    with pytest.raises(InputError, match="--processes"):
        Runner(place, 0)


def test_two_queues_do_not_run_one_cell_twice(place, fake):
    said = []
    (place.cells / "a").mkdir(parents=True)
    (place.cells / "b").mkdir()
    with FileLock(place.cells / "a" / ".cell.lock"), FileLock(place.cells / "b" / ".lock"):
        failed = Runner(place, told=lambda one, what: said.append(what), program=fake).run([cell("a"), cell("b")])
    assert failed == []
    assert (runs(place, "a"), runs(place, "b")) == (0, 0)
    assert all("skipped" in what for what in said)


def test_features_are_learned_once(place, fake):
    """A cell waits for features that another is learning; one that needs none overtakes it."""
    cells = [
        cell("a", "--learn", "--sleep", "0.5", features="x"),
        cell("b", "--learn", features="x"),
        cell("c"),
        cell("d", "--learn", features="y"),
    ]
    order = []
    Runner(place, 2, told=lambda one, what: order.append(one.name) if what == "begins" else None, program=fake).run(
        cells
    )
    assert order.index("c") < order.index("b")
    learned = [(place.cells / name / "features" / "features.npy").read_text() for name in "abd"]
    assert learned == ["learned by a", "learned by a", "learned by d"]


def test_asked_to_end_the_queue_ends_its_processes(place, fake, monkeypatch):
    """SIGTERM as Ctrl-C: nothing is left running, and the cell is begun again afterwards."""
    slow = cell("a", "--sleep", "60")
    children = []

    def told(one, what):
        if what == "begins":
            signal.setitimer(signal.ITIMER_REAL, 0.5)

    def popen(*arguments, **options):
        children.append(real(*arguments, **options))
        return children[-1]

    real = subprocess.Popen
    monkeypatch.setattr("labeldp.reproduce.runner.subprocess.Popen", popen)
    before = signal.signal(signal.SIGALRM, lambda number, frame: os.kill(os.getpid(), signal.SIGTERM))
    try:
        with pytest.raises(KeyboardInterrupt):
            Runner(place, told=told, program=fake).run([slow])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert children[0].poll() is not None
    assert place.facts(slow) is None
    with FileLock(place.folder(slow) / ".cell.lock", timeout=0):
        pass


def test_a_killed_queue_goes_on(tmp_path):
    """The real command and a real training, killed with everything it started (SIGKILL), then started again."""
    command = [
        sys.executable, "-m", "labeldp", "reproduce", "table1", "--scale", "smoke", "--only", "alibi-eps8", "--processes", "1", "--out",
        str(tmp_path / "out"),
    ]  # fmt: skip
    folder = tmp_path / "out" / "cells" / "digits-alibi-eps8-seed0"
    queue = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (folder / "released.parquet").exists() and queue.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(queue.pid, signal.SIGKILL)
    queue.wait()
    released = (folder / "released.parquet").read_bytes()
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert (folder / "released.parquet").read_bytes() == released  # the same noise: nothing was charged twice
    facts = Place(tmp_path / "out").facts(next(c for c in _table1() if c.name == folder.name))
    assert 0.5 < facts["summary"]["accuracy_test"] < 1
    assert facts["interval"]["canaries"] > 30
    seen = (folder / "cell.json").stat().st_mtime_ns
    third = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (third.returncode, "begins" in third.stderr) == (0, False)
    assert (folder / "cell.json").stat().st_mtime_ns == seen
    assert "1 of 6 cells are finished" in third.stdout


def _table1():
    from labeldp.reproduce.names import plan

    return plan("table1", "smoke").cells()

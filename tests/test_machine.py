"""Two real processes, started by torchrun."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import labeldp
from labeldp.machine import ALONE, joined

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "labeldp"]


def torchrun(*arguments):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run([*TORCHRUN, *map(str, arguments)], capture_output=True, text=True, env=environment, timeout=300)  # fmt: skip


def single(*arguments):
    return subprocess.run([sys.executable, "-m", "labeldp", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture
def digits(tmp_path):
    """A command that trains on seeded noise, for any run directory."""
    return lambda name, *more: [
        "experiment", "--dataset", "digits", "--epsilon", "4", "--insecure-seed", "1", "--model", "linear", "--epochs", "4",
        "--dtype", "float32", "--threads", "1", "--json", "--out", tmp_path / name, *more,
    ]  # fmt: skip


def test_two_processes_learn_what_one_does_and_release_once(tmp_path, digits):
    done = torchrun(*digits("two", "--accumulate", "2"))
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)  # one process prints
    assert summary["processes"] == 2
    assert len(labeldp.Ledger(tmp_path / "two" / "labels.ledger").book().releases) == 1
    single(*digits("one"))
    for name in ("one", "two"):
        single("predict", tmp_path / name, "--features", features(tmp_path), "--out", tmp_path / f"{name}.npy")
    ours, theirs = np.load(tmp_path / "one.npy"), np.load(tmp_path / "two.npy")
    # A linear model has no batch statistics, so but for rounding two processes and four parts make no difference.
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    assert summary["train_flop"] == json.loads((tmp_path / "one" / "summary.json").read_text())["train_flop"]
    lines = (tmp_path / "two" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3, 4]


def test_a_refusal_stops_all_processes(digits):
    done = torchrun(*digits("bad", "--mechanism", "magic"))
    assert done.returncode != 0
    assert "magic" in done.stderr


def test_two_processes_select_and_stop_together_and_resume(tmp_path, digits):
    more = ("--select", "best", "--patience", "1", "--holdout", "0.4")
    done = torchrun(*digits("two", *more))
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["epoch_selected"] <= summary["epochs"] <= 4
    (tmp_path / "two" / "summary.json").unlink()
    again = torchrun(*digits("two", *more))
    assert json.loads(again.stdout) == summary


def test_an_averaged_prior_goes_on_exactly_where_it_was_killed(tmp_path, digits):
    """The average of the weights belongs to the checkpoint, in every process."""
    more = ("--prior", "average", "--average", "0.9", "--epochs", "12")
    whole = torchrun(*digits("whole", *more))
    assert whole.returncode == 0, whole.stderr
    noted = tmp_path / "cut" / "metrics.jsonl"
    with subprocess.Popen(
        [*TORCHRUN, *map(str, digits("cut", *more))], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    ) as running:  # fmt: skip
        while running.poll() is None and not (noted.exists() and noted.read_text().count("\n") >= 2):
            time.sleep(0.01)
        os.killpg(running.pid, signal.SIGKILL)
    assert not (tmp_path / "cut" / "summary.json").exists()
    done = torchrun(*digits("cut", *more))
    assert done.returncode == 0, done.stderr
    for name in ("whole", "cut"):
        single("predict", tmp_path / name, "--features", features(tmp_path), "--out", tmp_path / f"{name}.npy")
    np.testing.assert_allclose(np.load(tmp_path / "cut.npy"), np.load(tmp_path / "whole.npy"), atol=1e-6)


def test_a_directory_that_is_not_shared_is_refused(tmp_path, digits):
    """As on two machines without a common disk: the second process finds nothing under the same name."""
    command = [str(part) for part in digits("ours")]
    script = tmp_path / "machine.py"
    script.write_text(
        "import os, sys\n"
        "from labeldp.cli import main\n"
        f"sys.argv = ['labeldp', *{command!r}]\n"
        "if os.environ['RANK'] == '1':\n"
        f"    sys.argv[sys.argv.index({str(tmp_path / 'ours')!r})] = {str(tmp_path / 'theirs')!r}\n"
        "main()\n"
    )
    done = subprocess.run(
        [*TORCHRUN[:-2], str(script)],
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=300,
    )
    assert done.returncode != 0
    assert "--out must be a directory that all machines share" in done.stderr


def test_alone(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined() as world:
        assert world is ALONE
        assert world.first
        assert world.told(3.0) == 3.0


def features(folder):
    path = folder / "x.npy"
    if not path.exists():
        from sklearn.datasets import load_digits

        np.save(path, load_digits().data.astype(np.float32))
    return path

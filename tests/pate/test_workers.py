"""Teachers in processes and on Ray: a worker that dies costs no teacher, and none is trained twice."""

import os
import signal
import time

import pytest

from labeldp.errors import InputError, WorkerError
from labeldp.pate.workers import LocalWorkers, RayWorkers


def double(shared, lesson):
    return shared + 2 * lesson


def die_once(folder, lesson):
    """The third lesson kills its worker, the first time."""
    (folder / f"{lesson}-{time.time_ns()}").touch()
    mark = folder / "died"
    if lesson == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return lesson


@pytest.mark.parametrize("processes", [0, 1, 2])
def test_every_lesson_is_done_once(processes):
    done = list(LocalWorkers(processes).each(double, 100, range(7)))
    assert sorted(done) == [100 + 2 * i for i in range(7)]


def test_a_process_that_dies_is_said_so_and_the_rest_is_kept(tmp_path):
    kept = []
    with pytest.raises(WorkerError, match="goes on with the teachers that are left"):
        kept.extend(LocalWorkers(1).each(die_once, tmp_path, range(6)))
    kept = [int(path.name.split("-")[0]) for path in tmp_path.iterdir() if "-" in path.name]
    assert {0, 1, 2} <= set(kept)
    assert sorted(LocalWorkers(1).each(die_once, tmp_path, [3, 4, 5])) == [3, 4, 5]


def test_ray_is_an_extra(monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *rest):
        if name == "ray":
            raise ImportError("no ray", name="ray")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"labeldp\[ray\]"):
        list(RayWorkers().each(double, 0, [1]))


@pytest.mark.slow
def test_ray_repeats_a_lesson_whose_worker_was_killed(tmp_path):
    """A real local cluster, and a real kill -9 in the middle of a task: everything is done, and only the killed lesson is begun twice."""
    pytest.importorskip("ray")
    done = list(RayWorkers("local").each(die_once, tmp_path, range(6)))
    assert sorted(done) == [0, 1, 2, 3, 4, 5]
    begun = [int(path.name.split("-")[0]) for path in tmp_path.iterdir() if "-" in path.name]
    assert sorted(begun) == [0, 1, 2, 3, 3, 4, 5]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_no_cluster_answers(address):
    pytest.importorskip("ray")
    with pytest.raises(InputError, match="no Ray cluster"):
        list(RayWorkers(address).each(double, 0, [1]))

"""Where teachers are trained: processes of this machine, one thread each, or a Ray cluster of the owner's."""

from __future__ import annotations

import multiprocessing
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Protocol

from labeldp.errors import InputError, WorkerError

Task = Callable[[Any, Any], Any]


class Workers(Protocol):
    """Runs `task(shared, lesson)` for each lesson and yields results as they come, in any order."""

    def each(self, task: Task, shared: Any, lessons: Iterable[Any]) -> Iterator[Any]:
        """`shared` is the same for all: sent once where that is possible."""


@dataclass(frozen=True)
class LocalWorkers:
    """So many processes at a time. 0: in this process."""

    processes: int = 2

    def each(self, task: Task, shared: Any, lessons: Iterable[Any]) -> Iterator[Any]:
        """A process that dies ends it, with what is finished kept."""
        if self.processes == 0:
            yield from (task(shared, lesson) for lesson in lessons)
            return
        # Not forked: torch's threads do not survive it.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(self.processes, context, initializer=_receive, initargs=(shared,)) as pool:
            try:
                futures = [pool.submit(_with_shared, task, lesson) for lesson in lessons]
                for future in as_completed(futures):
                    yield future.result()
            except BrokenProcessPool:
                raise WorkerError(
                    "a worker died while it trained a teacher; memory may have run out (fewer `processes` need less). The same command "
                    "goes on with the teachers that are left."
                ) from None
            finally:
                pool.shutdown(cancel_futures=True)


_received: list[Any] = []  # in a worker process: what all lessons share, sent once


def _receive(shared: Any) -> None:
    _received[:] = [shared]


def _with_shared(task: Task, lesson: Any) -> Any:
    return task(_received[0], lesson)


@dataclass(frozen=True)
class RayWorkers:
    """An existing Ray cluster ("auto", "ray://host:10001"), or one of this machine's own ("local").

    The cluster is inside the label owner's trust boundary: each task carries its shard's labels, by `PrivateLabels.entrust`.
    """

    address: str = "auto"

    def each(self, task: Task, shared: Any, lessons: Iterable[Any]) -> Iterator[Any]:
        """Ray repeats a task whose worker died, up to three times."""
        ray = _ray()
        begun = not ray.is_initialized()
        if begun:
            where = None if self.address == "local" else self.address
            _check_reachable(self.address)
            try:
                ray.init(
                    address=where,
                    log_to_driver=False,
                    include_dashboard=False if where is None else None,
                    logging_level="ERROR",
                )
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise InputError(
                    f"no Ray cluster answers at {self.address!r}: {(str(error).splitlines() or [''])[0]}"
                ) from None
        try:
            reference = ray.put(shared)
            remote = ray.remote(num_cpus=1, max_retries=3)(task)
            waiting = [remote.remote(reference, lesson) for lesson in lessons]
            while waiting:
                done, waiting = ray.wait(waiting, num_returns=1)
                try:
                    yield ray.get(done[0])
                except (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError):
                    raise WorkerError(
                        "a Ray worker died four times over the same teacher; the same command goes on with the teachers that are left."
                    ) from None
        finally:
            if begun:
                ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        raise InputError(f"no Ray cluster answers at {address!r}.") from None


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise InputError('`ray` needs Ray, an extra: pip install "labeldp[ray]"') from None
    return ray

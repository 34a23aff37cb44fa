"""Run cells, a few at a time, each a process of its own; a finished cell is never repeated, an interrupted one goes on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labeldp.errors import InputError
from labeldp.files.run import RunFolder
from labeldp.reproduce.cells import LOG, Cell, Place

# ----------------------------------------------------------------
# Frozen features depend on images alone: what one cell has learned the next takes over.
#
# By hard links where the file system has them. Each cell still learns its own when it is started by hand.


def learned(place: Place, cell: Cell) -> bool:
    """Whether there is nothing left to learn for it."""
    kept = _kept(place, cell)
    return kept is None or kept.exists()


def take_features(place: Place, cell: Cell) -> None:
    """Give a cell that has none the features that are there."""
    theirs, its = _kept(place, cell), RunFolder(place.folder(cell)).features.path
    if theirs is not None and theirs.exists() and not its.exists():
        _linked(theirs, its)


def lend_features(place: Place, cell: Cell) -> None:
    """Keep what a cell has learned, if it is the first."""
    kept, its = _kept(place, cell), RunFolder(place.folder(cell)).features.path
    if kept is not None and its.exists() and not kept.exists():
        _linked(its, kept)


def _kept(place: Place, cell: Cell) -> Path | None:
    return None if cell.features is None else RunFolder(place.out).features.path / cell.features


def _linked(source: Path, target: Path) -> None:
    """A copy that appears as a whole; files in it are never changed, only replaced."""
    half = target.with_name(f".{target.name}.part")
    shutil.rmtree(half, ignore_errors=True)
    half.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, half, ignore=shutil.ignore_patterns(".lock"), copy_function=_link)
    half.rename(target)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


_PAUSE = 0.1
_LOCK = ".cell.lock"


@dataclass
class _Running:
    process: subprocess.Popen[bytes]
    lock: Any
    start: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class Failed:
    """A cell whose command failed, and the last thing it said."""

    cell: Cell
    code: int
    said: str
    log: Path


def described(failed: Sequence[Failed]) -> str:
    """What went wrong, each thing once, and where."""
    kinds: dict[tuple[int, str], list[Failed]] = {}
    for one in failed:
        kinds.setdefault((one.code, one.said), []).append(one)
    return "; ".join(
        f"{', '.join(one.cell.name for one in alike)} (exit code {code}: {said or 'it said nothing'}; {alike[0].log})"
        for (code, said), alike in kinds.items()
    )


Told = Callable[[Cell, str], None]


@dataclass
class Runner:
    """Cells of a place. `changed` is called whenever one more is finished, `told` with what happens."""

    place: Place
    processes: int = 2
    changed: Callable[[], None] = lambda: None
    told: Told = lambda cell, what: None
    program: Sequence[str] = (sys.executable, "-m", "labeldp")

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise InputError(f"--processes is at least 1; got {self.processes}.")

    def run(self, cells: Sequence[Cell]) -> list[Failed]:
        """All that are not finished, in order; those that failed are returned, and the others go on without them."""
        waiting = [cell for cell in cells if self.place.facts(cell) is None]
        running: dict[Cell, _Running] = {}
        failed: list[Failed] = []
        try:
            with _terminated_as_interrupted():
                while waiting or running:
                    while len(running) < self.processes and (cell := self._next(waiting, running)) is not None:
                        waiting.remove(cell)
                        if (begun := self._begin(cell)) is not None:
                            running[cell] = begun
                    for cell, one in list(running.items()):
                        if one.process.poll() is not None:
                            del running[cell]
                            failed += self._end(cell, one)
                    time.sleep(_PAUSE)
        finally:
            for one in running.values():
                one.process.terminate()
            for one in running.values():
                one.process.wait()
                one.lock.release()
        return failed

    def _next(self, waiting: list[Cell], running: dict[Cell, _Running]) -> Cell | None:
        """The first that would not learn features which another is learning now: later it can take them over."""
        learning = {cell.features for cell in running if cell.features is not None}
        ready = (cell for cell in waiting if cell.features not in learning or learned(self.place, cell))
        return next(ready, None)

    def _begin(self, cell: Cell) -> _Running | None:
        from filelock import FileLock, Timeout

        folder = self.place.folder(cell)
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / _LOCK, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            self.told(cell, "is being run by another process; skipped")
            return None
        busy = _busy(folder)  # its command may outlive a runner that was killed
        if busy or self.place.facts(cell) is not None:
            lock.release()
            if busy:
                self.told(cell, "is still being run by the command of an earlier queue; skipped")
            return None
        take_features(self.place, cell)
        self.told(cell, "begins")
        environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        with (folder / LOG).open("ab") as log:
            command = [*self.program, *cell.command(folder, self.place.data)]
            return _Running(subprocess.Popen(command, stdout=log, stderr=log, env=environment), lock)

    def _end(self, cell: Cell, one: _Running) -> list[Failed]:
        folder, seconds = self.place.folder(cell), time.monotonic() - one.start
        try:
            if one.process.returncode == 0 and cell.summary(folder) is not None:
                lend_features(self.place, cell)
                self.place.finish(cell, seconds)
                self.told(cell, f"is finished, after {seconds:,.0f} s")
                self.changed()
                return []
        finally:
            one.lock.release()
        failed = Failed(cell, one.process.returncode, _last_line(folder / LOG), folder / LOG)
        self.told(cell, f"failed with exit code {failed.code}: {failed.said}")
        return [failed]


def _busy(folder: Path) -> bool:
    """Whether a command holds a lock in it."""
    from filelock import FileLock, Timeout

    for path in folder.rglob(".lock"):
        try:
            with FileLock(path, timeout=0):
                pass
        except Timeout:
            return True
    return False


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Asked to end (SIGTERM), as if by Ctrl-C: the cells' processes are ended first. Only the main thread can arrange that."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

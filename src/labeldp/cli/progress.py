"""How far a long command is: a bar with the time that is left on a terminal's standard error; elsewhere nothing, or a few plain lines."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from labeldp.cli.output import warn
from labeldp.commands import progress as commands

_WINDOW = 3600.0  # seconds: steps may take minutes, and the time left is estimated from those of the last hour


class _LeftColumn(TimeRemainingColumn):
    def render(self, task: Task) -> Text:
        return Text.assemble("left ", super().render(task)) if task.total is not None else Text()


class TerminalProgress(commands.Progress):
    """`show` says how far the work is, `line` says something beside it; `step` and `epoch` are what a training calls.

    what   what is being done, until `show` names something else
    shown  false: nothing is printed at all
    """

    def __init__(self, what: str = "working", *, shown: bool = True) -> None:
        self._what, self._shown = what, shown
        self._epochs, self._left = 0, 0.0
        self._start: tuple[float, int] | None = None
        self._last = 0
        self._now: tuple[str, int] | None = None
        self._bar: Bar | None = None
        console = Console(stderr=True)
        if shown and sys.stderr.isatty() and not console.is_dumb_terminal:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[count]}"),
                TimeElapsedColumn(),
                _LeftColumn(),
            )
            # Standard output is for results, and stays itself; what others say on standard error goes above the bar.
            self._bar = Bar(
                *columns, console=console, transient=True, speed_estimate_period=_WINDOW, redirect_stdout=False
            )
            self._task = self._bar.add_task(what, total=None, count="")

    def doing(self, what: str, *, shown: bool = True) -> TerminalProgress:
        """Other work, with a bar of its own."""
        return TerminalProgress(what, shown=shown)

    def warn(self, text: str) -> None:
        """On standard error."""
        warn(text)

    def __enter__(self) -> TerminalProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, what: str, done: int, of: int | None = None, unit: str = "", lines: int = 0) -> None:
        """So much of `what` is done, of so much in all if that is known.

        unit   what is counted; bytes have signs of their own
        lines  where there is no terminal: about how many lines tell of it, from the start to the end
        """
        if self._bar is None:
            if lines and of is not None and done % max(1, of // lines) == 0:
                self.line(_counted(done, of, unit))
            return
        self._draw(what, done, of, unit, piece=what)

    def _draw(self, what: str, done: int, of: int | None, unit: str, piece: str) -> None:
        assert self._bar is not None
        count = _counted(done, of, unit)
        if self._now is None or self._now[0] != piece or done < self._now[1]:  # another piece of work has another speed
            self._bar.remove_task(self._task)
            self._task = self._bar.add_task(what, total=of, completed=done, count=count)
        else:
            self._bar.update(self._task, description=what, total=of, completed=done, count=count)
        self._now = (piece, done)

    def line(self, text: str) -> None:
        """A line above the bar, or by itself."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        elif self._shown:
            typer.echo(text, err=True)

    # ── trainings ──

    def begin(self, epochs: int) -> None:
        """A training of so many epochs follows."""
        self._epochs, self._start, self._now, self._what = epochs, None, None, f"epoch 1/{epochs}"

    def step(self, done: int, of: int) -> None:
        """So many steps of so many are done."""
        now = time.monotonic()
        if self._start is None or done <= self._last:  # the first of a training
            self._start = (now, done)
        self._last = done
        since, first = self._start
        self._left = (now - since) / max(done - first, 1) * (of - done)
        if self._bar is not None:
            self._draw(self._what, done, of, "steps", piece="training")

    def epoch(self, metrics: dict[str, Any]) -> None:
        """An epoch has ended."""
        line = f"epoch {metrics['epoch']}/{self._epochs}"
        if "loss" in metrics:  # trees and exact solvers have none to tell
            line += f": loss {metrics['loss']:.4f}"
        if "seconds" in metrics:  # encoders do not say
            line += f", {metrics['seconds']:.1f} s"
        if "likelihood_selecting" in metrics:
            line += f", log-likelihood {metrics['likelihood_selecting']:.4f} of the rows that select"
        if metrics["epoch"] < self._epochs:
            line += f"; about {_duration(self._left)} left" if self._start is not None else ""
            self._what = f"epoch {metrics['epoch'] + 1}/{self._epochs}"
        self.line(line)


def _counted(done: int, of: int | None, unit: str) -> str:
    if unit == "bytes":
        return decimal(done) if of is None else f"{decimal(done)} of {decimal(of)}"
    return f"{done:,} {unit}" if of is None else f"{done:,} of {of:,} {unit}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

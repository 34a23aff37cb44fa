"""How far a training is: a bar with the time that is left on a terminal, a line an epoch elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class TrainingProgress:
    """`step` after each step, `epoch` after each epoch. Nothing is printed where `shown` is false."""

    def __init__(self, epochs: int = 0, shown: bool = True) -> None:
        self._epochs, self._shown = epochs, shown
        console = Console(stderr=True)
        self._bar: Progress | None = None
        if shown and console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=console, transient=True)
            self._task = self._bar.add_task("training")
        self._start: tuple[float, int] | None = None
        self._left = 0.0

    def __enter__(self) -> TrainingProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, epochs: int) -> None:
        """A training of so many epochs follows."""
        self._epochs, self._start = epochs, None

    def step(self, done: int, of: int) -> None:
        """So many steps of so many are done."""
        now = time.monotonic()
        if self._start is None or done < self._start[1]:
            self._start = (now, done)
        since, first = self._start
        self._left = (now - since) / max(done - first, 1) * (of - done)
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=of)

    def epoch(self, metrics: dict[str, Any]) -> None:
        """An epoch has ended."""
        if not self._shown:
            return
        line = f"epoch {metrics['epoch']}/{self._epochs}: loss {metrics['loss']:.4f}, {metrics['seconds']:.1f} s"
        if "accuracy_selecting" in metrics:
            line += f", accuracy {metrics['accuracy_selecting']:.2%} ± {metrics['standard_error_selecting']:.2%} (selecting)"
        if metrics["epoch"] < self._epochs:
            line += f"; about {_duration(self._left)} left"
        if self._bar is not None:
            self._bar.update(self._task, description=f"epoch {metrics['epoch'] + 1}/{self._epochs}")
            self._bar.console.print(line, highlight=False)
        else:
            typer.echo(line, err=True)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

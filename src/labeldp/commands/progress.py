"""Whom a command tells how far it is."""

from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any


class Progress:
    """Tells nobody. Whoever wants to know gives a command a kind of its own; the command line's has bars.

    Warnings are Python's.
    """

    def doing(self, what: str, *, shown: bool = True) -> Progress:
        """Work begins and ends: `with progress.doing("reading") as shown`. Of several processes, one alone has it shown."""
        return self if shown else Progress()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def warn(self, text: str) -> None:
        """Something that its user should know."""
        warnings.warn(text, stacklevel=3)

    def said(self, text: str) -> str:
        """A text that names arguments, in the words of whoever reads it."""
        return text

    def show(self, what: str, done: int, of: int | None = None, unit: str = "", lines: int = 0) -> None:
        """So much of `what` is done, of so much in all if that is known; `lines` tell of it where nothing can be drawn."""

    def line(self, text: str) -> None:
        """A line beside it."""

    def begin(self, epochs: int) -> None:
        """A training of so many epochs follows."""

    def step(self, done: int, of: int) -> None:
        """So many steps of so many are done."""

    def epoch(self, metrics: dict[str, Any]) -> None:
        """An epoch has ended."""


SILENT = Progress()

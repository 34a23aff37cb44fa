"""Standard output and error as a command has them: its exit code speaks of its work, not of who listens.

A command that was told where to write its result has done its work when the files are there: should standard output be closed or full, that
is a warning. Where the result is what is printed, it is an error. Whatever cannot be said on standard error is not said.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, ParamSpec, TextIO, TypeVar, cast

from labeldp.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")

_PLACES = ("out", "to", "html")  # what commands call the file or directory that they are told to write


class ReaderGoneError(Exception):
    """Whoever read our output has closed it, as `head` does."""


class _Stream:
    """A stream whose failures to write are told apart from those of every other file."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """As of any stream."""
        with self._caught():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """As of any stream."""
        with self._caught():
            self._stream.flush()

    @contextmanager
    def _caught(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._forget()
            raise ReaderGoneError from None
        except OSError as error:
            self._forget()
            self._failed(error)
        self._check()

    def _forget(self) -> None:
        """What is still unwritten must not fail once more when the interpreter ends."""
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)

    def _failed(self, error: OSError) -> None:
        """Standard error: there is nobody left to tell."""

    def _check(self) -> None:
        """Whether the command may go on."""


class _Output(_Stream):
    """Standard output. `beside` says that the command's result is files, and this is beside them."""

    beside = False
    lost: OSError | None = None

    def _failed(self, error: OSError) -> None:
        self.lost = error

    def _check(self) -> None:
        # At every write: libraries try a stream out, and do not tell what came of it.
        if self.lost and not self.beside:
            raise InputError(f"{self._why()}, and what was to be printed is the result.") from None

    def _why(self) -> str:
        assert self.lost is not None
        return f"standard output cannot be written: {self.lost.strerror}"

    def warning(self) -> str | None:
        """What to say of a result that was not printed, if it was not."""
        return f"{self._why()}. Files and exit code are as they should be." if self.beside and self.lost else None


@contextmanager
def standard_streams() -> Iterator[None]:
    """Both streams, open whatever the shell did, for as long as a command runs."""
    _open_closed()
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper):  # a terminal without ε shows ? instead of failing
            stream.reconfigure(errors="replace")
    output = _Output(before[0])
    sys.stdout, sys.stderr = cast(TextIO, output), cast(TextIO, _Stream(before[1]))
    try:
        yield
    finally:
        if warning := output.warning():
            print(f"warning: {warning}", file=sys.stderr, flush=True)
        sys.stdout, sys.stderr = before


def _open_closed() -> None:
    """Nobody's file takes the number of a stream that the shell closed: what is written there would go into it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one. Standard output cannot be written, and says so; the others are empty.
            os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            raw = io.FileIO(number, "w", closefd=False)
            setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", line_buffering=True))


def noting_its_result(command: Callable[P, R]) -> Callable[P, R]:
    """The command; standard output learns whether it was told where to write files."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if isinstance(sys.stdout, _Output):
            told = any(kwargs.get(place) is not None for place in _PLACES)
            sys.stdout.beside = told and not kwargs.get("list_cells")
        return command(*args, **kwargs)

    return run

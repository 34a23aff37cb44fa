"""Errors name arguments as Python does, in backticks: `again='charge'`. On the command line these are options: --again charge."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import typer

_MARKED = re.compile(r"`([a-z_]+(?:=[^`]*)?)`")
_PAIRS = {"budget_gaussian": "budget_delta"}  # one argument of two numbers, two options
_ALSO = {
    "ids": "id_column",
    "label_names": "classes",
    "prior_saw_none": "other_rows",
}  # of arrays, or of a part of a command


def as_options(message: str) -> str:
    """The message, its arguments written as options: those of the command that is running, else of any."""
    from labeldp.cli import app

    every = typer.main.get_command(app)
    options = {**_options(every), **_options(_called(every, sys.argv[1:]))}
    options |= {name: options[same] for name, same in _ALSO.items()}

    def translated(marked: re.Match[str]) -> str:
        try:
            call = ast.parse(f"f({marked[1]})", mode="eval").body
            assert isinstance(call, ast.Call)
            given = [(ast.unparse(name), True) for name in call.args]
            given += [(str(keyword.arg), ast.literal_eval(keyword.value)) for keyword in call.keywords]
        except (SyntaxError, ValueError):
            return marked[0]
        if any(name not in options for name, _ in given):
            return marked[0]
        return " ".join(" ".join(_said(name, value, options)) for name, value in given)

    return _MARKED.sub(translated, message)


def _said(name: str, value: Any, options: dict[str, str]) -> Iterator[str]:
    if name in _PAIRS and isinstance(value, tuple):
        yield from _said(name, value[0], options)
        yield from _said(_PAIRS[name], value[1], options)
        return
    yield options[name]
    if value is not True:
        yield shlex.quote(f"{value:g}" if isinstance(value, float) else str(value))


def _called(command: Any, words: Sequence[str]) -> Any:
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
    return command


def _options(command: Any) -> dict[str, str]:
    """Each argument's name and option, of a command and those below it."""
    found = {p.name: p.opts[0] for p in command.params if p.opts[0].startswith("--")}
    for below in getattr(command, "commands", {}).values():
        found = {**_options(below), **found}
    return found

"""A command line from a dataclass and a function."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from labeldp.cli.derive import command
from labeldp.commands.option import Argument, Option, Options
from labeldp.commands.progress import SILENT
from labeldp.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked(Options):
    """What it is told."""

    place: Annotated[Path, Argument("Where.")]
    names: Annotated[tuple[str, ...], Option("Who.", flag="--name")] = ()
    classes: Annotated[Any, Option("Which.", kind=str)] = None
    count: Annotated[int, Option("How many.", panel="Data")] = 2
    secret: Annotated[bool, Option("Not shown.", hidden=True)] = False


@dataclasses.dataclass(frozen=True)
class Half:
    error: InputError

    def to_json(self):
        return {"half": True}


def work(options, progress=SILENT):
    """Do it.

    Example: do it now
    """
    if options.count < 0:
        return None
    if options.count > 9:
        return Half(InputError("the rest is missing."))
    with progress.doing("work") as shown:
        shown.line("working")
    given = dataclasses.asdict(options) | {"place": str(options.place)}
    return given | {"warnings": ["`count` is small"]}


@pytest.fixture
def run():
    app = typer.Typer()
    app.command()(command(work, Asked, lambda options, result: print("shown", options.count)))
    return lambda *words: CliRunner().invoke(app, list(words))


def test_what_is_typed_is_what_the_function_gets(run):
    done = run("a/b", "--name", "x", "--name", "y", "--classes", "2", "--count", "3", "--secret", "--json")
    assert json.loads(done.stdout) == {
        "place": "a/b", "names": ["x", "y"], "classes": "2", "count": 3, "secret": True, "warnings": ["`count` is small"],
    }  # fmt: skip
    assert done.stderr == "working\nwarning: --count is small\n"


def test_defaults_and_people(run):
    assert run("a").stdout == "shown 2\n"
    assert json.loads(run("a", "--json").stdout)["names"] == []
    assert run().exit_code == 2


def test_help_says_what_the_dataclass_says(run):
    shown = run("--help").stdout
    for words in ("Do it.", "Example: do it now", "Where.", "--name", "Who.", "╭─ Data", "[default: 2]", "--json"):
        assert words in shown
    assert "--secret" not in shown


def test_what_is_incomplete_is_printed_and_then_said(run):
    done = run("a", "--count", "10", "--json")
    assert json.loads(done.stdout) == {"half": True}
    assert str(done.exception) == "the rest is missing."


def test_other_processes_print_nothing(run):
    assert run("a", "--count", "-1", "--json").output == ""

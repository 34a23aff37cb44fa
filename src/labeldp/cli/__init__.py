"""The command line: each command parses, calls one function, prints. Heavy imports happen where they are used."""

from __future__ import annotations

import functools
import io
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import typer

from labeldp.cli import (
    audit,
    canaries,
    download,
    games,
    inspect,
    judge,
    ledger,
    pate,
    plan,
    release,
    reproduce,
    select,
    train,
)
from labeldp.errors import LabelDPError

_EXIT_CODES = "Exit codes: 0 done · 1 a defect of labeldp · 2 unusable input · 3 the ledger refuses, or verification fails · 4 charged but not finished: run it again."

_EXTRAS = ("torch", "safetensors", "PIL", "sklearn")

app = typer.Typer(
    name="labeldp",
    help="Release labels that are the secret, at a proven label-differential-privacy cost.\n\n" + _EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its tracebacks show local variables, and some of those are labels
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """Typer would leave on Ctrl-C without a word."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt:
            typer.echo("interrupted; the same command finishes what was begun, and nothing is charged twice.", err=True)
            raise typer.Exit(130) from None

    return wrapped


for _name, _command in (
    ("plan", plan.command),
    ("release", release.command),
    ("inspect", inspect.command),
    ("train", train.command),
    ("predict", judge.predict),
    ("evaluate", judge.evaluate),
    ("select", select.command),
    ("download", download.command),
    ("audit", audit.command),
    ("audit-repeat", games.repeat),
    ("audit-heuristic", games.heuristic),
    ("reproduce", reproduce.command),
):
    app.command(_name)(_interruptible(_command))
app.add_typer(ledger.app, name="ledger")
app.add_typer(canaries.app, name="canaries")
app.add_typer(pate.app, name="pate")


def _version(value: bool) -> None:
    if value:
        from labeldp import __version__

        typer.echo(f"labeldp {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main() -> None:
    """Run a command; say what went wrong in one sentence."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without ε shows ? instead of failing
            stream.reconfigure(errors="replace")
    try:
        app()
    except LabelDPError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    except MemoryError:
        typer.echo("error: out of memory; the same command may be run again, nothing is charged twice.", err=True)
        sys.exit(1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except ImportError as error:
        if error.name not in _EXTRAS and "pip install" not in str(error):
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except Exception as error:
        if os.environ.get("LABELDP_DEBUG"):
            raise
        # Another library's message may quote a cell of the file, and so a label.
        place = traceback.extract_tb(error.__traceback__)[-1]
        typer.echo(
            f"error: unexpected {type(error).__name__} at {place.filename}:{place.lineno}. Its message is withheld, since it may "
            "quote a label; LABELDP_DEBUG=1 shows it. Please report this.",
            err=True,
        )
        sys.exit(1)

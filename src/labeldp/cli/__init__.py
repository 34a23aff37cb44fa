"""The command line: each command parses, calls one function, prints. Heavy imports happen where they are used."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import typer
from typer.core import TyperGroup

from labeldp.cli import (
    audit,
    canaries,
    download,
    features,
    games,
    inspect,
    judge,
    ledger,
    pate,
    plan,
    release,
    report,
    reproduce,
    select,
    train,
)
from labeldp.cli.arguments import as_options
from labeldp.cli.streams import ReaderGoneError, noting_its_result, standard_streams
from labeldp.errors import LabelDPError

_EXIT_CODES = (
    "Exit codes: 0 done · 1 a defect of labeldp, or a process it started died · 2 unusable input · 3 the ledger refuses, or verification fails · "
    "4 charged but not finished: run it again · 130 interrupted · 141 the reader of its output went away. Standard output that is closed or full is a "
    "warning where files are the result, which are then all there."
)
_STREAMS = (
    "Results go to standard output, as one JSON document with --json; warnings and progress to standard error. Bars and colours are for terminals "
    "(NO_COLOR is respected): into a pipe or a file go plain lines, whole."
)

# What each library comes with, where it does not come with labeldp itself.
_EXTRAS = {"torch": "train", "safetensors": "train", "PIL": "train", "sklearn": "sklearn"}


class _Commands(TyperGroup):
    """Typer leaves on Ctrl-C without a word."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("interrupted; the same command finishes what was begun, and nothing is charged twice.", err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    name="labeldp",
    cls=_Commands,
    help=f"Release labels that are the secret, at a proven label-differential-privacy cost.\n\n{_STREAMS}\n\n{_EXIT_CODES}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its tracebacks show local variables, and some of those are labels
    context_settings={"help_option_names": ["-h", "--help"]},
)


_OWNER, _FEATURES, _BOTH, _RESEARCH = "Label owner", "Feature owner", "Both", "Research, on public data"

for _panel, _name, _command in (
    (_OWNER, "plan", plan.command),
    (_OWNER, "release", release.command),
    (_OWNER, "select", select.command),
    (_OWNER, "audit", audit.command),
    (_FEATURES, "inspect", inspect.command),
    (_FEATURES, "train", train.command),
    (_FEATURES, "predict", judge.predict),
    (_FEATURES, "evaluate", judge.evaluate),
    (_BOTH, "features", features.command),
    (_BOTH, "report", report.command),
    (_RESEARCH, "download", download.command),
    (_RESEARCH, "reproduce", reproduce.command),
    (_RESEARCH, "audit-repeat", games.repeat),
    (_RESEARCH, "audit-heuristic", games.heuristic),
):
    app.command(_name, rich_help_panel=_panel)(_command)
app.add_typer(ledger.app, name="ledger", rich_help_panel=_OWNER)
app.add_typer(canaries.app, name="canaries", rich_help_panel=_OWNER)
app.add_typer(pate.app, name="pate", rich_help_panel=_OWNER)
for _group in (app, ledger.app, canaries.app, pate.app):
    for _info in _group.registered_commands:
        assert _info.callback is not None
        _info.callback = noting_its_result(_info.callback)


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
    if (
        "_LABELDP_COMPLETE" in os.environ
    ):  # typer wraps help texts as for a page, and shells take each line for an offer
        os.environ["COLUMNS"] = str(1 << 16)
    with standard_streams():
        _run()


def _run() -> None:
    try:
        app()
    except LabelDPError as error:
        typer.echo(f"error: {as_options(str(error))}", err=True)
        sys.exit(error.exit_code)
    except MemoryError:
        typer.echo("error: out of memory; the same command may be run again, nothing is charged twice.", err=True)
        sys.exit(1)
    except ReaderGoneError:
        sys.exit(141)
    except ImportError as error:
        extra = _EXTRAS.get((error.name or "").split(".")[0])
        if extra is None and "pip install" not in str(error):
            raise
        missing = f'this command needs {error.name}, which is not installed: pip install "labeldp[{extra}]"'
        typer.echo(f"error: {missing if extra else error}", err=True)
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

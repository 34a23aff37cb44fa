"""The command line: each command parses, calls one function, prints. Heavy imports happen where they are used."""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import typer
from typer.core import TyperGroup

from labeldp import commands as of
from labeldp.cli import older
from labeldp.cli.arguments import as_options
from labeldp.cli.derive import command
from labeldp.cli.show import owner, pate, research, user
from labeldp.cli.streams import ReaderGoneError, standard_streams
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

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that these words name."""
        meant = (
            args[0] if ctx.resilient_parsing else older.meant(args[0], args[1:])
        )  # a shell that completes is told nothing
        return super().resolve_command(ctx, [meant, *args[1:]])

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


def _group(text: str) -> typer.Typer:
    return typer.Typer(help=text, no_args_is_help=True, pretty_exceptions_enable=False)


_GROUPS = {
    "ledger": _group("Show what has been spent, on which rows, by which release; verify the record."),
    "canaries": _group("Plant labels that an audit will look for (the label owner's side)."),
    "pate": _group(
        "PATE: an ensemble of teachers answers a few questions privately, and a student learns from the answers. Trust model: central. Whoever "
        "runs `teachers` and `aggregate` sees features and labels; what leaves is answers.parquet and what is made of it."
    ),
}
_OWNER, _FEATURES, _BOTH, _RESEARCH = "Label owner", "Feature owner", "Both", "Research, on public data"

# Who it is for, its words, what it is told, the one function, and how its result is shown.
_COMMANDS = (
    (_OWNER, "plan", of.PlanOptions, of.plan, owner.plan),
    (_OWNER, "release", of.ReleaseOptions, of.release, owner.release),
    (_OWNER, "score", of.ScoreOptions, of.score, owner.statistic),
    (_OWNER, "moments", of.MomentsOptions, of.moments, owner.statistic),
    (_OWNER, "select", of.SelectOptions, of.select, owner.select),
    (_OWNER, "audit", of.AuditOptions, of.audit, owner.audit),
    (_FEATURES, "inspect", of.InspectOptions, of.inspect, user.inspect),
    (_FEATURES, "train", of.TrainOptions, of.train, user.train),
    (_FEATURES, "predict", of.PredictOptions, of.predict, user.predict),
    (_FEATURES, "evaluate", of.EvaluateOptions, of.evaluate, user.evaluate),
    (_BOTH, "features", of.FeaturesOptions, of.features, user.features),
    (_BOTH, "report", of.ReportOptions, of.report, user.report),
    (_RESEARCH, "experiment", of.ExperimentOptions, of.experiment, user.train),
    (_RESEARCH, "compare", of.CompareOptions, of.compare, research.compare),
    (_RESEARCH, "download", of.DownloadOptions, of.download, research.download),
    (_RESEARCH, "reproduce", of.ReproduceOptions, of.reproduce, research.reproduce),
    (_RESEARCH, "audit-repeat", of.RepeatOptions, of.audit_repeat, research.audit_repeat),
    (_RESEARCH, "audit-heuristic", of.HeuristicOptions, of.audit_heuristic, research.audit_heuristic),
    (_OWNER, "ledger show", of.LedgerShowOptions, of.ledger_show, owner.ledger_show),
    (_OWNER, "ledger verify", of.LedgerVerifyOptions, of.ledger_verify, owner.ledger_verify),
    (_OWNER, "ledger get", of.LedgerGetOptions, of.ledger_get, owner.ledger_get),
    (_OWNER, "canaries plant", of.CanariesOptions, of.canaries_plant, owner.canaries),
    (_OWNER, "pate run", of.PateRunOptions, of.pate_run, pate.taught),
    (_OWNER, "pate teachers", of.PateTeachersOptions, of.pate_teachers, pate.teachers),
    (_OWNER, "pate aggregate", of.PateAggregateOptions, of.pate_aggregate, pate.aggregate),
    (_OWNER, "pate student", of.PateStudentOptions, of.pate_student, pate.taught),
    (_OWNER, "pate features", of.PateFeaturesOptions, of.pate_features, pate.features),
    (_OWNER, "pate account", of.PateAccountOptions, of.pate_account, pate.account),
)

for _panel, _words, _options, _function, _show in _COMMANDS:
    *_above, _name = _words.split()
    _place = _GROUPS[_above[0]] if _above else app
    _place.command(_name, rich_help_panel=None if _above else _panel)(command(_function, _options, _show))
for _name, _one in _GROUPS.items():
    app.add_typer(_one, name=_name, rich_help_panel=_OWNER)


# A group of one command is a group all the same.
@_GROUPS["canaries"].callback()
def _canaries() -> None:
    pass


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

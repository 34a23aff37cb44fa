"""What the commands for research show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from labeldp.cli.output import print_facts

if TYPE_CHECKING:
    from labeldp.audit.result import AuditResult
    from labeldp.commands import CompareOptions, DownloadOptions, HeuristicOptions, RepeatOptions, ReproduceOptions
    from labeldp.commands.compare import Compared
    from labeldp.commands.reproduce import Reproduced
    from labeldp.experiments.heuristic import Comparison
    from labeldp.files.summary import StatedFit


def download(options: DownloadOptions, done: dict[str, Any]) -> None:
    """Which files are there."""
    for file in done["files"]:
        what = "downloaded; its md5 is the published one" if file["fresh"] else "was there already, and is right"
        typer.echo(f"{file['path']}: {what}")


def compare(options: CompareOptions, found: Compared) -> None:
    """One line a fit."""
    summary = found.summary
    at = "clean labels" if summary.epsilon is None else f"ε = {summary.epsilon:g}"
    typer.echo(
        f"{summary.dataset}, {at}: {summary.rows_trained:,} rows, judged by the true labels of {summary.rows_tested:,} others"
    )
    given = [] if found.given is None else [("given", found.given)]
    print_facts([*((f"{fit.model}, {fit.reading}", _scores(fit)) for fit in summary.fits), *given])


def _scores(fit: StatedFit) -> str:
    from labeldp.evaluation.metrics import metric_text

    said = f"AUC {fit.roc_auc:.3f}, log loss {fit.log_loss:.3f}, {fit.cpu_seconds:,.1f} CPU seconds"
    if (judged := fit.estimates.get("roc_auc")) is None:
        return said
    return f"{said}; AUC by released labels: {metric_text(judged.value, judged.interval_95, judged.rows, judged.rows_needed)}"


def reproduce(options: ReproduceOptions, found: Reproduced | list[dict[str, Any]]) -> None:
    """How far it is and where; or every cell's command."""
    if isinstance(found, list):
        for cell in found:
            typer.echo(cell["command"])
        return
    files = ", ".join(str(options.out / f"{options.name}.{kind}") for kind in ("md", "html", "json"))
    typer.echo(f"{found.finished} of {found.cells} cells are finished: {files}")
    if options.markdown is not None:
        typer.echo(f"also written: {options.markdown}")


def audit_repeat(options: RepeatOptions, result: AuditResult) -> None:
    """The bound."""
    typer.echo(result.summary())


def audit_heuristic(options: HeuristicOptions, found: Comparison) -> None:
    """Both intervals, and whether they overlap."""
    mean = sum(found.accuracy_apart) / len(found.accuracy_apart)
    rows = (
        (f"1 × {options.canaries:,}", found.together, f"test accuracy {found.accuracy_together:.2%}"),
        (
            f"{options.plantings} × {'about ' if options.canaries % options.plantings else ''}{options.canaries / options.plantings:.0f}",
            found.apart,
            f"test accuracy {mean:.2%} on average",
        ),
    )
    print_facts([(name, f"{result.summary().splitlines()[0]}; {accuracy}") for name, result, accuracy in rows])
    empty = [
        name for name, result, _ in rows if result.epsilon_low == 0 and result.epsilon_high in (None, float("inf"))
    ]
    if empty:
        typer.echo(
            f"{' and '.join(empty)}: the model is sure of too few canaries, and the interval says nothing; nothing can be compared"
        )
    else:
        agree = (
            "the intervals overlap"
            if found.overlap()
            else "the intervals do not overlap: the heuristic is doubtful here"
        )
        typer.echo(agree)
    typer.echo(f"assumes {found.together.assumption}")

"""One page for a run, or several side by side: `labeldp report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import Argument, Option, Options
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import LEDGER

if TYPE_CHECKING:
    from labeldp.report.page import Report


# fmt: off
@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    """What `labeldp report` is told."""

    runs: Annotated[tuple[Path, ...], Argument("Directories of train, experiment, select, pate run, audit --out, audit-repeat or audit-heuristic; files of scores.")]
    out: Annotated[Path, Option("Where to write the page.")] = Path("report.html")
    release: Annotated[tuple[Path, ...], Option("A release that the runs were made from, where it has been moved since.")] = ()
    ledger: Annotated[Path | None, LEDGER.but(help="The label owner's ledger: shows the entries of these runs' data sets, and no others.")] = None
    owner: Annotated[bool, Option("Also what only the label owner may know (data-dependent ε, positions of canaries, accuracy on private labels). Such a page is not to be handed over.")] = False
# fmt: on


@dataclass(frozen=True)
class Reported:
    """A page that was written."""

    report: Report
    out: Path
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {"out": str(self.out), "bytes": self.bytes, **self.report.to_json()}


def report(options: ReportOptions, progress: Progress = SILENT) -> Reported:
    """Write one self-contained page: what is proven beside what was measured, accuracy, what the noise did, and how to repeat it.

    Example: labeldp report run/ audit/ --ledger labels.ledger --out report.html
    """
    from labeldp.report.page import Report

    made = Report.of(list(options.runs), releases=options.release, ledger=options.ledger, owner=options.owner)
    size = made.save(options.out)
    for run in made.runs:
        if run.certificate is not None and not run.checked and run.made_from:
            progress.warn(
                f"a release of {run.name} is not where the run found it, so its certificate is not checked, and what the noise did is "
                "not shown; name it (`release`)."
            )
    if options.owner:
        progress.line(f"{options.out} is for the label owner alone: do not hand it over.")
    return Reported(made, options.out, size)

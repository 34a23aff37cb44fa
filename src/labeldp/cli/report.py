"""`labeldp report`: one page for a run, or several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli.options import JsonOption
from labeldp.cli.output import print_json


def command(
    runs: Annotated[list[Path], typer.Argument(help="Directories of train, select, pate run, audit --out, audit-repeat or audit-heuristic.", show_default=False, readable=False)],
    out: Annotated[Path, typer.Option("--out", help="Where to write the page.", readable=False)] = Path("report.html"),
    releases: Annotated[list[Path] | None, typer.Option("--release", help="A release that the runs were made from, where it has been moved since.", readable=False)] = None,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="The label owner's ledger: shows the entries of these runs' data sets, and no others.", readable=False)] = None,
    owner: Annotated[bool, typer.Option("--owner", help="Also what only the label owner may know (data-dependent ε, positions of canaries, accuracy on private labels). Such a page is not to be handed over.")] = False,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Write one self-contained page: what is proven beside what was measured, accuracy, what the noise did, and how to repeat it.

    Example: labeldp report run/ audit/ --ledger labels.ledger --out report.html
    """
    from labeldp.report.build import Report

    report = Report.of(runs, releases=releases or (), ledger=ledger, owner=owner)
    size = report.save(out)
    for run in report.runs:
        if run.certificate is not None and not run.checked and run.made_from:
            typer.echo(
                f"warning: a release of {run.name} is not where the run found it, so its certificate is not checked, and what the noise did is "
                "not shown; name it (--release).",
                err=True,
            )
    if owner:
        typer.echo(f"{out} is for the label owner alone: do not hand it over.", err=True)
    if json:
        print_json({"out": str(out), "bytes": size, **report.to_json()})
    else:
        typer.echo(
            f"{out}: {len(report.runs)} run{'s' if len(report.runs) > 1 else ''}, {size / 1000:,.0f} kB; open it in a browser"
        )

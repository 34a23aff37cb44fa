"""`labeldp ledger`: what has been spent, and whether the record is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli.complete import data_sets
from labeldp.cli.options import JsonOption, LedgerOption
from labeldp.cli.output import print_json, print_table

app = typer.Typer(
    help="Show what has been spent, on which rows, by which release; verify the record.", no_args_is_help=True
)


@app.command()
def show(
    ledger: LedgerOption = None,
    data_set: Annotated[
        str | None, typer.Option("--data-set", help="Only this data set.", autocompletion=data_sets)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show every data set's budget, what is spent so far, and its releases."""
    from labeldp.accounting.ledger import Ledger
    from labeldp.accounting.statement import statement

    opened = Ledger(ledger, create=False)
    facts = statement(opened, data_set)
    if json:
        print_json(facts)
        return
    typer.echo(f"ledger {facts['ledger']}")
    for entry in facts["data_sets"]:
        typer.echo(f"\n{entry['name']}: {entry['rows']:,} rows, known by {entry['known_by']}\n  budget {entry['text']}")
        for raised in entry["raised"]:
            typer.echo(f"  the budget was raised on {raised['at']}")
        print_table(
            (">release", "made (UTC)", "rows", "mechanism", "cost", "state"),
            [
                (
                    str(r["entry"]),
                    r["made"],
                    r["rows_text"],
                    r["mechanism"],
                    r["cost_text"],
                    r["state"],
                )
                for r in entry["releases"]
            ],
        )


@app.command()
def verify(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Release files, as after --releases.", show_default=False, readable=False),
    ] = None,
    releases: Annotated[
        list[Path] | None, typer.Option("--releases", help="Release files that this ledger must know.", readable=False)
    ] = None,
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """Check that the ledger is whole, that nothing in its folder is newer, and, with --releases FILES, that they are not."""
    from labeldp.accounting.ledger import Ledger
    from labeldp.release.verify import verify as run

    result = run(Ledger(ledger, create=False), [*(releases or []), *(files or [])])
    if json:
        print_json(result)
        return
    typer.echo(
        f"{result['ledger']}: {result['entries']} entries, each follows from the one before, and none that its folder knows of is missing; "
        "copies of all releases are there."
    )
    for name, text in result["published"].items():
        typer.echo(f"{name}: {text}")
    for checked in result["releases"]:
        typer.echo(f"{checked['file']}: recorded as entry {checked['entry']}, unaltered")


@app.command()
def get(
    entry: Annotated[int, typer.Argument(help="The release's number, as `ledger show` prints it.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="Where to write it.", readable=False)],
    ledger: LedgerOption = None,
    json: JsonOption = False,
) -> None:
    """Write the ledger's copy of an earlier release to a file. Costs nothing."""
    from labeldp.accounting.ledger import Ledger
    from labeldp.release.make import fetch

    opened = Ledger(ledger, create=False)
    fetched = fetch(opened, entry, out)
    if json:
        record = opened.book().releases[entry]
        print_json(
            {
                "out": str(out),
                "entry": entry,
                "ledger": str(opened.path),
                "checksum": record.checksum,
                "made": record.made,
                "fetched": fetched,
            }
        )
        return
    typer.echo(f"{out}: release {entry}, {'nothing charged' if fetched else 'there already and unaltered'}")

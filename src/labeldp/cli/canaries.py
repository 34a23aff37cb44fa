"""`labeldp canaries plant`: the owner plants labels that an audit will look for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from labeldp.cli.complete import among, data_sets
from labeldp.cli.options import (
    BUDGET,
    ClassesOption,
    IdsAsWrittenOption,
    JsonOption,
    LedgerOption,
    OtherIdsOption,
    read_span,
)
from labeldp.cli.output import print_facts, print_json
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.audit.plant import Planting

app = typer.Typer(
    help="Plant labels that an audit will look for (the label owner's side).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_MADE = {
    "all": "",
    "the rest": " (begun before, finished now)",
    "nothing": " (planted before: both files are there, unaltered)",
}


@app.callback()
def _root() -> None:
    pass


@app.command("plant")
def plant(
    labels: Annotated[Path, typer.Argument(help="A Parquet or CSV file with the private labels.", show_default=False, readable=False)],
    label: Annotated[str, typer.Option("--label", help="The column that holds the label.")],
    classes: ClassesOption,
    out: Annotated[Path, typer.Option("--out", help="The labels with canaries among them: release this file. Parquet, private.", readable=False)],
    secret: Annotated[Path, typer.Option("--secret", help="What was planted where (.npz): keep it to yourself.", readable=False)],
    count: Annotated[int | None, typer.Option("--count", help="How many; at most 2% of the rows do little harm. Default: 1,000, but not more than that.")] = None,
    candidates: Annotated[int | None, typer.Option("--candidates", help="Labels to choose from for each, up to the number of classes: more prove a larger ε. Default: 2.")] = None,
    id_column: Annotated[str | None, typer.Option("--id", help="The id column, to find the canaries again by id.")] = None,
    rows: Annotated[str | None, typer.Option("--rows", help="Plant only among rows a:b, those to be trained on.")] = None,
    data_set: Annotated[str | None, typer.Option("--data-set", help="The name by which the ledger knows the data set, or will. Default: the file's stem.", autocompletion=data_sets)] = None,
    wrong_only: Annotated[bool, typer.Option("--wrong-only", help="The paper's way: every wrong label is a candidate. For `audit --method paper`.")] = False,
    ledger: LedgerOption = None,
    again: Annotated[str | None, typer.Option("--again", help="`--again charge`: plant in rows that were released before, for a second release at a second cost.", rich_help_panel=BUDGET, autocompletion=among("charge"))] = None,
    other_ids: OtherIdsOption = None,
    ids_as_written: IdsAsWrittenOption = False,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Copy a file of labels with some of them replaced by a fair draw that looks at no label.

    Plant before the first release: what was released before knows nothing of canaries, and is refused. Then release the copy, have it trained
    on, and audit the model's probabilities for all rows: labeldp audit. The same command again draws nothing: it writes what is missing.
    """
    from labeldp.audit.plant import MOST_SHARE, plant_file
    from labeldp.release.classes import Classes

    if wrong_only and candidates is not None:
        raise InputError("--wrong-only makes every wrong label a candidate; leave out --candidates.")
    done = plant_file(
        labels, out, secret, label=label, classes=Classes.parse(classes), count=count, candidates=2 if candidates is None else candidates, id_column=id_column,
        among=read_span(rows), data_set=data_set, wrong_only=wrong_only, ledger=ledger, again=again, other_ids=other_ids,
        ids_as_written=ids_as_written,
    )  # fmt: skip
    if done.share > MOST_SHARE:
        typer.echo(
            f"warning: {done.share:.1%} of the rows are canaries; above {MOST_SHARE:.0%} the model itself suffers.",
            err=True,
        )
    facts = {
        "out": str(out), "secret": str(secret), "canaries": len(done.canaries), "candidates": done.canaries.candidates.shape[1], "rows": done.rows,
        "share": done.share, "canary_share": done.correction, "data_set": done.data_set, "made": done.made,
    }  # fmt: skip
    if json:
        print_json(facts)
        return
    print_facts([
        ("planted", f"{out}: {len(done.canaries):,} of {done.rows:,} labels of data set {done.data_set!r} replaced; release this file{_MADE[done.made]}"),
        ("secret", f"{secret}: what was planted where; it stays with you"),
        ("accuracy", "estimated from rows with canaries it is too low: " + _advice(done)),
    ])  # fmt: skip


def _advice(done: Planting) -> str:
    start, stop = done.span
    if done.correction >= 1:
        return "with so many of them nothing can be corrected"
    told = f"tell the feature owner --canary-share {done.correction:.6g}"
    if (start, stop) == (0, done.rows):
        return told
    return f"{told} if it is estimated from rows {start}:{stop}; no other row has canaries (share 0), and among all rows it is {done.correction * (stop - start) / done.rows:.6g}"

"""`labeldp release`: the label owner's one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from labeldp.cli.complete import MECHANISMS, among, data_sets
from labeldp.cli.options import (
    BUDGET,
    EXPERIMENTS,
    PRIVACY,
    ROWS,
    ClassesOption,
    DeltaOption,
    IdsAsWrittenOption,
    JsonOption,
    LedgerOption,
    OtherIdsOption,
    PriorOption,
    read_prior,
)
from labeldp.cli.output import cost_text, guarantee_text, ledger_text, order_text, show
from labeldp.errors import InputError


def command(
    labels: Annotated[
        Path,
        typer.Argument(
            help="A Parquet or CSV file (also .tsv, .gz; delimiters are found) with the private labels.",
            show_default=False,
            readable=False,
        ),
    ],
    label: Annotated[str, typer.Option("--label", help="The column that holds the label.")],
    classes: ClassesOption,
    out: Annotated[
        Path, typer.Option("--out", help="The release file to write: Parquet, safe to hand over.", readable=False)
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--epsilon",
            help="The ε to spend on each label: needed for every mechanism but none.",
            rich_help_panel=PRIVACY,
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            "--id", rich_help_panel=ROWS, help="A public column that names each row. Default: the row number."
        ),
    ] = None,
    data_set: Annotated[
        str | None,
        typer.Option(
            "--data-set",
            help="What the ledger calls these labels. Default: the file's stem.",
            rich_help_panel=BUDGET,
            autocompletion=data_sets,
        ),
    ] = None,
    ledger: LedgerOption = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            "--mechanism",
            help="response, subset, unary, laplace, gaussian. Default: the most informative (see plan).",
            rich_help_panel=PRIVACY,
            autocompletion=among(*MECHANISMS, "none"),
        ),
    ] = None,
    delta: DeltaOption = None,
    prior: PriorOption = None,
    rows: Annotated[
        str | None,
        typer.Option(
            "--rows",
            rich_help_panel=ROWS,
            help="Release only rows a:b of the file (from 0, b excluded), a random part of them by id (1/2, 2/2), or those whose ids a file names (.txt: one a line; else a table with the --id column).",
        ),
    ] = None,
    public_prior: Annotated[
        Path | None,
        typer.Option(
            "--public-prior",
            rich_help_panel=ROWS,
            readable=False,
            help="Class probabilities by row (`labeldp predict --out`) from a model that did not see these labels: each row then gets the most informative channel for its own prior, or with --mechanism response RRWithPrior.",
        ),
    ] = None,
    shuffle: Annotated[
        bool, typer.Option("--shuffle", rich_help_panel=ROWS, help="Write the rows in a random order (needs --id).")
    ] = False,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            rich_help_panel=BUDGET,
            help="Cap on the pure ε of every row, all releases together. Default: the first release's cost.",
        ),
    ] = None,
    budget_gaussian: Annotated[
        float | None,
        typer.Option(
            "--budget-gaussian", rich_help_panel=BUDGET, help="Cap on Gaussian releases: their ε at --budget-delta."
        ),
    ] = None,
    budget_delta: Annotated[
        float | None, typer.Option("--budget-delta", rich_help_panel=BUDGET, help="The δ of --budget-gaussian.")
    ] = None,
    raise_budget: Annotated[
        bool,
        typer.Option(
            "--raise-budget",
            rich_help_panel=BUDGET,
            help="Allow a higher budget than was promised; recorded for good.",
        ),
    ] = False,
    again: Annotated[
        str | None,
        typer.Option(
            "--again",
            rich_help_panel=BUDGET,
            help="`--again charge`: release rows a second time, at a second cost.",
            autocompletion=among("charge"),
        ),
    ] = None,
    other_ids: OtherIdsOption = None,
    ids_as_written: IdsAsWrittenOption = False,
    insecure_seed: Annotated[
        int | None,
        typer.Option(
            "--insecure-seed", rich_help_panel=EXPERIMENTS, help="Repeatable noise for experiments: protects nobody."
        ),
    ] = None,
    insecure_no_privacy: Annotated[
        bool,
        typer.Option(
            "--insecure-no-privacy",
            rich_help_panel=EXPERIMENTS,
            help="With --mechanism none: write the true labels, for baselines.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Release a file's labels through a mechanism of proven cost, and charge the ledger.

    Row order and ids are public: a file that is sorted by its label gives the label away, whatever the noise (see --shuffle, and
    choose ids that do not follow the label either). Asked for the same again, the command returns the first release and charges nothing.

    Example: labeldp release visits.csv --label bought --classes no,yes --id visit --epsilon 1 --out released.parquet
    """
    from labeldp.cli.progress import Progress
    from labeldp.release.files import ReleaseOptions, release_file
    from labeldp.release.rows import read_rows

    if (budget_gaussian is None) != (budget_delta is None):
        raise InputError("--budget-gaussian and --budget-delta go together: a Gaussian cost is an ε at a δ.")
    from labeldp.release.classes import Classes

    declared = Classes.parse(classes)
    options = ReleaseOptions(
        label=label, classes=declared, epsilon=epsilon, id_column=id_column, data_set=data_set, ledger=ledger,
        mechanism=mechanism, delta=delta, prior=read_prior(prior, declared), public_prior=public_prior, rows=read_rows(rows, id_column), shuffle=shuffle,
        budget=budget,
        budget_gaussian=None if budget_gaussian is None or budget_delta is None else (budget_gaussian, budget_delta),
        raise_budget=raise_budget, again=again, other_ids=other_ids, ids_as_written=ids_as_written, insecure_seed=insecure_seed, insecure_no_privacy=insecure_no_privacy,
    )  # fmt: skip
    with Progress("reading") as shown:
        done = release_file(labels, out, options, lambda what, rows, of: shown.show(what, rows, of, "rows"))
    show(done, _facts, json=json)


def _facts(done: dict[str, Any]) -> list[tuple[str, str]]:
    mechanism, certificate, budget = done["mechanism"], done["certificate"], done["budget"]
    what = f"{done['rows']:,} rows of data set {done['data_set']!r}"
    if done["data_set_from"]:
        what += f" ({done['data_set_from']})"
    facts = [
        ("released", f"{done['out']}: {what}"),
        ("mechanism", f"{mechanism['name']}: {done['describes']}"),
        ("certificate", guarantee_text(certificate)),
        ("cost", cost_text(done)),
        ("budget", budget["text"]),
        ("row order", order_text(done)),
        ("ledger", ledger_text(done)),
    ]
    facts += [("raised", f"the budget was raised on {r['at']}") for r in budget["raised"]]
    if done["insecure"]:
        facts.append(("INSECURE", done["insecure"]))
    return facts

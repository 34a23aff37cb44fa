"""`labeldp select`: choose among candidates where a release cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from labeldp.cli.complete import among, data_sets
from labeldp.cli.options import (
    BUDGET,
    DATA,
    EXPERIMENTS,
    MACHINE,
    ClassesOption,
    DeviceOption,
    IdsAsWrittenOption,
    ImageSizeOption,
    JsonOption,
    LedgerOption,
    OtherIdsOption,
)
from labeldp.cli.output import cost_text, guarantee_text, ledger_text, order_text, show
from labeldp.errors import InputError

_SELECTION = "Selection"


def command(
    labels: Annotated[Path, typer.Argument(help="A Parquet or CSV file with the private labels.", show_default=False, readable=False)],
    label: Annotated[str, typer.Option("--label", help="The column that holds the label.")],
    classes: ClassesOption,
    features: Annotated[Path, typer.Option("--features", help="Public features: .npy, .npz, Parquet (number columns, or one list column), CSV, or a folder of images.", readable=False, rich_help_panel=DATA)],
    candidates: Annotated[Path, typer.Option("--candidates", help="JSON: a list of objects, or one object whose values are lists (a grid). Keys: mechanism (response, subset, unary, laplace), model, epochs, batch_size, learning_rate, weight_decay, average, prior, denoise, randaugment, cutout.", readable=False, rich_help_panel=_SELECTION)],
    epsilon: Annotated[float, typer.Option("--epsilon", help="The ε of the whole selection: each run gets less of it.")],
    out: Annotated[Path, typer.Option("--out", help="The run directory of the winner; what is in it may be handed over.", readable=False)],
    id_column: Annotated[str | None, typer.Option("--id", help="A public column that names each row, in the labels and in the features. Default: the row number.", rich_help_panel=DATA)] = None,
    image_size: ImageSizeOption = None,
    shuffle: Annotated[bool, typer.Option("--shuffle", help="Write the rows in a random order (needs --id): that of the file may be that of its labels.", rich_help_panel=DATA)] = False,
    expected_runs: Annotated[float, typer.Option("--expected-runs", help="How many runs there are on average; how many there were stays secret.", rich_help_panel=_SELECTION)] = 10.0,
    shape: Annotated[float, typer.Option("--shape", help="Of the law of the number of runs: 0 (logarithmic) costs least and varies most, 1 is geometric.", rich_help_panel=_SELECTION)] = 1.0,
    score_share: Annotated[float, typer.Option("--score-share", help="The share of rows that score, and are not trained on.", rich_help_panel=_SELECTION)] = 0.1,
    seed: Annotated[int, typer.Option("--seed", help="Public: of the training, and of which rows score; never of the noise.", rich_help_panel=_SELECTION)] = 0,
    data_set: Annotated[str | None, typer.Option("--data-set", help="What the ledger calls these labels. Default: the file's stem.", rich_help_panel=BUDGET, autocompletion=data_sets)] = None,
    ledger: LedgerOption = None,
    budget: Annotated[float | None, typer.Option("--budget", help="Cap on the pure ε of every row, all releases together. Default: the first release's cost.", rich_help_panel=BUDGET)] = None,
    raise_budget: Annotated[bool, typer.Option("--raise-budget", help="Allow a higher budget than was promised; recorded for good.", rich_help_panel=BUDGET)] = False,
    again: Annotated[str | None, typer.Option("--again", help="`--again charge`: release rows a second time, at a second cost.", rich_help_panel=BUDGET, autocompletion=among("charge"))] = None,
    other_ids: OtherIdsOption = None,
    ids_as_written: IdsAsWrittenOption = False,
    insecure_seed: Annotated[int | None, typer.Option("--insecure-seed", help="Repeatable noise for experiments: protects nobody.", rich_help_panel=EXPERIMENTS)] = None,
    device: DeviceOption = "auto",
    threads: Annotated[int | None, typer.Option("--threads", help="CPU threads.", rich_help_panel=MACHINE)] = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Release, train and score several candidates in private, and publish the best: for choices that one release cannot make.

    Trust model: central. Whoever runs this sees features and labels. Training many times on one release costs nothing (`labeldp train`);
    this is for choosing the mechanism, or where released labels are too noisy to choose by.

    How many runs there were must stay secret. Files tell the day of the charge and no other time; who watches the machine can tell: run
    this where nobody does, and do not send the result on the moment it is there.

    Example: labeldp select labels.csv --label y --classes 10 --id uid --features x.parquet --candidates candidates.json --epsilon 4 --out chosen/
    """
    import torch

    from labeldp.cli.progress import Progress
    from labeldp.release.classes import Classes
    from labeldp.selection.select import SelectOptions, select

    if threads is not None:
        if threads < 1:
            raise InputError(f"--threads is at least 1; got {threads}.")
        torch.set_num_threads(threads)
    options = SelectOptions(
        label=label, classes=Classes.parse(classes), epsilon=epsilon, candidates=candidates, expected_runs=expected_runs, shape=shape,
        score_share=score_share, id_column=id_column, image_size=image_size, data_set=data_set, ledger=ledger, budget=budget,
        raise_budget=raise_budget, again=again, other_ids=other_ids, ids_as_written=ids_as_written, shuffle=shuffle, seed=seed, device=device, insecure_seed=insecure_seed,
    )  # fmt: skip
    # How many runs there were stays secret: no bar counts them, and no line says when they were over.
    with Progress("choosing in private") as shown:
        done = select(
            labels, features, out, options, lambda done, of: shown.show("training the winner", done, of, "steps")
        )
    show(done, _facts, json=json)


def _facts(done: dict[str, Any]) -> list[tuple[str, str]]:
    certificate = done["certificate"]
    options = ", ".join(f"{name} {value}" for name, value in done["options"].items())
    facts = [
        ("run", f"{done['out']}: {done['rows']:,} rows of data set {done['data_set']!r}"),
        ("chosen", f"candidate {done['candidate']} of 0 to {done['candidates'] - 1}: {options}"),
        (
            "score",
            f"{done['score']:.2%} of {done['scoring_rows']:,} rows, with noise of ±{done['score_deviation']:.2%}; of the best, and so a little too high",
        ),
        ("certificate", guarantee_text(certificate, "selection")),
        ("one run", f"ε = {done['base_epsilon']:.6g} for release and score alike"),
        ("trust", "central: whoever ran this saw features and labels; how long it took must stay secret"),
        ("cost", cost_text(done, "charged now, once for all runs")),
        ("budget", done["budget"]),
        ("row order", order_text(done)),
        ("ledger", ledger_text(done)),
    ]  # fmt: skip
    if done["insecure"]:
        facts.append(("INSECURE", done["insecure"]))
    return facts

"""`labeldp predict` and `labeldp evaluate`: what a trained model says, and how often it is right."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli.complete import MODELS, among
from labeldp.cli.options import (
    DATA,
    JUDGING,
    MODEL,
    CanaryShareOption,
    DeviceOption,
    FeaturesOption,
    IdOption,
    ImageSizeOption,
    JsonOption,
)
from labeldp.cli.output import print_facts, print_json, warn
from labeldp.errors import InputError

NOT_TRAINED_ON = "that the model saw none of these rows' labels, as its run directory says"

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="For a run of your own model, package.module:Class: say again that you trust it.",
        rich_help_panel=MODEL,
        autocompletion=among(*MODELS),
    ),
]


def predict(
    folder: Annotated[Path, typer.Argument(help="A run directory.", show_default=False, readable=False)],
    features: FeaturesOption,
    out: Annotated[Path, typer.Option("--out", help="Probabilities: Parquet by row id, or .npy.", readable=False)],
    id_column: IdOption = None,
    image_size: ImageSizeOption = None,
    model: ModelOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Write a trained model's class probabilities for new rows."""
    from labeldp.cli.progress import Progress
    from labeldp.data.features import read_parts
    from labeldp.training.finished import predictor
    from labeldp.training.folder import RunFolder
    from labeldp.training.machine import Machine
    from labeldp.training.scores import Part, write_parts

    if features is None:
        raise InputError("--features is missing.")
    if out.suffix not in (".npy", ".parquet"):
        raise InputError(f"probabilities are written as Parquet or .npy; name --out so, not {out.name}.")
    config = RunFolder(folder).trained_as()
    names = config["label_names"] or [str(number) for number in range(config["num_classes"])]
    promise, named = RunFolder(folder).promise(), id_column is not None or features.is_dir()

    def scored() -> Iterator[Part]:
        probabilities = None
        for part in read_parts(features, id_column, image_size):
            part.refuse_label(config["label"], names)
            probabilities = probabilities or predictor(folder, Machine(device), model)
            yield part.ids, probabilities(part.ordered(config.get("columns", ())))

    with Progress("predicting"):
        rows = write_parts(out, scored(), {**promise, "named": named, "classes": names})
    if json:
        print_json({"out": str(out), "rows": rows, "classes": names, "named": named, **promise})
        return
    order = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
    typer.echo(f"{out}: probabilities of {rows:,} rows, of the classes {order}, in this order")


def evaluate(
    folder: Annotated[Path, typer.Argument(help="A run directory.", show_default=False, readable=False)],
    release: Annotated[
        Path,
        typer.Option(
            "--release",
            help="Released labels of rows that were not trained on.",
            readable=False,
            rich_help_panel=DATA,
        ),
    ],
    features: FeaturesOption,
    id_column: IdOption = None,
    image_size: ImageSizeOption = None,
    canary_share: CanaryShareOption = 0.0,
    other_rows: Annotated[
        bool,
        typer.Option(
            "--other-rows",
            help="No row of this release was trained on, though ids cannot show it.",
            rich_help_panel=JUDGING,
        ),
    ] = False,
    model: ModelOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Estimate a model's accuracy from released labels: no clean label needed. Rows that were trained on are refused."""
    from labeldp.data.features import join, read_features
    from labeldp.release import Release
    from labeldp.training.finished import evaluate as run
    from labeldp.training.folder import RunFolder
    from labeldp.training.machine import Machine
    from labeldp.training.run import estimate_json

    if features is None:
        raise InputError("--features is missing.")
    loaded = Release.load(release)
    read = read_features(features, id_column, image_size)
    read = replace(read, values=read.ordered(RunFolder(folder).trained_as().get("columns", ())))
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        estimate = run(folder, loaded, join(loaded, read), Machine(device), model=model, other_rows=other_rows)
    for doubt in doubts:
        warn(str(doubt.message))
    estimate = estimate.without_canaries(canary_share, loaded.mechanism.num_classes)
    if json:
        print_json(
            {
                **estimate_json(estimate),
                "given": NOT_TRAINED_ON,
                "insecure": loaded.insecure,
                "warnings": [str(doubt.message) for doubt in doubts],
            }
        )
        return
    typer.echo(f"accuracy {estimate}; {estimate.rows:,} rows; given {NOT_TRAINED_ON}")
    if loaded.insecure:
        print_facts([("INSECURE", loaded.insecure)])

"""`labeldp predict` and `labeldp evaluate`: what a trained model says, and how often it is right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli.options import DeviceOption, FeaturesOption, IdOption, ImageSizeOption, JsonOption
from labeldp.cli.output import print_json
from labeldp.errors import InputError


def predict(
    folder: Annotated[Path, typer.Argument(help="A run directory.", show_default=False, readable=False)],
    features: FeaturesOption,
    out: Annotated[Path, typer.Option("--out", help="Probabilities: Parquet by row id, or .npy.", readable=False)],
    id_column: IdOption = None,
    image_size: ImageSizeOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Write a trained model's class probabilities for new rows."""
    from labeldp.data.features import read_features
    from labeldp.training.device import Machine
    from labeldp.training.finished import predict as run
    from labeldp.training.folder import RunFolder
    from labeldp.training.scores import write_scores

    if features is None:
        raise InputError("--features is missing.")
    config = RunFolder(folder).config()
    read = read_features(features, id_column, image_size)
    read.refuse_label(
        config["label"], config["label_names"] or [str(number) for number in range(config["num_classes"])]
    )
    write_scores(out, read.ids, run(folder, read.values, Machine(device)))
    typer.echo(f"{out}: probabilities of {len(read.ids):,} rows")


def evaluate(
    folder: Annotated[Path, typer.Argument(help="A run directory.", show_default=False, readable=False)],
    release: Annotated[
        Path, typer.Option("--release", help="Released labels of rows that were not trained on.", readable=False)
    ],
    features: FeaturesOption,
    id_column: IdOption = None,
    image_size: ImageSizeOption = None,
    device: DeviceOption = "auto",
    json: JsonOption = False,
) -> None:
    """Estimate a model's accuracy from released labels: no clean label needed. Rows that were trained on are refused."""
    from labeldp.data.features import read_features
    from labeldp.data.join import join
    from labeldp.release import Release
    from labeldp.training.device import Machine
    from labeldp.training.finished import evaluate as run
    from labeldp.training.run import estimate_json

    if features is None:
        raise InputError("--features is missing.")
    loaded = Release.load(release)
    estimate = run(folder, loaded, join(loaded, read_features(features, id_column, image_size)), Machine(device))
    if json:
        print_json(estimate_json(estimate))
        return
    low, high = estimate.interval()
    typer.echo(
        f"accuracy {estimate.accuracy:.2%} ± {estimate.standard_error:.2%} (95%: {low:.2%} to {high:.2%}; {estimate.rows:,} rows)"
    )

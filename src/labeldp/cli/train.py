"""`labeldp train`, `predict`, `evaluate`: the feature owner's commands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labeldp.cli.options import DeltaOption, JsonOption
from labeldp.cli.output import guarantee_text, print_facts, print_json
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.release import Release

FeaturesOption = Annotated[
    Path | None,
    typer.Option(
        "--features",
        help="Public features: .npy, .npz, Parquet (number columns, or one list column) or CSV.",
        readable=False,
    ),
]
IdOption = Annotated[
    str | None, typer.Option("--id", help="The features' id column, to join with the release. Default: by position.")
]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")]


def train(
    out: Annotated[Path, typer.Option("--out", help="The run directory; an interrupted run there is resumed.", readable=False)],
    release: Annotated[Path | None, typer.Option("--release", help="A release file, with --features.", readable=False)] = None,
    features: FeaturesOption = None,
    id_column: IdOption = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="For experiments: digits, fashion, cifar10 or cifar100; releases and trains in one go.")] = None,
    data: Annotated[Path | None, typer.Option("--data", help="Where the data set's files are. Default: $LABELDP_DATA.", readable=False)] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="With --dataset: the ε to spend on each label.")] = None,
    mechanism: Annotated[str | None, typer.Option("--mechanism", help="With --dataset: as for release, or none.")] = None,
    delta: DeltaOption = None,
    insecure_seed: Annotated[int | None, typer.Option("--insecure-seed", help="With --dataset: repeatable noise.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="fast (images), linear, mlp, or package.module:Class. Default: fast for images, linear else.")] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Passes over the rows.")] = None,
    batch_size: Annotated[int | None, typer.Option("--batch-size", help="Rows a step.")] = None,
    learning_rate: Annotated[float | None, typer.Option("--learning-rate", help="At its peak.")] = None,
    preset: Annotated[str | None, typer.Option("--preset", help="A row of the paper's ALIBI table (alibi-cifar10-high …) or cpu-cifar10, cpu-cifar100.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the training; never of the noise.")] = 0,
    holdout: Annotated[float, typer.Option("--holdout", help="The share of rows that is held out to estimate accuracy.")] = 0.1,
    device: DeviceOption = "auto",
    dtype: Annotated[str, typer.Option("--dtype", help="auto, float32 or bfloat16.")] = "auto",
    threads: Annotated[int | None, typer.Option("--threads", help="CPU threads.")] = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Train a model from a release: features and evidence are all it sees.

    Two parties: labeldp train --release released.parquet --features x.parquet --id uid --model linear --out run/

    An experiment: labeldp train --dataset cifar10 --epsilon 2 --mechanism laplace --out run/
    """
    from labeldp.training.recipe import default_recipe
    from labeldp.training.recipe import preset as by_name
    from labeldp.training.run import Job
    from labeldp.training.run import train as run

    if threads is not None:
        import torch

        torch.set_num_threads(max(1, threads))
    public_test = None
    if preset is not None:
        row = by_name(preset)
        dataset, model = dataset or row.dataset, model or row.model
        mechanism, epsilon = mechanism or row.mechanism, row.epsilon if epsilon is None else epsilon
    if dataset is not None:
        if release is not None or features is not None:
            raise InputError("--dataset brings its own features and labels; leave out --release and --features.")
        from labeldp.training.experiment import released

        loaded, values, public_test = released(dataset, data, out, mechanism, epsilon, delta, insecure_seed)
    elif release is None or features is None:
        raise InputError("name --release and --features, or a --dataset for an experiment.")
    else:
        loaded, values = _joined(release, features, id_column)
    name = model or ("fast" if values.ndim == 4 and min(values.shape[2:]) >= 17 else "linear")
    usual = default_recipe(name) if preset is None else by_name(preset).recipe
    recipe = replace(
        usual,
        epochs=usual.epochs if epochs is None else epochs,
        batch_size=usual.batch_size if batch_size is None else batch_size,
        learning_rate=usual.learning_rate if learning_rate is None else learning_rate,
        seed=seed,
    )
    job = Job(loaded, values, name, recipe, holdout, device, dtype)

    def progress(metrics: dict[str, Any]) -> None:
        typer.echo(
            f"epoch {metrics['epoch']}/{recipe.epochs}: loss {metrics['loss']:.4f}, {metrics['seconds']:.1f} s",
            err=True,
        )

    summary = run(job, out, public_test=public_test, progress=progress)
    if json:
        print_json(summary)
    else:
        print_facts(_facts(out, summary))


def predict(
    folder: Annotated[Path, typer.Argument(help="A run directory.", show_default=False, readable=False)],
    features: FeaturesOption,
    out: Annotated[Path, typer.Option("--out", help="Probabilities: Parquet by row id, or .npy.", readable=False)],
    id_column: IdOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Write a trained model's class probabilities for new rows."""
    from labeldp.data.features import read_features
    from labeldp.training.run import open_run
    from labeldp.training.run import predict as run
    from labeldp.training.scores import write_scores

    if features is None:
        raise InputError("--features is missing.")
    read = read_features(features, id_column)
    read.refuse_label(open_run(folder)[1]["label"])
    write_scores(out, read.ids, run(folder, read.values, device))
    typer.echo(f"{out}: probabilities of {len(read.ids):,} rows")


def evaluate(
    folder: Annotated[Path, typer.Argument(help="A run directory.", show_default=False, readable=False)],
    release: Annotated[
        Path, typer.Option("--release", help="Released labels of rows that were not trained on.", readable=False)
    ],
    features: FeaturesOption,
    id_column: IdOption = None,
    json: JsonOption = False,
) -> None:
    """Estimate a model's accuracy from released labels: no clean label needed. Rows that were trained on are refused."""
    from labeldp.training.run import evaluate as run

    if features is None:
        raise InputError("--features is missing.")
    loaded, values = _joined(release, features, id_column)
    estimate = run(folder, loaded, values)
    low, high = estimate.interval()
    if json:
        facts = {
            "accuracy_estimated": estimate.accuracy,
            "standard_error": estimate.standard_error,
            "rows": estimate.rows,
        }
        print_json({**facts, "interval_95": [low, high]})
    else:
        typer.echo(
            f"accuracy {estimate.accuracy:.2%} ± {estimate.standard_error:.2%} (95%: {low:.2%} to {high:.2%}; {estimate.rows:,} rows)"
        )


def _joined(release: Path, features: Path, id_column: str | None) -> tuple[Release, Any]:
    """A release, and features in its order."""
    import numpy as np

    from labeldp.data.features import read_features
    from labeldp.release import Release

    loaded, read = Release.load(release), read_features(features, id_column)
    read.refuse_label(loaded.header["label"])
    if id_column is None:
        if loaded.header["ids"] is not None:
            raise InputError("the release names its rows by id: name the features' id column with --id.")
        if loaded.ids[-1] >= len(read.values):
            raise InputError(
                f"the release goes up to row {loaded.ids[-1]:,}, but there are {len(read.values):,} rows of features."
            )
        return loaded, read.values[loaded.ids]
    place = {str(name): row for row, name in enumerate(read.ids.tolist())}
    if len(place) != len(read.ids):
        raise InputError(f"ids in column {id_column!r} of {features} repeat.")
    rows = np.array([place.get(str(name), -1) for name in loaded.ids.tolist()])
    if (rows < 0).any():
        raise InputError(
            f"{(rows < 0).sum():,} of the {len(rows):,} released rows have no features in {features} (column {id_column!r}), the first at "
            f"position {int(np.argmax(rows < 0))} of the release. Does the release belong to this data?"
        )
    return loaded, read.values[rows]


def _facts(out: Path, summary: dict[str, Any]) -> list[tuple[str, str]]:
    certificate = summary["certificate"]
    facts = [
        ("run", str(out)),
        ("certificate", guarantee_text(certificate["epsilon"], certificate["delta"], certificate["reason"])),
    ]
    if summary["accuracy_estimated"] is not None:
        low, high = summary["interval_95"]
        facts.append((
            "accuracy",
            f"{summary['accuracy_estimated']:.2%} ± {summary['standard_error']:.2%}, estimated from {summary['rows_held_out']:,} held-out "
            f"released labels (95%: {low:.2%} to {high:.2%})",
        ))  # fmt: skip
    if summary["accuracy_test"] is not None:
        facts.append(("test", f"{summary['accuracy_test']:.2%} on public test labels"))
    facts.append(
        (
            "compute",
            f"{summary['train_flop']:.3g} FLOP, {summary['seconds']:.1f} s, {summary['dtype']} on {summary['device']}",
        )
    )
    if summary["insecure"]:
        facts.append(("INSECURE", summary["insecure"]))
    return facts

"""What a trained model says, and how often it is right: `labeldp predict` and `labeldp evaluate`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import DATA, MODEL, Option, Options
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import (
    OTHER_ROWS,
    CanaryShareOption,
    DeviceOption,
    FeaturesOption,
    IdOption,
    ImageSizeOption,
    RunArgument,
)
from labeldp.commands.values import MODELS
from labeldp.errors import InputError
from labeldp.files.run import RunFolder

if TYPE_CHECKING:
    from labeldp.evaluation.accuracy import AccuracyEstimate
    from labeldp.files.predictions import Part

NOT_TRAINED_ON = "that the model saw none of these rows' labels, as its run directory says"


# fmt: off
@dataclass(frozen=True, kw_only=True)
class JudgeOptions(Options):
    """A finished model, and rows for it."""

    folder: RunArgument
    features: FeaturesOption
    id_column: IdOption = None
    image_size: ImageSizeOption = None
    model: Annotated[str | None, Option("For a run of your own model, package.module:Class: say again that you trust it.", panel=MODEL, values=MODELS)] = None
    device: DeviceOption = "auto"


@dataclass(frozen=True, kw_only=True)
class PredictOptions(JudgeOptions):
    """What `labeldp predict` is told."""

    out: Annotated[Path, Option("Probabilities: Parquet by row id, or .npy.")]


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(JudgeOptions):
    """What `labeldp evaluate` is told."""

    release: Annotated[Path, Option("Released labels of rows that were not trained on.", panel=DATA)]
    canary_share: CanaryShareOption = 0.0
    other_rows: Annotated[bool, OTHER_ROWS.but(help="No row of this release was trained on, though ids cannot show it.")] = False
# fmt: on


def predict(options: PredictOptions, progress: Progress = SILENT) -> dict[str, Any]:
    """Write a trained model's class probabilities for new rows."""
    from labeldp.data.features import read_parts
    from labeldp.files.predictions import write_parts
    from labeldp.training.machine import Machine
    from labeldp.training.run import predictor

    out, features = options.out, options.features
    if out.suffix not in (".npy", ".parquet"):
        raise InputError(f"probabilities are written as Parquet or .npy; name `out` so, not {out.name}.")
    run = RunFolder(options.folder)
    config, promise = run.read_config(), run.promise()
    names, named = list(config.class_names), options.id_column is not None or features.is_dir()

    def scored() -> Iterator[Part]:
        probabilities = None
        for part in read_parts(features, options.id_column, options.image_size):
            part.refuse_label(config.label, names)
            probabilities = probabilities or predictor(options.folder, Machine(options.device), options.model)
            yield part.ids, probabilities(part.ordered(config.columns))

    with progress.doing("predicting"):
        rows = write_parts(out, scored(), {**promise, "named": named, "classes": names})
    return {"out": str(out), "rows": rows, "classes": names, "named": named, **promise}


@dataclass(frozen=True)
class Evaluated:
    """An accuracy with its interval, and what was to be said about it."""

    estimate: AccuracyEstimate
    insecure: str | None
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        from labeldp.training.run import estimate_json

        said = {"given": NOT_TRAINED_ON, "insecure": self.insecure, "warnings": list(self.warnings)}
        return {**estimate_json(self.estimate), **said}


def evaluate(options: EvaluateOptions, progress: Progress = SILENT) -> Evaluated:
    """Estimate a model's accuracy from released labels: no clean label needed. Rows that were trained on are refused."""
    from labeldp.data.features import join, read_features
    from labeldp.release import Release
    from labeldp.training.machine import Machine
    from labeldp.training.run import evaluate as judged

    release = Release.load(options.release)
    read = read_features(options.features, options.id_column, options.image_size)
    read = replace(read, values=read.ordered(RunFolder(options.folder).read_config().columns))
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        estimate = judged(
            options.folder, release, join(release, read), Machine(options.device), model=options.model, other_rows=options.other_rows
        )  # fmt: skip
    said = tuple(str(doubt.message) for doubt in doubts)
    for doubt in said:
        progress.warn(doubt)
    return Evaluated(
        estimate.without_canaries(options.canary_share, release.mechanism.num_classes), release.insecure, said
    )

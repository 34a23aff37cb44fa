"""What a trained model says, and how often it is right: `labeldp predict` and `labeldp evaluate`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import DATA, JUDGING, MODEL, Option, Options
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
from labeldp.commands.values import AT_THRESHOLD, EVALUATED, MODELS
from labeldp.errors import InputError
from labeldp.files.run import RunFolder

if TYPE_CHECKING:
    from labeldp.files.predictions import Part
    from labeldp.release import Release
    from labeldp.runs.judging import Judged

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
    metric: Annotated[tuple[str, ...], Option("accuracy, roc_auc, average_precision, log_loss, brier, log_likelihood; or, at --threshold, precision and recall. Several times, if several. Default: all but the last two.", panel=JUDGING, values=EVALUATED)] = ()
    positive: Annotated[str | None, Option("The class that counts as positive. Default: of two classes the second; of more, each against the rest.", panel=JUDGING)] = None
    threshold: Annotated[float | None, Option("For precision and recall: from this probability on, a row is called positive.", panel=JUDGING)] = None
    canary_share: CanaryShareOption = 0.0
    other_rows: Annotated[bool, OTHER_ROWS.but(help="No row of this release was trained on, though ids cannot show it.")] = False
# fmt: on


def predict(options: PredictOptions, progress: Progress = SILENT) -> dict[str, Any]:
    """Write a trained model's class probabilities for new rows."""
    from labeldp.data.features import read_parts
    from labeldp.files.predictions import write_parts
    from labeldp.machine import Machine
    from labeldp.runs.run import predictor

    out, features = options.out, options.features
    if out.suffix not in (".npy", ".parquet"):
        raise InputError(f"probabilities are written as Parquet or .npy; name `out` so, not {out.name}.")
    run = RunFolder(options.folder)
    config, promise = run.read_config(), run.promise()
    names, named = list(config.class_names), options.id_column is not None or features.is_dir()

    def scored() -> Iterator[Part]:
        probabilities = None
        for part in read_parts(features, options.id_column, options.image_size, missing=config.takes_holes):
            part.refuse_label(config.label, names)
            probabilities = probabilities or predictor(options.folder, Machine(options.device), options.model)
            yield part.ids, probabilities(part.ordered(config.columns, config.codes))

    with progress.doing("predicting"):
        rows = write_parts(out, scored(), {**promise, "named": named, "classes": names})
    return {"out": str(out), "rows": rows, "classes": names, "named": named, **promise}


@dataclass(frozen=True)
class Evaluated:
    """What released labels say of the model, and what was to be said about it."""

    judged: Judged
    rows: int
    insecure: str | None
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        said = {"given": NOT_TRAINED_ON, "insecure": self.insecure, "warnings": list(self.warnings)}
        return {**self.judged.to_json(), **said}


def evaluate(options: EvaluateOptions, progress: Progress = SILENT) -> Evaluated:
    """Judge a model by released labels: accuracy, ROC AUC, log loss and more, each with an interval; no clean label needed. Rows that
    were trained on are refused.

    Example: labeldp evaluate run/ --release heldout.parquet --features x.parquet --id click --metric roc_auc
    """
    from labeldp.data.features import join, read_features
    from labeldp.machine import Machine
    from labeldp.release import Release
    from labeldp.runs.judging import Wanted
    from labeldp.runs.run import evaluate as judged

    release = Release.load(options.release)
    config = RunFolder(options.folder).read_config()
    read = read_features(options.features, options.id_column, options.image_size, missing=config.takes_holes)
    read = replace(read, values=read.ordered(config.columns, config.codes))
    wanted = Wanted(_metrics(options), _positive(options, release), options.threshold)
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        found = judged(
            options.folder, release, join(release, read), Machine(options.device), model=options.model, other_rows=options.other_rows,
            canary_share=options.canary_share, wanted=wanted,
        )  # fmt: skip
    said = tuple(str(doubt.message) for doubt in doubts)
    for doubt in said:
        progress.warn(doubt)
    return Evaluated(found, len(release), release.insecure, said)


def _metrics(options: EvaluateOptions) -> tuple[str, ...]:
    names = options.metric or EVALUATED[: -len(AT_THRESHOLD)]
    unknown = next((name for name in names if name not in EVALUATED), None)
    if unknown is not None:
        raise InputError(f"unknown metric {unknown!r}; choose of {', '.join(EVALUATED)}.")
    at = [name for name in names if name in AT_THRESHOLD]
    if bool(at) != (options.threshold is not None):
        raise InputError("`threshold` goes with the metrics precision and recall, and they with it.")
    return names


def _positive(options: EvaluateOptions, release: Release) -> int | None:
    if options.positive is None:
        return None
    names = list(release.class_names)
    if options.positive not in names:
        raise InputError(f"`positive` is one of the release's classes: {', '.join(names[:12])}.")
    return names.index(options.positive)

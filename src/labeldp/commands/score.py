"""Scoring predictions on secret labels: `labeldp score`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.commands.option import DATA, PRIVACY, Argument, Option
from labeldp.commands.progress import SILENT, Progress
from labeldp.commands.shared import declared_classes
from labeldp.commands.statistic import StatisticMade, StatisticOptions, make_statistic
from labeldp.commands.values import CHOSEN_BY
from labeldp.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from labeldp.accounting.ledger import Ledger
    from labeldp.release.make import Made
    from labeldp.release.source import Source
    from labeldp.statistics.statistic import PublicRows, StatisticOrder


# fmt: off
@dataclass(frozen=True, kw_only=True)
class ScoreOptions(StatisticOptions):
    """What `labeldp score` is told. `epsilon` is for all models together."""

    predictions: Annotated[tuple[Path, ...], Argument("Class probabilities by row id, as `labeldp predict --out` writes them (or .npy, in the order of the labels); a file a model.")]
    delta: Annotated[float | None, Option("δ, from 2^-40: Gaussian noise in place of geometric, which is less for five models and more.", panel=PRIVACY)] = None
    bins: Annotated[int | None, Option("Bins of the predicted probability. Default: so many as the rows and the noise suggest.", panel=DATA)] = None
    confusion: Annotated[bool, Option("Release the confusion matrix of one model instead: of more than two classes, a score does not tell it.", panel=PRIVACY)] = False
    choose: Annotated[str | None, Option("Release nothing but the name of about the best model, by accuracy, brier or log_loss.", panel=PRIVACY, values=CHOSEN_BY)] = None
# fmt: on


def score(options: ScoreOptions, progress: Progress = SILENT) -> StatisticMade:
    """Evaluate models on secret labels: one noisy table of counts, from which every metric follows. The label owner's command.

    The rows are those of the predictions, and each must have a label; only they pay. What is counted are labels by bins of the predicted
    probability, and bins are public. Accuracy, ROC AUC, average precision, log loss, Brier score, calibration, lift, precision and recall are then free,
    for anyone who has the file. Rows that a model was trained on measure how well it has learned them, not how good it is.

    Example: labeldp score predictions.parquet --labels labels.csv --label bought --id visit --classes no,yes --epsilon 0.2 --out score.parquet
    """
    models, rows, behind = _predictions(options, declared_classes(options.classes).count)
    return make_statistic(
        options,
        progress,
        lambda source, name: _order(options, source, name, models, rows),
        lambda ledger, made: _trained_on(ledger, made, behind),
    )


def _order(
    options: ScoreOptions, source: Source, name: str, models: dict[str, npt.NDArray[np.floating[Any]]], rows: PublicRows
) -> StatisticOrder:
    from labeldp.statistics.scoring import choice_order, confusion_order, score_order

    if options.confusion:
        if len(models) > 1 or options.choose is not None or options.bins is not None:
            raise InputError(
                "a confusion matrix is of one model, and has no bins: leave out `choose`, `bins`, and the other models."
            )
        return confusion_order(
            source, name, next(iter(models.values())), rows, epsilon=options.epsilon, delta=options.delta,
            handed_over=options.handed_over(),
        )  # fmt: skip
    if options.choose is None:
        return score_order(
            source, name, models, rows, epsilon=options.epsilon, delta=options.delta, bins=options.bins,
            handed_over=options.handed_over(),
        )  # fmt: skip
    if options.delta is not None or options.bins is not None:
        raise InputError("a choice of a model has a pure ε and no bins: leave out `delta` and `bins`.")
    return choice_order(
        source, name, models, rows, by=options.choose, epsilon=options.epsilon, handed_over=options.handed_over()
    )


def _predictions(
    options: ScoreOptions, num_classes: int
) -> tuple[dict[str, npt.NDArray[np.floating[Any]]], PublicRows, dict[str, tuple[str, ...]]]:
    """Of every file, in the order of the first; and the checksums of releases that each model says it was trained on."""
    from labeldp.files.ids import find
    from labeldp.files.predictions import read_predictions
    from labeldp.release.prior import checksums
    from labeldp.statistics.scoring import both_classes
    from labeldp.statistics.statistic import PublicRows

    models: dict[str, npt.NDArray[np.floating[Any]]] = {}
    behind: dict[str, tuple[str, ...]] = {}
    first: Any = None
    count = 0
    for path in options.predictions:
        read = read_predictions(path)
        values = _of(path, partial(both_classes, read.values, num_classes))
        ids = read.ids if read.about.get("named") is not False else None  # else they are row numbers, in their order
        if not models:
            first, count = ids, len(values)
        elif (first is None) != (ids is None) or len(values) != count:
            raise _other_rows(path, options)
        elif first is not None:
            places = find(first, ids, str(path), options.id_form)
            if (places < 0).any():
                raise _other_rows(path, options)
            values = values[places]
        if any(path.samefile(other) for other in options.predictions[: len(models)]):
            raise InputError(f"{path} is there twice: a model is scored once.")
        name = path.stem if path.stem not in models else f"{path.absolute().parent.name}/{path.stem}"
        if name in models:
            raise InputError(f"{path} is called like another file of predictions: give each model a name of its own.")
        models[name], behind[name] = values, checksums(read.about.get("releases")) or ()
    if options.id_column is None and first is not None:
        raise InputError("the predictions name their rows by id: `id_column` names the column of the labels that does.")
    return models, PublicRows.of(count, first), behind


def _of(path: Path, check: Callable[[], Any]) -> Any:
    """What is wrong with a file, with its name."""
    try:
        return check()
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _other_rows(path: Path, options: ScoreOptions) -> InputError:
    return InputError(f"{path} has other rows than {options.predictions[0]}: models are scored on the same ones.")


def _trained_on(ledger: Ledger, made: Made, behind: dict[str, tuple[str, ...]]) -> list[str]:
    """Which models say that they were trained on releases that hold some of these rows."""
    from labeldp.accounting.rows import overlap

    releases = [one for one in ledger.book().releases.values() if one.checksum is not None]
    told = []
    for model, checksums in behind.items():
        if any(one.checksum in checksums and overlap(one.rows, made.record.rows) for one in releases):
            told.append(
                f"{model} was trained on a release that holds some of these rows: on rows that it learned from, this is training performance. "
                "Score rows that were held out."
            )
    return told

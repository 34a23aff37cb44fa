"""Scoring models on secret labels: what the label owner does. `score` for arrays; `score_order` and `choice_order` for any source."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.accounting.ledger import Ledger
from labeldp.entropy import Entropy
from labeldp.private import PrivateLabels
from labeldp.release.header import NOBODY_SAID, HandedOver
from labeldp.release.source import Source
from labeldp.statistics.arrays import array_rows, make_from_arrays
from labeldp.statistics.bins import ScoreLayout, check_predictions
from labeldp.statistics.choice_file import ChoiceGathering, ChoicePlan
from labeldp.statistics.choose import ModelChoice
from labeldp.statistics.confusion_file import MOVED, ConfusionGathering, ConfusionPlan
from labeldp.statistics.noise import CountNoise, GaussianCountNoise, GeometricNoise
from labeldp.statistics.score_file import Score, ScoreGathering, ScorePlan
from labeldp.statistics.statistic import PublicRows, StatisticOrder

_ONLY = "model"


def score(
    predictions: npt.ArrayLike | Mapping[str, npt.ArrayLike],
    labels: PrivateLabels | npt.ArrayLike,
    *,
    num_classes: int,
    epsilon: float,
    data_set: str,
    ledger: Ledger | str | os.PathLike[str],
    ids: Sequence[Any] | npt.NDArray[Any] | None = None,
    delta: float | None = None,
    bins: int | None = None,
    label: str | None = None,
    label_names: Sequence[str] | None = None,
    entropy: Entropy | None = None,
    again: str | None = None,
    ids_as_written: bool = False,
    handed_over: HandedOver = NOBODY_SAID,
) -> Score:
    """Score predictions on secret labels once: charge the ledger, count, add noise, return what may be handed over.

    predictions  probabilities of the classes, a row for each label (of two classes one column does: that of the second);
                 or several models' by name: one charge for all
    labels       class numbers 0 … C − 1, or texts where `label_names` are given; private
    epsilon      what each label pays; with `delta` the noise is Gaussian, which is less for five models and more
    bins         how many, by default so many as rows and noise suggest
    The others are as for `mechanism.release`. Asked for the same again, the first score is returned, and nothing is charged.
    """
    given = predictions if isinstance(predictions, Mapping) else {_ONLY: predictions}
    models = {name: both_classes(one, num_classes) for name, one in given.items()}
    source, rows = array_rows(
        labels, len(next(iter(models.values()), ())), num_classes, ids, label, label_names, ids_as_written, data_set
    )
    order = score_order(
        source, data_set, models, rows, epsilon=epsilon, delta=delta, bins=bins, handed_over=handed_over
    )
    return Score.load(make_from_arrays(order, ledger, entropy, again))


def both_classes(predictions: npt.ArrayLike, num_classes: int) -> npt.NDArray[np.floating[Any]]:
    """(rows, classes): of two classes the second one's probability says both."""
    table = np.asarray(predictions)
    if num_classes == 2 and table.dtype.kind == "f" and (table.ndim == 1 or table.shape[1:] == (1,)):
        second = table.reshape(-1).astype(np.float64)
        table = np.stack((1 - second, second), axis=1)
    return check_predictions(table, num_classes)


def score_order(
    source: Source,
    data_set: str,
    models: Mapping[str, npt.NDArray[np.floating[Any]]],
    rows: PublicRows,
    *,
    epsilon: float,
    delta: float | None = None,
    bins: int | None = None,
    handed_over: HandedOver = NOBODY_SAID,
) -> StatisticOrder:
    """What the ledger is asked for: a table of counts of every model, in one charge."""
    stamp = source.stamp()
    models, rows = _in_one_order(models, rows, source.id_form)
    noise = ScorePlan.calibrated(epsilon, source.classes.count, len(models), delta)
    layouts = tuple(ScoreLayout.of(one, noise=noise, bins=bins) for one in models.values())
    cells = tuple(layout.cells(one) for layout, one in zip(layouts, models.values(), strict=True))
    plan = ScorePlan(tuple(models), layouts, noise)
    # Other predictions are another request, even where rows have the same cells: what the bins are says so.
    described = tuple(column for layout in layouts for column in layout.columns().values())
    known_by = {"cells": _digest(cells), "bins": _digest(described)}
    return StatisticOrder(
        source, plan, data_set, rows, lambda: ScoreGathering(plan, cells), known_by=known_by,
        requested_epsilon=0.0 if delta is not None else epsilon, stamp=stamp, handed_over=handed_over,
    )  # fmt: skip


def choice_order(
    source: Source,
    data_set: str,
    models: Mapping[str, npt.NDArray[np.floating[Any]]],
    rows: PublicRows,
    *,
    by: str,
    epsilon: float,
    handed_over: HandedOver = NOBODY_SAID,
) -> StatisticOrder:
    """What the ledger is asked for: the name of about the best model, and nothing else."""
    stamp = source.stamp()
    models, rows = _in_one_order(models, rows, source.id_form)
    predictions = tuple(models.values())
    choice = ModelChoice.calibrated(epsilon=epsilon, score=by, models=predictions)
    plan = ChoicePlan(source.classes.count, tuple(models), choice)
    known_by = {"predictions": _digest(predictions)}
    return StatisticOrder(
        source, plan, data_set, rows, lambda: ChoiceGathering(plan, predictions), known_by=known_by,
        requested_epsilon=epsilon, stamp=stamp, handed_over=handed_over,
    )  # fmt: skip


def _in_one_order(
    models: Mapping[str, npt.NDArray[np.floating[Any]]], rows: PublicRows, form: str
) -> tuple[dict[str, npt.NDArray[np.floating[Any]]], PublicRows]:
    """The same predictions in another order of rows are the same request."""
    order, ordered = rows.in_one_order(form)
    return {name: one[order] for name, one in models.items()}, ordered


def confusion_order(
    source: Source,
    data_set: str,
    probabilities: npt.NDArray[np.floating[Any]],
    rows: PublicRows,
    *,
    epsilon: float,
    delta: float | None = None,
    handed_over: HandedOver = NOBODY_SAID,
) -> StatisticOrder:
    """What the ledger is asked for: which class is taken for which, by one model."""
    stamp, classes = source.stamp(), source.classes.count
    said = probabilities.argmax(axis=1)
    noise: CountNoise
    if delta is None:
        noise = GeometricNoise.calibrated(epsilon=epsilon, moved=MOVED)
    else:
        noise = GaussianCountNoise.calibrated(epsilon=epsilon, delta=delta, moved=MOVED)
    plan = ConfusionPlan(np.bincount(said, minlength=classes), noise)
    return StatisticOrder(
        source, plan, data_set, rows, lambda: ConfusionGathering(plan, said), known_by={"predictions": _digest((said,))},
        requested_epsilon=0.0 if delta is not None else epsilon, stamp=stamp, handed_over=handed_over,
    )  # fmt: skip


def _digest(arrays: tuple[npt.NDArray[Any], ...]) -> str:
    total = hashlib.sha256()
    for one in arrays:
        total.update(np.ascontiguousarray(one).tobytes())
    return total.hexdigest()[:32]

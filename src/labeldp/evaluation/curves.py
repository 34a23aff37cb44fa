"""Curves without clean labels: ROC, precision and recall, lift and calibration, each point with its own limits."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.evaluation.indicators import Indicators, Probabilities, check_class, check_probabilities
from labeldp.evaluation.inversion import Ratio
from labeldp.evaluation.limits import accuracy_limits
from labeldp.evaluation.ranking import largest_lift, recall_ratio
from labeldp.mechanisms import Mechanism

THRESHOLDS = 40  # points of a curve, at equal steps of the share of rows that is called positive
BINS = 10  # of a calibration curve, of about as many rows each

Limits = tuple[float, float]


@dataclass(frozen=True)
class ThresholdPoint:
    """What calling rows positive from this probability on comes to. What cannot be told is None, and its limits are the whole range."""

    threshold: float
    called: float  # the share of rows that is called positive
    true_positive_rate: float | None  # recall
    true_positive_rate_95: Limits
    false_positive_rate: float | None
    false_positive_rate_95: Limits
    precision: float | None
    precision_95: Limits
    lift: float | None
    lift_95: Limits


@dataclass(frozen=True)
class CalibrationBin:
    """Rows of similar probability: what the model says on average, and how many of them are positive."""

    rows: int
    predicted: float
    observed: float | None
    observed_95: Limits


@dataclass(frozen=True)
class Curves:
    """Of one class. Limits hold point by point, each in 95 of 100 cases; not for all points at once."""

    positive: int
    rows: int
    points: tuple[ThresholdPoint, ...]  # from the highest threshold to the lowest
    calibration: tuple[CalibrationBin, ...]

    def to_json(self) -> dict[str, Any]:
        """As a run keeps it: finite numbers or None, six digits."""
        made: dict[str, Any] = _rounded(asdict(self))
        return made


def estimate_curves(
    mechanism: Mechanism,
    observations: npt.NDArray[Any],
    probabilities: Probabilities,
    *,
    positive: int | None = None,
    canary_share: float = 0.0,
) -> Curves:
    """The curves of one class, judged by observations of rows that the model was not trained on. Of more than two classes, say which."""
    p = check_probabilities(mechanism, observations, probabilities)
    positive = check_class(positive, mechanism.num_classes)
    if positive is None:
        raise InputError("curves are of one class against the rest: say which one is `positive`.")
    indicators = Indicators.of(mechanism, observations, canary_share)
    scores = p[:, positive]
    levels = indicators.levels(positive)
    order = np.argsort(-scores, kind="stable")
    scores, levels = scores[order], levels[order]
    # A threshold lies between two scores: where rows of one score end.
    ends = np.flatnonzero(np.concatenate((scores[1:] != scores[:-1], [True]))) + 1
    return Curves(
        positive, len(scores), _points(indicators, scores, levels, ends), _bins(indicators, scores, levels, ends)
    )


def _near(ends: npt.NDArray[np.intp], rows: int, parts: int) -> list[int]:
    """Where about so many parts end, all at ends of a score."""
    wanted = np.rint(np.arange(1, parts + 1) * rows / parts)
    return sorted({int(ends[min(i, len(ends) - 1)]) for i in np.searchsorted(ends, wanted)})


def _points(
    indicators: Indicators, scores: Probabilities, levels: npt.NDArray[np.int64], ends: npt.NDArray[np.intp]
) -> tuple[ThresholdPoint, ...]:
    law, rows = indicators.law, len(scores)
    w = (levels / law.levels - law.mean_other) / law.gap
    share = float(w.mean())
    noise, made = indicators.noise(share), []
    for end in _near(ends, rows, THRESHOLDS):
        called = np.zeros(rows, dtype=np.bool_)
        called[:end] = True
        true, false = recall_ratio(called, w, noise), recall_ratio(called, 1 - w, noise)
        lifted = recall_ratio(called, w, noise, drawn=True)
        f = end / rows
        lift, lift_95 = _told(lifted, f * largest_lift(f, rows))
        made.append(
            ThresholdPoint(
                float(scores[end - 1]),
                f,
                *_told(true),
                *_told(false),
                *_share(indicators, levels[:end]),
                None if lift is None else lift / f,
                (lift_95[0] / f, lift_95[1] / f),
            )
        )
    return tuple(made)


def _bins(
    indicators: Indicators, scores: Probabilities, levels: npt.NDArray[np.int64], ends: npt.NDArray[np.intp]
) -> tuple[CalibrationBin, ...]:
    made, start = [], 0
    for end in _near(ends, len(scores), BINS):
        observed = _share(indicators, levels[start:end])
        made.append(CalibrationBin(end - start, float(scores[start:end].mean(dtype=np.float64)), *observed))
        start = end
    return tuple(made[::-1])


def _told(ratio: Ratio, most: float = 1.0) -> tuple[float | None, Limits]:
    low, high = ratio.limits(0.0, most)
    if ratio.value is None or (low <= 0 and high >= most):
        return None, (0.0, most)
    return min(most, max(0.0, ratio.value)), (low, high)


def _share(indicators: Indicators, levels: npt.NDArray[np.int64]) -> tuple[float | None, Limits]:
    """The share of these rows that is of the class, with the exact limits of an accuracy."""
    law = indicators.law
    limits = accuracy_limits(law, len(levels), int(levels.sum()), 0.95)
    if limits == (0.0, 1.0):
        return None, limits
    return min(1.0, max(0.0, (float(levels.mean()) / law.levels - law.mean_other) / law.gap)), limits


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(one) for one in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value

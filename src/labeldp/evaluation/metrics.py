"""Metrics without clean labels, each with limits that hold, from what was released of rows that the model was **not** trained on.

A metric estimates its value in the population that the rows are drawn from. Log loss and Brier score are unbiased; AUC, average
precision, recall and lift are ratios, consistent but not exact; precision's limits are exact, as an accuracy's are. Where rows are too few
to tell, there is no number, and about how many it would take. See docs/proofs/metrics.md, and docs/benchmarks.md for how often limits hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.evaluation.accuracy import estimate_accuracy
from labeldp.evaluation.curves import Curves, estimate_curves
from labeldp.evaluation.indicators import Indicators, Probabilities, check_class, check_probabilities
from labeldp.evaluation.inversion import Ratio, Z, mean_limits, mean_ratio
from labeldp.evaluation.limits import accuracy_limits
from labeldp.evaluation.proper import compare, log_likelihoods, proper_ratio, released_likelihoods
from labeldp.evaluation.ranking import (
    Ranked,
    auc_ranking,
    average_precision,
    largest_lift,
    precision_ranking,
    recall_ratio,
)
from labeldp.mechanisms import Mechanism

__all__ = [
    "METRICS",
    "Curves",
    "MetricEstimate",
    "compare",
    "estimate_curves",
    "estimate_metric",
    "estimate_metrics",
    "log_likelihoods",
]

METRICS: tuple[str, ...] = ("roc_auc", "average_precision", "log_loss", "brier", "log_likelihood")
AT_A_THRESHOLD: tuple[str, ...] = ("precision", "recall", "lift")
TOP_SHARE = 0.1  # lift is of the tenth of rows that scores highest, if no threshold is given
WORTH_SAYING = 0.1  # rows are enough if the standard error of a number from 0 to 1 is about this
_MOST_NUMBERS = 4_000_000  # that correlations are taken from

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MetricEstimate:
    """A metric, with the limits that its true value is within in 95 of 100 cases; `value` is None where rows are too few to tell."""

    name: str
    value: float | None
    standard_error: float | None
    interval_95: tuple[float, float]
    rows: int
    rows_needed: int | None = None  # where it cannot be told: about how many rows like these it would take
    by_class: tuple[MetricEstimate, ...] = ()  # one class against the rest; the value above is their mean

    def __str__(self) -> str:
        return metric_text(self.value, self.interval_95, self.rows, self.rows_needed)

    def to_json(self) -> dict[str, Any]:
        """Finite numbers, or None."""
        made: dict[str, Any] = {
            "name": self.name,
            "value": _finite(self.value),
            "standard_error": _finite(self.standard_error),
            "interval_95": [_finite(end) for end in self.interval_95],
            "rows": self.rows,
            "rows_needed": self.rows_needed,
        }
        return made | ({"by_class": [one.to_json() for one in self.by_class]} if self.by_class else {})


def metric_text(
    value: float | None, interval: Sequence[float | None], rows: int, rows_needed: int | None = None
) -> str:
    """For people, in one line. Ends are rounded outwards; one that is None is infinite."""
    if value is None:
        would = f"; about {rows_needed:,} would do" if rows_needed is not None else ""
        return f"cannot be told from {rows:,} rows{would}"
    low = "-∞" if interval[0] is None else f"{math.floor(1e3 * interval[0] + 1e-6) / 1e3:.3f}"
    high = "∞" if interval[1] is None else f"{math.ceil(1e3 * interval[1] - 1e-6) / 1e3:.3f}"
    return f"{value:.3f} (95%: {low} to {high})"


def estimate_metric(
    name: str,
    mechanism: Mechanism,
    observations: npt.NDArray[Any],
    probabilities: Probabilities,
    *,
    positive: int | None = None,
    canary_share: float = 0.0,
    threshold: float | None = None,
) -> MetricEstimate:
    """One metric of a model, judged by observations of rows that it was not trained on.

    name           one of `METRICS`; or accuracy; or precision, recall, lift at a threshold
    probabilities  the model's, one row a row and one column a class
    positive       the class that counts as positive; of two classes the second, of more each in turn, with their mean
    canary_share   the share of rows with planted labels, which are corrected for (not in the likelihood: its evidence is what it is)
    threshold      a row is called positive from this probability on; by default from 0.5, of more than two classes the most probable
                   one, and for lift the tenth of rows that scores highest
    """
    return _Rows.of(mechanism, observations, probabilities, positive, canary_share).estimate(name, threshold)


def estimate_metrics(
    mechanism: Mechanism,
    observations: npt.NDArray[Any],
    probabilities: Probabilities,
    *,
    positive: int | None = None,
    canary_share: float = 0.0,
    names: Sequence[str] = METRICS,
) -> dict[str, MetricEstimate]:
    """Several at once, by name."""
    rows = _Rows.of(mechanism, observations, probabilities, positive, canary_share)
    return {name: rows.estimate(name) for name in names}


@dataclass(frozen=True)
class _Rows:
    """What is asked about: rows that judge, and what a model says of them."""

    mechanism: Mechanism
    observations: npt.NDArray[Any]
    probabilities: Probabilities
    positive: int | None
    canary_share: float

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        observations: npt.NDArray[Any],
        probabilities: npt.ArrayLike,
        positive: int | None,
        canary_share: float,
    ) -> _Rows:
        p = check_probabilities(mechanism, observations, probabilities)
        if not 0 <= canary_share < 1:
            raise InputError(f"the share of canaries is from 0 to below 1; got {canary_share:g}.")
        return cls(mechanism, observations, p, check_class(positive, mechanism.num_classes), canary_share)

    def estimate(self, name: str, threshold: float | None = None) -> MetricEstimate:
        if threshold is not None and name not in AT_A_THRESHOLD:
            raise InputError(f"a threshold goes with {', '.join(AT_A_THRESHOLD)}; {name} has none.")
        if threshold is not None and not math.isfinite(threshold):
            raise InputError("a threshold is a probability.")
        if name == "log_likelihood":
            found = released_likelihoods(self.mechanism, self.observations, self.probabilities)
            return _of_mean(name, mean_ratio(found))
        if name == "accuracy":
            return self._accuracy()
        indicators = Indicators.of(self.mechanism, self.observations, self.canary_share)
        if name in ("log_loss", "brier"):
            classes = self.probabilities.shape[1]
            knows_nothing = math.log(classes) if name == "log_loss" else 0.25 if classes == 2 else 1 - 1 / classes
            return _of_mean(name, proper_ratio(name, indicators, self.probabilities), knows_nothing)
        if name not in (*METRICS, *AT_A_THRESHOLD):
            raise InputError(
                f"unknown metric {name!r}; choose one of {', '.join((*METRICS, 'accuracy', *AT_A_THRESHOLD))}."
            )
        if self.positive is not None:
            return self._of_class(name, indicators, self.positive, threshold)[0]
        each = [self._of_class(name, indicators, c, threshold) for c in range(self.mechanism.num_classes)]
        return _macro(name, [one for one, _ in each], [parts for _, parts in each])

    def _accuracy(self) -> MetricEstimate:
        found = estimate_accuracy(self.mechanism, self.observations, self.probabilities.argmax(axis=1))
        if self.canary_share:
            found = found.without_canaries(self.canary_share, self.mechanism.num_classes)
        return MetricEstimate("accuracy", found.accuracy, found.standard_error, found.interval(), found.rows)

    def _called(self, number: int, threshold: float | None, name: str) -> npt.NDArray[np.bool_]:
        scores = self.probabilities[:, number]
        if threshold is None and name == "lift":
            threshold = float(np.quantile(scores, 1 - TOP_SHARE, method="lower"))
        if threshold is None and self.probabilities.shape[1] > 2:
            return np.asarray(self.probabilities.argmax(axis=1) == number)
        return np.asarray(scores >= (0.5 if threshold is None else threshold))

    def _of_class(
        self, name: str, indicators: Indicators, number: int, threshold: float | None
    ) -> tuple[MetricEstimate, Floats]:
        """The metric of one class, and each row's part in its error (of some rows, if they are very many)."""
        w = indicators.of_class(number)
        noise = indicators.noise(float(w.mean()))
        if name in AT_A_THRESHOLD:
            called = self._called(number, threshold, name)
            if name == "precision":
                return _precision(indicators, number, called), np.where(
                    called, w - w[called].mean(), 0.0
                ) if called.any() else 0 * w
            ratio = recall_ratio(called, w, noise, drawn=name == "lift")
            parts = w * (called - (ratio.value or 0.0))
            if name == "recall":
                return _of_ratio(name, ratio, ratio.value), parts
            share = float(called.mean())
            if share == 0:
                return MetricEstimate(name, None, None, (0.0, math.inf), len(w)), parts
            parts = parts - ratio.bottom * (ratio.value or 0.0) * (called / share - 1)
            return _of_ratio(name, ratio, ratio.value, share, share * largest_lift(share, len(w))), parts
        scores = self.probabilities[:, number]
        ranked = Ranked.by(scores)
        ranking = (auc_ranking if name == "roc_auc" else precision_ranking)(ranked, w, noise)
        value = ranking.ratio.value if name == "roc_auc" else average_precision(ranked, w)
        return _of_ratio(name, ranking.ratio, value), ranking.parts()


def _of_ratio(name: str, ratio: Ratio, value: float | None, scale: float = 1.0, most: float = 1.0) -> MetricEstimate:
    """From a ratio between 0 and `most`; divided by `scale`."""
    low, high = ratio.limits(0.0, most)
    if value is None or (low <= 0 and high >= most):
        return MetricEstimate(name, None, None, (0.0, most / scale), ratio.rows, _rows_for(ratio))
    value = min(most, max(0.0, value))
    error = ratio.standard_error(value)
    low, high = min(low, value), max(high, value)
    return MetricEstimate(
        name, value / scale, None if error is None else error / scale, (low / scale, high / scale), ratio.rows
    )


def _rows_for(ratio: Ratio) -> int:
    """So many that √(V/n)/bottom is `WORTH_SAYING`; a class that seems not to be there is given one standard error of rows."""
    # π(1 − π) is at most a quarter: noise that is larger must not pass for positives.
    seems = max(ratio.bottom, math.sqrt(max(ratio.shown.yy, ratio.noise.yy) / ratio.rows), 1 / ratio.rows)
    share = min(seems, 0.25)
    needed = float(ratio.variance(0.5)) / (WORTH_SAYING * share) ** 2
    return _round_up(max(needed, 1.5 * ratio.rows))


def _of_mean(name: str, ratio: Ratio, knows_nothing: float | None = None) -> MetricEstimate:
    """From a plain mean. A loss is not negative; where its limits hold both 0 and that of knowing nothing, it cannot be told."""
    value, (low, high) = ratio.top, mean_limits(ratio)
    error = ratio.standard_error(value)
    if knows_nothing is None:
        return MetricEstimate(name, value, error, (low, high), ratio.rows)
    value, low, high = max(value, 0.0), max(low, 0.0), high + max(0.0, -value)
    if low <= 0 and high >= knows_nothing:
        needed = _round_up(max(1.5, (2 * high / knows_nothing) ** 2) * ratio.rows)
        return MetricEstimate(name, None, None, (low, high), ratio.rows, needed)
    return MetricEstimate(name, value, error, (low, high), ratio.rows)


def _precision(indicators: Indicators, number: int, called: npt.NDArray[np.bool_]) -> MetricEstimate:
    """Of the rows that are called so, how many are: exact limits, as an accuracy's."""
    rows, count = len(called), int(called.sum())
    if count == 0:
        return MetricEstimate("precision", None, None, (0.0, 1.0), rows)
    law = indicators.law
    levels = indicators.levels(number)[called]
    limits = accuracy_limits(law, count, int(levels.sum()), 0.95)
    share = min(1.0, max(0.0, (float(levels.mean()) / law.levels - law.mean_other) / law.gap))
    variance = indicators.noise(share)[0] + share * (1 - share)
    if limits == (0.0, 1.0):
        needed = max((variance + 0.25) / WORTH_SAYING**2, 1.5 * count)
        return MetricEstimate("precision", None, None, limits, rows, _round_up(needed * rows / count))
    return MetricEstimate("precision", share, math.sqrt(variance / count), limits, rows)


def _macro(name: str, each: list[MetricEstimate], parts: list[Floats]) -> MetricEstimate:
    """The mean over classes. Its limits are √(d·R·d)/C from it, with d the classes' own distances and R how their errors correlate
    (Zou and Donner's method of variance estimates recovery, which keeps limits that are not symmetric)."""
    rows = each[0].rows
    low, high = (np.array([one.interval_95[end] for one in each]) for end in (0, 1))
    untold = [one for one in each if one.value is None]
    if untold:  # of those nothing is known but their range, so the mean's limits are the mean limits
        needed = [one.rows_needed for one in untold if one.rows_needed is not None]
        ends = float(low.mean()), float(high.mean())
        return MetricEstimate(name, None, None, ends, rows, max(needed) if needed else None, tuple(each))
    value = np.array([one.value for one in each])
    errors = np.array([one.standard_error or 0.0 for one in each])
    thin = np.stack([part[:: 1 + rows * len(each) // _MOST_NUMBERS] for part in parts])
    thin -= thin.mean(axis=1, keepdims=True)
    sizes = np.sqrt((thin**2).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations = np.nan_to_num(thin @ thin.T / np.outer(sizes, sizes))
    np.fill_diagonal(correlations, 1.0)
    # A class whose estimate is at an end of what is possible may be cut off there: it counts with its error to both sides.
    cut = (value <= low) | (value >= high)
    down, up = (np.where(cut, np.maximum(d, errors * Z), d) for d in (value - low, high - value))
    below, above, error = (math.sqrt(max(0.0, float(d @ correlations @ d))) / len(each) for d in (down, up, errors))
    mean = float(value.mean())
    limits = max(float(low.mean()), mean - below), min(float(high.mean()), mean + above)
    return MetricEstimate(name, mean, error, limits, rows, by_class=tuple(each))


def _round_up(rows: float) -> int:
    """To two digits."""
    unit = int(10 ** max(0, math.floor(math.log10(rows)) - 1))
    return math.ceil(rows / unit) * unit


def _finite(number: float | None) -> float | None:
    return float(number) if number is not None and math.isfinite(number) else None

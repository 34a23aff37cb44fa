"""Accuracy from released labels: no clean label, no extra cost. For rows that the predictions do not depend on.

For a `Judge`, the statistic g of an observation at class ŷ has mean E₁ if ŷ is the true class and E₀ if it is not, both known exactly.
So accuracy = (E[g] − E₀)/(E₁ − E₀), whatever the errors look like.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.evaluation.limits import accuracy_limits
from labeldp.mechanisms import Mechanism, StatisticLaw, judge_of


@dataclass(frozen=True)
class AccuracyEstimate:
    """How often a model is right, judged by the statistics of so many rows, `total` levels of their `law` in all."""

    unbiased: float  # right on average, and so at times an impossible accuracy: below 0 or above 1
    standard_error: float
    rows: int
    law: StatisticLaw
    total: int
    canary_share: float = 0.0
    num_classes: int = 2

    @property
    def accuracy(self) -> float:
        """The possible accuracy that is nearest to the unbiased estimate. Where that is another, `interval` says more."""
        return min(1.0, max(0.0, self.unbiased))

    def __str__(self) -> str:
        return accuracy_text(self.unbiased, self.interval())

    def without_canaries(self, share: float, num_classes: int) -> AccuracyEstimate:
        """If a `share` of the rows has planted labels, drawn uniformly from all classes: the accuracy on the others, (Â − s/C)/(1 − s)."""
        if not 0 <= share < 1:
            raise InputError(f"the share of canaries is from 0 to below 1; got {share:g}.")
        unbiased = (self.unbiased - share / num_classes) / (1 - share)
        return AccuracyEstimate(
            unbiased, self.standard_error / (1 - share), self.rows, self.law, self.total, share, num_classes
        )

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Limits that hold with this probability or more, whatever the accuracy: exact, from the law of the statistic.

        What they hold for is the chance that a row drawn like these is called right; and, but for a thousandth, the share of these very
        rows that is (whose statistics vary less). See `labeldp.evaluation.limits`.
        """
        if not 0 < confidence < 1:
            raise InputError(f"a confidence is between 0 and 1; got {confidence}. Usual: 0.95.")
        planted, rest = self.canary_share / self.num_classes, 1 - self.canary_share
        ends = accuracy_limits(self.law, self.rows, self.total, confidence, planted, rest + planted)
        low, high = ((end - planted) / rest for end in ends)
        return max(0.0, low), min(1.0, high)


def counted_interval(right: int, rows: int, confidence: float = 0.95) -> tuple[float, float]:
    """The same where the labels are public, and simply counted."""
    return accuracy_limits(StatisticLaw.coin(1.0, 0.0), rows, right, confidence)


def accuracy_parts(
    unbiased: float, interval: Sequence[float] | None, sure: str = "95%", digits: int = 2
) -> tuple[str, str]:
    """For people: what to say first, and what beside it. An impossible accuracy is never said: its limit is."""
    if interval is None:
        return f"{min(1.0, max(0.0, unbiased)):.{digits}%}", ""
    scale = 10 ** (digits + 2)  # ends are rounded outwards
    low, high = (scale * min(1.0, max(0.0, end)) for end in interval)
    low, high = math.floor(low + 1e-6) / scale, math.ceil(high - 1e-6) / scale
    if unbiased > 1:
        return f"at least {low:.{digits}%}", f"{sure}; at most 100%"
    if unbiased < 0:
        return f"at most {high:.{digits}%}", f"{sure}; at least 0%"
    return f"{unbiased:.{digits}%}", f"{sure}: {low:.{digits}%} to {high:.{digits}%}"


def accuracy_text(unbiased: float, interval: Sequence[float] | None, sure: str = "95%") -> str:
    """The same in one line."""
    first, beside = accuracy_parts(unbiased, interval, sure)
    return f"{first} ({beside})" if beside else first


# Folds judge one another's models, so their rows are not independent: their limits are approximate.
CROSS_FITTED = "about 95%"


def summary_text(summary: Mapping[str, Any]) -> str:
    """The same of a run's summary. (Earlier versions have the unbiased estimate under the name of the possible one.)"""
    unbiased = summary.get("accuracy_unbiased")
    unbiased = summary["accuracy_estimated"] if unbiased is None else unbiased
    return accuracy_text(unbiased, summary["interval_95"], CROSS_FITTED if "folds" in summary else "95%")


def test_text(summary: Mapping[str, Any]) -> str:
    """And of its accuracy on public test labels."""
    accuracy, rows = summary["accuracy_test"], summary["rows_tested"]
    if not rows:  # nobody noted how many
        return f"{accuracy:.2%}, on public test labels"
    return f"{accuracy_text(accuracy, counted_interval(round(accuracy * rows), rows))}, on {rows:,} public test labels"


def estimate_accuracy(
    mechanism: Mechanism, observations: npt.NDArray[Any], predictions: npt.NDArray[np.integer[Any]]
) -> AccuracyEstimate:
    """How often `predictions` are right, judged by observations of rows that were **not** trained on.

    The correction needs predictions that are independent of the row's noise: a model that memorised its training rows' subsets at
    ε = 1 and ten classes would "score" 275%.
    """
    predictions = np.asarray(predictions)
    if predictions.ndim != 1 or predictions.dtype.kind not in "iu":
        raise InputError("predictions are one class number a row.")
    if len(predictions) != len(observations):
        raise InputError(f"there are {len(predictions):,} predictions for {len(observations):,} rows.")
    if len(predictions) < 2:
        raise InputError("an accuracy needs at least two held-out rows.")
    if predictions.min() < 0 or predictions.max() >= mechanism.num_classes:
        raise InputError(f"predictions must be class numbers 0 to {mechanism.num_classes - 1}.")
    judge, observations = judge_of(mechanism, observations)
    law, statistic = judge.law(), judge.statistic(observations, predictions)
    gap = law.gap
    if not gap > 0:
        raise InputError("this mechanism's observations say nothing about the label, and so nothing about accuracy.")
    accuracy = (float(statistic.mean()) - law.mean_other) / gap
    share = min(1.0, max(0.0, accuracy))
    variance = share * law.variance_true + (1 - share) * law.variance_other + share * (1 - share) * gap**2
    error = math.sqrt(variance / len(statistic)) / gap
    if not -6 * error <= accuracy <= 1 + 6 * error:
        raise InputError(
            f"no accuracy explains these observations (they come to {accuracy:.0%} ± {error:.1%}): were these rows trained on, or is the "
            "release of other rows?"
        )
    total = int(np.rint(statistic * law.levels).astype(np.int64).sum())
    return AccuracyEstimate(accuracy, error, len(statistic), law, total)

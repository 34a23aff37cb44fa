"""Accuracy from released labels: no clean label, no extra cost. For rows that the predictions do not depend on.

For a class-symmetric mechanism, the score g of an observation at class ŷ has mean E₁ if ŷ is the true class and E₀ if it is
not, both known exactly. So accuracy = (E[g] − E₀)/(E₁ − E₀), whatever the errors look like.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.mechanisms import Mechanism, Moments


@dataclass(frozen=True)
class AccuracyEstimate:
    """An unbiased estimate (it may fall outside [0, 1]) with its standard error, from `rows` rows."""

    accuracy: float
    standard_error: float
    rows: int
    moments: Moments
    canary_share: float = 0.0
    num_classes: int = 2

    def __str__(self) -> str:
        return accuracy_text(self.accuracy, self.standard_error, self.interval())

    def without_canaries(self, share: float, num_classes: int) -> AccuracyEstimate:
        """If a `share` of the rows has planted labels, drawn uniformly from all classes: the accuracy on the others, (Â − s/C)/(1 − s)."""
        if not 0 <= share < 1:
            raise InputError(f"the share of canaries is from 0 to below 1; got {share:g}.")
        accuracy = (self.accuracy - share / num_classes) / (1 - share)
        return AccuracyEstimate(
            accuracy, self.standard_error / (1 - share), self.rows, self.moments, share, num_classes
        )

    def interval(self, z: float = 1.959964) -> tuple[float, float]:
        """The accuracies that are within z standard errors (default: 95%) of what was seen, cut to [0, 1].

        The variance at accuracy a is known exactly, V(a) = a·v₁ + (1−a)·v₀ + a(1−a)·(E₁−E₀)², so the interval is Wilson's:
        all a with (â − a)²·(E₁−E₀)² ≤ z²·V(a)/n. It covers where few rows score, which ± z standard errors does not.
        """
        planted = self.canary_share / self.num_classes
        seen = self.accuracy * (1 - self.canary_share) + planted
        low, high = ((end - planted) / (1 - self.canary_share) for end in self._seen_interval(seen, z))
        return max(0.0, min(1.0, low)), max(0.0, min(1.0, high))

    def _seen_interval(self, seen: float, z: float) -> tuple[float, float]:
        m, k = self.moments, z**2 / self.rows
        gap = m.mean_true - m.mean_other
        a = (1 + k) * gap**2
        b = -2 * seen * gap**2 - k * (m.variance_true - m.variance_other + gap**2)
        c = seen**2 * gap**2 - k * m.variance_other
        root = math.sqrt(max(0.0, b * b - 4 * a * c))
        return (-b - root) / (2 * a), (-b + root) / (2 * a)


def accuracy_text(accuracy: float, standard_error: float, interval: Sequence[float]) -> str:
    """For people. An unbiased estimate may be an impossible accuracy: then the nearest possible one leads."""
    low, high = interval
    within = f"95%: {low:.2%} to {high:.2%}"
    estimate = f"{accuracy:.2%} ± {standard_error:.2%}"
    if 0 <= accuracy <= 1:
        return f"{estimate} ({within})"
    return f"{min(1.0, max(0.0, accuracy)):.0%} ({within}; the unbiased estimate is {estimate})"


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
    mechanism, observations = mechanism.judging(observations)
    moments = mechanism.moments()
    score = mechanism.score(observations, predictions)
    gap = moments.mean_true - moments.mean_other
    if not gap > 0:
        raise InputError("this mechanism's observations say nothing about the label, and so nothing about accuracy.")
    accuracy = (float(score.mean()) - moments.mean_other) / gap
    share = min(1.0, max(0.0, accuracy))
    variance = share * moments.variance_true + (1 - share) * moments.variance_other + share * (1 - share) * gap**2
    error = math.sqrt(variance / len(score)) / gap
    if not -6 * error <= accuracy <= 1 + 6 * error:
        raise InputError(
            f"no accuracy explains these scores (they come to {accuracy:.0%} ± {error:.1%}): were these rows trained on, or is the "
            "release of other rows?"
        )
    return AccuracyEstimate(accuracy, error, len(score), moments)

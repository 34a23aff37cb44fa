"""Exact limits for an accuracy, from the law of a sum of statistics.

A statistic takes the values 0, 1 … L (in steps of 1/L). Of rows that are right with probability a it has the law a·true + (1−a)·other, so
their sum T over n rows has a law that is known exactly, and it grows with a (the true class's are the larger ones). Ruled out are the
accuracies at which T would come out as large as it did, or as small, with a chance of at most α/2 (Clopper and Pearson's rule; for
a statistic of 0 or 1 these are their limits, mapped through the channel). So the limits hold with probability 1 − α or more, whatever the
accuracy. If instead k of these very n rows are right, T varies less: see benchmarks/results/coverage.json for both.

The tails of T come from its characteristic function φ(ω)ⁿ at the frequencies of a window of M values beyond which T has a mass below
2e-14, by the inverse Fourier transform summed over the tail; most frequencies have no weight and are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from labeldp.mechanisms import StatisticLaw

_BEYOND = 32.0  # the window leaves out a mass of 2·e^−32
_WEIGHTLESS = -41.0  # log of what a frequency may weigh to be left out
_SPARE = 1e-9  # tails are compared with this much to spare, for rounding
_STEP = 1e-7  # limits are searched to this, and rounded outwards


class SumOfStatistics:
    """T, in whole levels, of `rows` independent rows."""

    def __init__(self, law: StatisticLaw, rows: int) -> None:
        self.rows, self.top = rows, law.levels * rows
        self._other, self._gap = law.mean_other * self.top, law.gap * self.top
        # Bernstein: P[|T − E T| ≥ w] ≤ 2·exp(−w²/(2(V + L·w/3))), with V at most its largest value over a.
        variance = (max(law.variance_true, law.variance_other) + law.gap**2 / 4) * law.levels * self.top
        third = _BEYOND * law.levels / 3
        wide = 2 * math.ceil(third + math.sqrt(third**2 + 2 * _BEYOND * variance) + 1)
        self._whole = wide > self.top
        self._window = self.top + 1 if self._whole else wide
        true, other = (np.fft.rfft(np.array(p), self._window) for p in (law.true, law.other))
        with np.errstate(divide="ignore"):
            weight = rows * np.log(np.maximum(np.abs(true), np.abs(other)))
        self._k = np.flatnonzero(weight > _WEIGHTLESS)[1:]  # without 0, whose weight is 1
        self._true, self._fall = true[self._k], other[self._k]
        twice = np.where(2 * self._k == self._window, 1.0, 2.0)
        self._scale = twice / (self._window * np.sin(np.pi * self._k / self._window))

    def mean(self, accuracy: float) -> float:
        """E T."""
        return self._other + accuracy * self._gap

    def at_least(self, total: int, accuracy: float) -> float:
        """P[T ≥ total]."""
        first = 0 if self._whole else math.floor(self.mean(accuracy)) - self._window // 2
        last = first + self._window - 1
        if total <= max(first, 0):
            return 1.0
        if total > min(last, self.top):
            return 0.0
        # Σ over x = total … last of e^{iωx} is e^{iω(total + last)/2}·sin(ω·count/2)/sin(ω/2), with ω = 2πk/M.
        count, m = last - total + 1, self._window
        angle = (np.pi / m) * (self._k * (total + last) % (2 * m))
        size = np.sin((np.pi / m) * (self._k * count % (2 * m))) * self._scale
        turned = (accuracy * self._true + (1 - accuracy) * self._fall) ** self.rows * np.exp(1j * angle)
        return min(1.0, max(0.0, count / m + float(size @ turned.real)))

    def at_most(self, total: int, accuracy: float) -> float:
        """P[T ≤ total]."""
        return 1 - self.at_least(total + 1, accuracy)


@lru_cache(maxsize=64)
def _sum(law: StatisticLaw, rows: int) -> SumOfStatistics:
    return SumOfStatistics(law, rows)


@lru_cache(maxsize=4096)
def accuracy_limits(
    law: StatisticLaw, rows: int, total: int, confidence: float, least: float = 0.0, most: float = 1.0
) -> tuple[float, float]:
    """The accuracies from `least` to `most` that a sum of `total` levels over so many rows does not rule out.

    A sum beyond what any of these leads one to expect rules them all out, or nearly: then the limits are those of the nearest sum that
    is expected. They are wider, and an interval is never empty.
    """
    sums, level = _sum(law, rows), (1 - confidence) / 2 - _SPARE
    for_low = min(total, math.floor(sums.mean(most) + _SPARE))
    for_high = max(total, math.ceil(sums.mean(least) - _SPARE))
    low = _turn(lambda a: sums.at_least(for_low, a) <= level, least, most)[0]
    high = _turn(lambda a: sums.at_most(for_high, a) > level, least, most)[1]
    return low, high


def _turn(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Between which two close numbers a condition that holds at small ones stops to hold; where it never does so, one of the ends."""
    if not holds(low):
        return low, low
    if holds(high):
        return high, high
    while high - low > _STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high

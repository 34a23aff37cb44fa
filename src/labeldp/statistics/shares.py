"""Limits of a share that is counted with noise: exact, from the law of a binomial number plus the noise.

Of n rows of which each is counted with probability a, what is seen is R + Z: R binomial, Z the sum of the noise of k counts. Ruled out are
the shares at which this would come out as large as it did, or as small, with a chance of at most α/2 (Clopper and Pearson's rule).
Two-sided geometric noise of variance v has the characteristic function 1/(1 + 2v·sin²(ω/2)), so that of Z is its k-th power, and Z's law
is one inverse Fourier transform. Where that would be too long (tiny ε), and for Gaussian noise, Z's tail is the normal one with
Edgeworth's term for the excess kurtosis γ: Q(x) + φ(x)·γ(x³ − 3x)/24.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from labeldp.accounting.normal import log_upper_tail

Floats = npt.NDArray[np.float64]

_LONGEST = 1 << 18  # of a table of noise
_FAR = 8.0  # standard deviations of a binomial number that are summed over
_STEP = 1e-7


def excess_kurtosis(variance: float, heavy: bool) -> float:
    """Of one count's noise: 3 + 1/v for a two-sided geometric number; none for a Gaussian one."""
    return 3 + 1 / variance if heavy and variance > 0 else 0.0


@dataclass(frozen=True)
class NoiseSum:
    """The sum of the noise of so many counts, of this variance each; `heavy` if two-sided geometric."""

    counts: int
    variance: float
    heavy: bool = True

    @property
    def standard_deviation(self) -> float:
        """√(k·v)."""
        return math.sqrt(self.counts * self.variance)

    def at_least(self, x: Floats) -> Floats:
        """P[Z ≥ x]."""
        sd = self.standard_deviation
        if sd == 0:
            return np.asarray((x <= 0).astype(np.float64))
        tails = _tails(self.counts, self.variance) if self.heavy else None
        if tails is None:
            gamma = excess_kurtosis(self.variance, self.heavy) / self.counts
            u = x / sd
            bend = np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi) * gamma * (u**3 - 3 * u) / 24
            return np.asarray(np.clip(np.exp(log_upper_tail(u)) + bend, 0.0, 1.0))
        reach = len(tails) // 2
        return np.asarray(tails[np.clip(np.ceil(x - 1e-9), -reach, reach).astype(np.int64) + reach])


@lru_cache(maxsize=256)
def _tails(counts: int, variance: float) -> Floats | None:
    """P[Z ≥ x] at x = −reach … reach, or None if that would be too long."""
    reach = math.ceil(10 * math.sqrt(counts * variance) + 30 * math.sqrt(variance / 2) + 30)
    if reach > _LONGEST:
        return None
    size = 2 * reach + 1
    angle = np.pi * np.arange(size // 2 + 1) / size
    pmf = np.fft.irfft(np.exp(-counts * np.log1p(2 * variance * np.sin(angle) ** 2)), size)
    pmf = np.maximum(np.concatenate((pmf[-reach:], pmf[: reach + 1])), 0.0)
    return np.asarray(np.minimum(1.0, np.cumsum(pmf[::-1])[::-1]))


@lru_cache(maxsize=1 << 14)
def _log_factorial(k: int) -> float:
    return math.lgamma(k + 1)


def _binomial(rows: int, share: float) -> tuple[Floats, Floats]:
    """The likely numbers, and their chances."""
    if share <= 0 or share >= 1:
        return np.array([rows * float(share >= 1)]), np.ones(1)
    mean, sd = rows * share, math.sqrt(rows * share * (1 - share))
    r = np.arange(max(0, math.floor(mean - _FAR * sd - 12)), min(rows, math.ceil(mean + _FAR * sd + 40)) + 1)
    # From the first one on, by ratios: log p(r + 1)/p(r) = log((n − r)/(r + 1)) + log(a/(1 − a)).
    first = _log_factorial(rows) - _log_factorial(int(r[0])) - _log_factorial(rows - int(r[0]))
    first += r[0] * math.log(share) + (rows - r[0]) * math.log1p(-share)
    steps = np.log((rows - r[:-1]) / (r[:-1] + 1)) + math.log(share / (1 - share))
    chances = np.exp(first + np.concatenate(([0.0], np.cumsum(steps))))
    return r.astype(np.float64), chances / chances.sum()


def share_limits(total: float, rows: int, noise: NoiseSum, confidence: float = 0.95) -> tuple[float, float]:
    """The shares of so many rows that a noisy count does not rule out.

    A count that no share leads one to expect rules all of them out, or nearly: then the limits are those of the nearest one that is
    possible. They are wider, and never empty.
    """
    level = (1 - confidence) / 2
    for_low, for_high = min(total, float(rows)), max(total, 0.0)

    def as_large(a: float) -> float:
        r, chances = _binomial(rows, a)
        return float(chances @ noise.at_least(for_low - r))

    def as_small(a: float) -> float:
        r, chances = _binomial(rows, a)  # noise is symmetric: P[Z ≤ x] = P[Z ≥ −x]
        return float(chances @ noise.at_least(r - for_high))

    low, high = 0.0, 1.0
    if as_large(0.0) <= level:
        low = _turn(as_large, level, 0.0, 1.0)
    if as_small(1.0) <= level:
        high = _turn(as_small, level, 1.0, 0.0)
    return low, high


def _turn(chance: Callable[[float], float], level: float, outside: float, inside: float) -> float:
    """Where a chance that is at most `level` outside becomes larger; rounded outwards."""
    while abs(inside - outside) > _STEP:
        middle = (outside + inside) / 2
        outside, inside = (middle, inside) if chance(middle) <= level else (outside, middle)
    return outside

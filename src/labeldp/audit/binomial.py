"""Binomial tails in logarithms, with numpy alone, and the exact limits of Clopper and Pearson (1934).

Chances are written as log-odds θ = log(q/(1−q)), which lose nothing next to 0 or 1. Tails are good to 5e-10 (relative) for up to a
million trials; wherever one is compared with a level it is taken 1e-9 larger, so that no limit is too bold because of rounding.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError

MARGIN = 1e-9
_STEP = 1e-11  # limits are searched to this, in log-odds


class Tail:
    """P[N ≥ v] and its neighbours for N ~ Bin(r, q): v successes or more in r trials, with 1 ≤ v ≤ r."""

    def __init__(self, successes: int, trials: int) -> None:
        self.v, self.r = successes, trials
        few = np.arange(1, min(successes, trials - successes) + 1)
        self._log_choose = math.fsum(np.log((trials - few + 1) / few))

    @cached_property
    def _above(self) -> npt.NDArray[np.float64]:
        """log of C(r, v+j)/C(r, v) for j = 0 … r−v."""
        w = np.arange(self.v, self.r)
        return np.concatenate([[0.0], np.cumsum(np.log((self.r - w) / (w + 1)))])

    @cached_property
    def _below(self) -> npt.NDArray[np.float64]:
        """log of C(r, v−i)/C(r, v) for i = 1 … v."""
        w = np.arange(self.v, 0, -1)
        return np.cumsum(np.log(w / (self.r - w + 1)))

    def log_mass(self, odds: float) -> float:
        """log P[N = v]."""
        return self._log_choose - self.v * _softplus(-odds) - (self.r - self.v) * _softplus(odds)

    def log_tail(self, odds: float) -> float:
        """log P[N ≥ v]."""
        terms = self._above + odds * np.arange(self.r - self.v + 1)
        top = float(terms.max())
        return min(0.0, self.log_mass(odds) + top + math.log(float(np.exp(terms - top).sum())))

    def best_rate_below(self, odds: float) -> float:
        """max over i of P[v−i ≤ N < v]/i."""
        i = np.arange(1, self.v + 1)
        masses = np.exp(np.minimum(0.0, self.log_mass(odds) + self._below - odds * i))
        return float((np.cumsum(masses) / i).max())


def largest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number, to 1e-11, at which a condition holds that holds at `low` and fails at `high`."""
    while high - low > _STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def highest_odds(trials: int, alpha: float) -> float:
    """Log-odds at which even `trials` successes of `trials` are likelier than α: (1 − e^−θ)^r ≥ 1 − r·e^−θ > α."""
    return math.log(trials / (1 - alpha)) + 1


@lru_cache(maxsize=65536)
def lower_odds(successes: int, trials: int, alpha: float) -> float:
    """The largest log-odds θ at which `successes` or more have a chance of at most α; −∞ for none."""
    if successes == 0:
        return -math.inf
    tail, level = Tail(successes, trials), math.log(alpha) - MARGIN
    low = math.log(alpha / trials) - 1  # there P[N ≥ 1] ≤ r·q < α/e
    return largest(lambda odds: tail.log_tail(odds) <= level, low, highest_odds(trials, alpha))


def clopper_pearson_low(successes: int, trials: int, alpha: float = 0.05) -> float:
    """A one-sided lower limit on a chance: it exceeds the truth with probability at most α, whatever the truth is."""
    successes, trials = check_counts(successes=successes, trials=trials)
    return _chance(lower_odds(successes, trials, check_alpha(alpha)))


def clopper_pearson_high(successes: int, trials: int, alpha: float = 0.05) -> float:
    """A one-sided upper limit on a chance: it falls below the truth with probability at most α, whatever the truth is."""
    successes, trials = check_counts(successes=successes, trials=trials)
    return _chance(-lower_odds(trials - successes, trials, check_alpha(alpha)))


def check_counts(**counts: int) -> list[int]:
    """Whole numbers, none negative, none larger than the next."""
    whole: list[int] = []
    for name, count in counts.items():
        try:
            whole.append(operator.index(count))
        except TypeError:
            raise InputError(f"{name} must be a whole number, for it counts; got {count!r}.") from None
        if whole[-1] < 0:
            raise InputError(f"{name} must not be negative; got {count}.")
    names = list(counts)
    for i in range(len(names) - 1):
        if whole[i] > whole[i + 1]:
            raise InputError(f"{names[i]} ({whole[i]:,}) cannot be more than {names[i + 1]} ({whole[i + 1]:,}).")
    return whole


def check_alpha(alpha: float) -> float:
    """A chance of error, between 0 and 1."""
    if not 0 < alpha < 1:
        raise InputError(
            f"alpha is the accepted chance that the bound is wrong, between 0 and 1; got {alpha}. Usual: 0.05."
        )
    return float(alpha)


def _chance(odds: float) -> float:
    """q = 1/(1 + e^−θ)."""
    return math.exp(-_softplus(-odds))


def _softplus(x: float) -> float:
    """log(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))

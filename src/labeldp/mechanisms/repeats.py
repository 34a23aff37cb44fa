"""How often a base is run before its best output is released: a public law of K, as integers over 2^64.

The truncated negative binomial law of shape η ≥ 0 (Papernot & Steinke 2022, Definition 1): geometric at 1, logarithmic at 0. With
L = log(1/γ) and x = ηL, for every shape alike,

    p_1 = (1−γ)/L · x/(e^x − 1),      p_{k+1} = p_k·(1−γ)(k+η)/(k+1),      E[K] = p_1·γ^−(1+η)    (x/(e^x − 1) is 1 at 0).

Here γ is an integer over 2^64 and every step of the recurrence is rounded down to a whole weight, so weights never fall more slowly than
the law's; what is left of 2^64 goes to K = 1. Both only lower the cost, and so does the cut where weights end (`accounting/selection`).
Whole numbers and `Decimal` throughout: the same weights on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from labeldp.accounting.cost import Cost
from labeldp.accounting.rounding import CONTEXT, log_ratio_up
from labeldp.accounting.selection import halting, selection_base, selection_cost
from labeldp.entropy import Entropy, uint64s
from labeldp.errors import InputError
from labeldp.mechanisms.base import aimed_at, check_number, check_word
from labeldp.mechanisms.table import WHOLE, Table

# ----------------------------------------------------------------
# Noise for a count: how much longer one coin is tossed than another. Whole numbers all the way, and no end where it is cut.
#
# A coin with heads of weight a/2^64 = q is tossed until the first tails; G counts the heads, P[G = g] = (1−q)·q^g. The noise is G − G′:
#
#     P[noise = z] = Σ_g P[G = g + z]·P[G′ = g] = (1−q)/(1+q)·q^|z|.
#
# A count that moves by one moves |z| by one, so every ratio is q or 1/q, *exactly*: ε = log(2^64/a), whatever was counted.

_BLOCK = 64  # tosses at a time; what is tossed after the first tails is thrown away


@dataclass(frozen=True)
class TwoSidedGeometric:
    """Noise for counts of which one label moves at most one, by at most one. `heads` is the coin's weight a, over 2^64."""

    heads: int

    def __post_init__(self) -> None:
        check_word(self.heads, "heads")

    @classmethod
    def calibrated(cls, *, epsilon: float) -> TwoSidedGeometric:
        """The least noise whose certificate is at most ε: a = 2^64·e^−ε, rounded up."""
        with localcontext(CONTEXT):
            return cls(math.ceil(WHOLE * (-aimed_at(epsilon)).exp()))

    def certificate(self) -> Cost:
        """log(2^64/a)."""
        return Cost(pure=log_ratio_up(WHOLE, self.heads))

    @property
    def deviation(self) -> float:
        """The standard deviation, √(2q)/(1−q)."""
        return math.sqrt(2 * self.heads / WHOLE) * WHOLE / (WHOLE - self.heads)

    def sample(self, entropy: Entropy) -> int:
        """One draw."""
        return self._heads_in_a_row(entropy) - self._heads_in_a_row(entropy)

    def _heads_in_a_row(self, entropy: Entropy) -> int:
        count = 0
        while True:
            tails = np.flatnonzero(uint64s(entropy, _BLOCK) >= np.uint64(self.heads))
            if tails.size:
                return count + int(tails[0])
            count += _BLOCK


MAX_MEAN = 500.0  # up to here 65,536 weights hold E[K] to a part in a million, whatever the shape
MAX_SHAPE = 4.0  # beyond, P[K = 1], from which all weights come, has too few digits over 2^64 at the largest means
_MOST_RUNS = 1 << 16
_TINY = Decimal("1e-20")


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """Run a base K times, keep the best output, forget the others. `mean` is E[K]; `shape` is η, and a larger one costs more.

    Each run draws a candidate, releases with fresh noise, trains, and scores; the score is part of the base's output, so it is paid for
    in the base's cost. Which of two outputs is the better one is a public rule; of equals the first stays. Two things must stay with the
    owner: the other outputs, and K, for the best of k runs *known to be k* costs k·ε. A clock that an outsider can read tells K.

    Only what changes the release itself needs this. Training many times on one release is post-processing, and free.
    """

    mean: float
    shape: float = 1.0

    def __post_init__(self) -> None:
        mean, shape = check_number(self.mean, "mean"), check_number(self.shape, "shape")
        if not 1 < mean <= MAX_MEAN:
            raise InputError(
                f"mean is the expected number of runs, above 1 and at most {MAX_MEAN:g}; got {mean:g}. A typical value is 10."
            )
        if not 0 <= shape <= MAX_SHAPE:
            raise InputError(
                f"shape must be from 0 (logarithmic) to {MAX_SHAPE:g}; got {shape:g}. A typical value is 1 (geometric)."
            )
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "shape", shape)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """P[K = 1], P[K = 2], … as integers over 2^64."""
        gamma = _gamma(self.mean, self.shape)
        n, d = self.shape.as_integer_ratio()
        with localcontext(CONTEXT):
            weights = [int(WHOLE * _first_and_mean(gamma, self.shape)[0])]
        for k in range(1, _MOST_RUNS):
            weight = weights[-1] * (WHOLE - gamma) * (k * d + n) // (WHOLE * d * (k + 1))
            if weight == 0:
                break
            weights.append(weight)
        weights[0] += WHOLE - sum(weights)
        return tuple(weights)

    @cached_property
    def halting(self) -> Fraction:
        """γ, as the weights have it."""
        return halting(self.weights, self.shape)

    @cached_property
    def _table(self) -> Table:
        return Table(self.weights)

    def draw(self, entropy: Entropy) -> int:
        """How often to run this time. Private: do not print it, and do not let the clock tell it."""
        return int(self._table.sample(1, entropy)[0]) + 1

    def cost(self, base: Cost) -> Cost:
        """What the best of K runs costs if one run costs `base`, which must be pure. Less than (2 + shape) times as much."""
        return selection_cost(base, self.halting, self.shape)

    def base_epsilon(self, total: float) -> float:
        """The ε that one run may cost so that the best of K costs at most `total`."""
        return selection_base(total, self.halting, self.shape)

    def to_json(self) -> dict[str, float]:
        """Mean and shape: the weights are computed from them again, bit for bit."""
        return {"mean": self.mean, "shape": self.shape}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Repeats:
        """The inverse of `to_json`."""
        return cls(mean=check_number(data.get("mean"), "mean"), shape=check_number(data.get("shape"), "shape"))


def _first_and_mean(gamma: int, shape: float) -> tuple[Decimal, Decimal]:
    """P[K = 1] and E[K] of the law with γ/2^64, before anything is rounded or cut."""
    with localcontext(CONTEXT) as context:
        context.prec += 20  # γ has 64 digits, and 1 − γ may begin late
        halts = Decimal(gamma) / WHOLE
        fall = -halts.ln()
        x = Decimal(shape) * fall
        first = (1 - halts) / fall * (x / (x.exp() - 1) if x > _TINY else 1 - x / 2)
        return first, first * (x + fall).exp()


def _gamma(mean: float, shape: float) -> int:
    """The largest γ, over 2^64, at which E[K] is not below `mean`: it falls as γ grows."""
    low, high = 1, WHOLE - 1
    with localcontext(CONTEXT):
        least = Decimal(mean) * (1 - Decimal("1e-30"))  # a geometric law of mean 2 has γ = 1/2, not the integer below
    while high - low > 1:
        middle = (low + high) // 2
        if _first_and_mean(middle, shape)[1] >= least:
            low = middle
        else:
            high = middle
    return low

"""Noise for a count: how much longer one coin is tossed than another. Whole numbers all the way, and no end where it is cut.

A coin with heads of weight a/2^64 = q is tossed until the first tails; G counts the heads, P[G = g] = (1−q)·q^g. The noise is G − G′:

    P[noise = z] = Σ_g P[G = g + z]·P[G′ = g] = (1−q)/(1+q)·q^|z|.

A count that moves by one moves |z| by one, so every ratio is q or 1/q, *exactly*: ε = log(2^64/a), whatever was counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np

from labeldp.accounting.cost import Cost, check_epsilon
from labeldp.accounting.rounding import CONTEXT, log_ratio_up
from labeldp.entropy import Entropy, uint64s
from labeldp.mechanisms.base import CALIBRATION_MARGIN, check_word
from labeldp.mechanisms.table import WHOLE

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
            aim = Decimal(check_epsilon(epsilon)) * (1 - Decimal(CALIBRATION_MARGIN))
            return cls(math.ceil(WHOLE * (-aim).exp()))

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

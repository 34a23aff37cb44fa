"""Gaussian noise on an integer grid, far into its tails: cumulative weights over 2^128, compared with 64-bit words.

The votes lie on the grid (its spacing 1/m divides 1), so vote plus noise is the continuous Gaussian mechanism's output rounded to the grid:
post-processing. What is not, the clamped ends and the rounding of each weight, enters the slack of a `Cost`. The ends lie a whole vote
beyond 9σ: what noise within 9σ reaches from one count of votes, noise within the ends reaches from a neighbour's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property

import numpy as np
import numpy.typing as npt

from labeldp.accounting.gaussian import upper_tail
from labeldp.accounting.rounding import CONTEXT, float_up
from labeldp.entropy import Entropy, uint64s

_REACH = 9  # standard deviations; P[N > 9] is 2^-63
_FINE = 32  # cells a standard deviation, or the votes' own grid
_WIDE = 1 << 128
MIN_SIGMA = 0.5  # below, weights a vote beyond 9σ are too small for 2^128


@dataclass(frozen=True)
class GridNoise:
    """N(0, σ²) rounded to multiples of 1/per_unit, and clamped a vote beyond 9σ. σ is at least `MIN_SIGMA`."""

    sigma: float

    @property
    def per_unit(self) -> int:
        """Grid points between one whole number and the next."""
        return max(1, math.ceil(_FINE / self.sigma))

    @property
    def reach(self) -> int:
        """The last grid point on either side, which stands for all beyond it too."""
        return math.ceil((_REACH * self.sigma + 1) * self.per_unit)

    def _beyond(self, point: int) -> int:
        """P[noise lands on a grid point ≥ `point`], `point` ≥ 1, as an integer over 2^128, rounded down."""
        with localcontext(CONTEXT):
            edge = (Decimal(point) - Decimal("0.5")) / self.per_unit / Decimal(self.sigma)
            return int(upper_tail(edge) * _WIDE)

    def relative_error(self) -> float:
        """η: how far the weight of a cell between the ends may be from its mass, relatively.

        A weight is a difference of two numbers that were rounded down by less than 1 each, so it is off by less than 1; weights fall
        towards the ends. (The tails are good to 50 digits, of which 2^128 takes 39: the doubled error covers that.)
        """
        smallest = self._beyond(self.reach - 1) - self._beyond(self.reach)
        return 2.0 / smallest

    def mass_at_the_ends(self) -> float:
        """τ: the probability that a draw lies within a vote of the ends, or on them."""
        with localcontext(CONTEXT):
            return float_up(2 * Decimal(self._beyond(self.reach - self.per_unit) + 1) / _WIDE)

    @cached_property
    def _ends(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Cumulative weights up to each grid point but the last, as high and low words. Symmetric."""
        upper = [self._beyond(point) for point in range(1, self.reach + 1)]
        cumulative = upper[::-1] + [_WIDE - weight for weight in upper]
        high = np.array([value >> 64 for value in cumulative], dtype=np.uint64)
        return high, np.array([value & ((1 << 64) - 1) for value in cumulative], dtype=np.uint64)

    def sample(self, count: int, entropy: Entropy) -> npt.NDArray[np.int64]:
        """`count` independent draws, in grid points.

        An outcome is the number of cumulative weights at or below a uniform 128-bit number, whose low word is drawn only where the high
        one leaves the outcome open.
        """
        high, low = self._ends
        words = uint64s(entropy, count)
        below = np.searchsorted(high, words, side="left")
        for place in np.flatnonzero(np.searchsorted(high, words, side="right") != below):
            rest = int(uint64s(entropy, 1)[0])
            equal = high == words[place]
            below[place] += int((low[equal] <= np.uint64(rest)).sum())
        return below.astype(np.int64) - self.reach

"""A finite distribution whose probabilities are integers over 2^64, and its exact sampler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.entropy import Entropy, uint16s, uint64s

WHOLE = 1 << 64
_PREFIX_BITS = 16
_REST_BITS = 64 - _PREFIX_BITS


class Table:
    """Outcomes 0 … n − 1 (at most 2^16) with the given integer weights, which add up to 2^64."""

    def __init__(self, weights: Sequence[int]) -> None:
        if sum(weights) != WHOLE or min(weights) < 1 or not 1 <= len(weights) <= 1 << 16:
            raise ValueError("a table has 1 to 65,536 positive integers that add up to 2^64")
        self.weights = tuple(weights)
        ends = np.cumsum(np.array(weights[:-1], dtype=np.uint64), dtype=np.uint64)
        outcome = np.uint8 if len(weights) <= 1 << 8 else np.uint16
        # The guide: what a 64-bit word is decided to be by its first 16 bits, where they decide.
        first = np.arange(1 << _PREFIX_BITS, dtype=np.uint64) << np.uint64(_REST_BITS)
        last = first | np.uint64((1 << _REST_BITS) - 1)
        lowest = np.searchsorted(ends, first, side="right")
        self._ends = ends
        self._guide: npt.NDArray[Any] = lowest.astype(outcome)
        self._undecided = lowest != np.searchsorted(ends, last, side="right")

    def sample(self, count: int, entropy: Entropy) -> npt.NDArray[Any]:
        """`count` independent outcomes, each distributed exactly as the weights say.

        An outcome is the number of cumulative weights at or below a uniform 64-bit word. The word's last
        48 bits are drawn only where its first 16 leave the outcome open: the same law, a quarter of the entropy.
        """
        prefix = uint16s(entropy, count)
        outcomes = self._guide[prefix]
        open_ = np.flatnonzero(self._undecided[prefix])
        if open_.size:
            words = uint64s(entropy, open_.size) >> np.uint64(_PREFIX_BITS)
            words |= prefix[open_].astype(np.uint64) << np.uint64(_REST_BITS)
            outcomes[open_] = np.searchsorted(self._ends, words, side="right")
        return outcomes

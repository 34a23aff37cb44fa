"""A finite distribution whose probabilities are integers over 2^64, and its exact sampler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.entropy import Entropy, uint64s

WHOLE = 1 << 64


class Table:
    """Outcomes 0 … n − 1 (at most 2^16) with the given integer weights, which add up to 2^64."""

    def __init__(self, weights: Sequence[int]) -> None:
        if sum(weights) != WHOLE or min(weights) < 1 or not 1 <= len(weights) <= 1 << 16:
            raise ValueError("a table has 1 to 65,536 positive integers that add up to 2^64")
        self.weights = tuple(weights)
        self._ends = np.cumsum(np.array(weights[:-1], dtype=np.uint64), dtype=np.uint64)
        self._outcome = np.dtype(np.uint8 if len(weights) <= 1 << 8 else np.uint16)
        # The guide: what a 64-bit word comes to by its first bits, with a flag where they leave it open. Entropy is
        # what sampling costs most, so a table of few outcomes looks at 8 bits first, others at 16.
        self._prefix = np.dtype("<u1" if len(weights) <= 4 else "<u2")
        bits = 8 * self._prefix.itemsize
        first = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
        last = first | np.uint64((1 << (64 - bits)) - 1)
        lowest = np.searchsorted(self._ends, first, side="right")
        undecided = lowest != np.searchsorted(self._ends, last, side="right")
        self._flag = 1 << 8 * self._outcome.itemsize
        self._guide = (lowest + self._flag * undecided).astype(np.uint16 if self._outcome.itemsize == 1 else np.uint32)

    def sample(self, count: int, entropy: Entropy) -> npt.NDArray[Any]:
        """`count` independent outcomes, each distributed exactly as the weights say.

        An outcome is the number of cumulative weights at or below a uniform 64-bit word. The word's last bits are drawn
        only where its first leave the outcome open: the same law, for a fraction of the entropy.
        """
        prefix = np.frombuffer(entropy.bytes(self._prefix.itemsize * count), dtype=self._prefix)
        guided = self._guide[prefix]
        outcomes: npt.NDArray[Any] = guided.astype(self._outcome)  # drops the flag
        open_ = np.flatnonzero(guided >= self._flag)
        if open_.size:
            bits = np.uint64(8 * self._prefix.itemsize)
            words = uint64s(entropy, open_.size) >> bits
            words |= prefix[open_].astype(np.uint64) << (np.uint64(64) - bits)
            outcomes[open_] = np.searchsorted(self._ends, words, side="right")
        return outcomes

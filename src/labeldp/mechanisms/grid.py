"""Additive noise on a grid: the cells' integers are the continuous noise's masses, rounded, and clamped at the ends."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt

from labeldp.accounting.rounding import CONTEXT
from labeldp.mechanisms.base import Observations
from labeldp.mechanisms.coordinates import Coordinatewise
from labeldp.mechanisms.table import WHOLE

CELLS = 256


class Additive(Coordinatewise):
    """One-hot label plus noise, cut into 256 cells a class by `_edges`, which are symmetric about 1/2."""

    @abstractmethod
    def _edges(self) -> Sequence[Decimal]:
        """The 255 inner cell boundaries, increasing; the first and last cells reach to infinity."""

    def values(self, observations: Observations) -> npt.NDArray[np.float32]:
        """The noisy one-hot vectors themselves: a cell's middle, an end cell's inner edge."""
        edges = np.array([float(e) for e in self._edges()])
        middles = np.concatenate((edges[:1], (edges[1:] + edges[:-1]) / 2, edges[-1:]))
        return middles.astype(np.float32)[observations]


def integer_weights(masses: Sequence[Decimal]) -> list[int]:
    """Integers that add up to 2^64, each the nearest to its mass; the largest takes up the difference."""
    with localcontext(CONTEXT):
        weights = [int((mass * WHOLE).to_integral_value()) for mass in masses]
    weights[weights.index(max(weights))] += WHOLE - sum(weights)
    return weights

"""Mechanisms that noise the one-hot label coordinate by coordinate: one table, mirrored at the true class.

A cell j at a wrong class has probability w_j/2^64; at the true class cell j has w_{J−1−j}/2^64 (the grid is symmetric about
1/2, and so is the noise). Two labels differ in two coordinates: one goes from true to wrong, one from wrong to true.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost
from labeldp.accounting.rounding import CONTEXT, add_up, log_ratio_up
from labeldp.entropy import Entropy
from labeldp.mechanisms import information as nats
from labeldp.mechanisms.base import Observations, check_prior
from labeldp.mechanisms.judge import Plain, StatisticLaw
from labeldp.mechanisms.table import WHOLE, Table
from labeldp.private import Codes

Cells: TypeAlias = npt.NDArray[np.uint8]


class Coordinatewise(Plain):
    """A product of C tables of at most 256 cells."""

    levels: ClassVar[int] = 64  # rounding the statistic to so many makes its standard error at most 0.2% larger

    @abstractmethod
    def _table(self) -> Table:
        """The cells at a class that is not the true one."""

    def certificate(self) -> Cost:
        """Pure ε: the worst log-ratio of each of the two coordinates that differ."""
        w = self._table().weights
        worst = max(((w[-1 - j], w[j]) for j in range(len(w))), key=lambda pq: Fraction(*pq))
        one = log_ratio_up(*worst)  # by mirror symmetry the worst ratio is the same in both directions
        return Cost(pure=add_up(one, one))

    def _observe_cells(self, codes: Codes, entropy: Entropy) -> Cells:
        table = self._table()
        cells: Cells = table.sample(len(codes) * self.num_classes, entropy).reshape(len(codes), self.num_classes)
        rows = np.arange(len(codes))
        cells[rows, codes] = len(table.weights) - 1 - cells[rows, codes]
        return cells

    def _cells(self, observations: Observations) -> Cells:
        return observations

    def _observe(self, codes: Codes, entropy: Entropy) -> Observations:
        return self._observe_cells(codes, entropy)

    @property
    def observation_bytes(self) -> int:
        """One cell number a class."""
        return self.num_classes

    def _probabilities(self) -> npt.NDArray[np.float64]:
        return np.array([w / WHOLE for w in self._table().weights])

    def _log_ratios(self) -> npt.NDArray[np.float64]:
        w = self._table().weights
        return np.array([_log_ratio(w[-1 - j], w[j]) for j in range(len(w))])

    def evidence(self, observations: Observations) -> npt.NDArray[np.float32]:
        """log(w_{J−1−j}/w_j) at the class's cell j."""
        return self._log_ratios().astype(np.float32)[self._cells(observations)]

    def _cell_levels(self) -> npt.NDArray[np.int64]:
        """The statistic of each cell in whole steps, which sums keep: so the law of a sum of them is exact."""
        g = 1 / (1 + np.exp(-self._log_ratios()))
        span = (g[-1] - g[0]) or 1.0  # 0 where the mechanism tells nothing
        return np.asarray(np.rint((g - g[0]) / span * self.levels), dtype=np.int64)

    def statistic(self, observations: Observations, classes: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float64]:
        """p(cell | true)/(p(cell | true) + p(cell | other)), the posterior at even odds, stretched to [0, 1] and rounded to whole levels.

        Among all functions of the cell it has (but for the rounding) the smallest standard error where half of the predictions are right.
        """
        cells = self._cells(observations)[np.arange(len(observations)), classes]
        return np.asarray(self._cell_levels()[cells] / self.levels)

    def law(self) -> StatisticLaw:
        """Sums over the cells."""
        p, level = self._probabilities(), self._cell_levels()
        true, other = (np.bincount(level, weights=w, minlength=self.levels + 1).tolist() for w in (p[::-1], p))
        return StatisticLaw(tuple(true), tuple(other))

    def probability_kept(self) -> float:
        """A sum over the levels of evidence at the true class."""
        return truth_wins(self._table().weights, self.num_classes)

    def information(self, prior: npt.ArrayLike | None = None) -> float:
        """By quadrature, for any prior."""
        pi = check_prior(prior, self.num_classes)
        return nats.coordinatewise(self._probabilities(), self._log_ratios(), pi)


def truth_wins(weights: Sequence[int], num_classes: int) -> float:
    """The probability that the true class's evidence is the largest of all C, or wins the tie: Σ_v p₁(v)·P[none above v, tie won].

    With A = P₀[below v], B = P₀[at most v], and t of the C − 1 others tied at v, the second factor is
    E[1/(1+t); none above] = (B^C − A^C)/(C·(B − A)) = B^{C−1}·(1 − (1−x)^C)/(C·x) with x = 1 − A/B, which does not cancel.
    """
    levels: dict[Fraction, tuple[int, int]] = {}
    for true, other in zip(reversed(weights), weights, strict=True):
        so_far = levels.get(Fraction(true, other), (0, 0))
        levels[Fraction(true, other)] = (so_far[0] + true, so_far[1] + other)
    total, at_most = 0.0, 0
    for _, (true, other) in sorted(levels.items()):
        at_most += other
        below = at_most - other
        # Each logarithm of the form that does not cancel: near 1 by what is missing, far from it as it is.
        share = math.log1p((at_most - WHOLE) / WHOLE) if 2 * at_most > WHOLE else math.log(at_most / WHOLE)
        none_above = math.exp((num_classes - 1) * share)
        x = other / at_most
        tied = math.log1p(-x) if 2 * below > at_most else math.log(below / at_most) if below else -math.inf
        none_tied = math.expm1(num_classes * tied)
        total += true / WHOLE * none_above * -none_tied / (num_classes * x)
    return total


def _log_ratio(p: int, q: int) -> float:
    return float(np.log1p((p - q) / q)) if p >= q else -float(np.log1p((q - p) / p))


# ----------------------------------------------------------------
# Additive noise on a grid: the cells' integers are the continuous noise's masses, rounded, and clamped at the ends.

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

"""Laplace noise on the one-hot label (ALIBI, Malek et al. 2021)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, ClassVar

from labeldp.accounting.cost import MAX_EPSILON, MIN_EPSILON, check_epsilon
from labeldp.accounting.rounding import CONTEXT
from labeldp.errors import AccountingError, InputError
from labeldp.mechanisms.base import CALIBRATION_MARGIN, check_number
from labeldp.mechanisms.coordinates import CELLS, Additive, integer_weights
from labeldp.mechanisms.table import Table
from labeldp.private import check_num_classes

# Between 0 and 1, where the evidence changes, cells are 1/64 wide; outside, where it does not, λ/8, out to 12 λ
# (for those who want the noisy vector itself). No cell straddles 0 or 1.
_INSIDE = 64
_OUTSIDE = (CELLS - _INSIDE) // 2
_OUTSIDE_WIDTH = Decimal(1) / 8


@lru_cache(maxsize=16)
def _edges(scale: float) -> tuple[Decimal, ...]:
    with localcontext(CONTEXT):
        tail = [i * _OUTSIDE_WIDTH * Decimal(scale) for i in range(1, _OUTSIDE)]
        inside = [Decimal(i) / _INSIDE for i in range(_INSIDE + 1)]
        return (*(-x for x in reversed(tail)), *inside, *(1 + x for x in tail))


@lru_cache(maxsize=16)
def _laplace_table(scale: float) -> Table:
    """P[cell] at a wrong class, where the noise is centred at 0 and P[noise > x] = e^{−x/λ}/2 for x ≥ 0."""
    with localcontext(CONTEXT):
        above = [(-abs(x) / Decimal(scale)).exp() / 2 for x in _edges(scale)]
        below = [a if x < 0 else 1 - a for x, a in zip(_edges(scale), above, strict=True)]
        masses = [below[0]]
        # Differences on the side where the tail is small: nothing cancels.
        for i, x in enumerate(_edges(scale)[1:], start=1):
            masses.append(above[i] - above[i - 1] if x <= 0 else above[i - 1] - above[i])
        return Table(integer_weights([*masses, above[-1]]))


@dataclass(frozen=True)
class Laplace(Additive):
    """Independent Laplace noise of scale λ = `scale` on each coordinate of the one-hot label."""

    num_classes: int
    scale: float
    name: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        check_num_classes(self.num_classes)
        if not (math.isfinite(self.scale) and 1.999 / MAX_EPSILON <= self.scale <= 2.001 / MIN_EPSILON):
            raise InputError(f"a Laplace scale is 2/ε for ε from {MIN_EPSILON:g} to {MAX_EPSILON:g}; got {self.scale}.")

    @classmethod
    def calibrated(cls, *, epsilon: float, num_classes: int) -> Laplace:
        """λ = 2/ε (one-hot labels have ℓ1 sensitivity 2), and as little more as the integers' rounding asks for."""
        epsilon, margin = check_epsilon(epsilon), CALIBRATION_MARGIN
        while margin < 2**-8:
            mechanism = cls(check_num_classes(num_classes), 2 / epsilon * (1 + margin))
            if mechanism.certificate().pure <= epsilon * (1 - CALIBRATION_MARGIN / 2):
                return mechanism
            margin *= 2
        raise AccountingError(f"no Laplace scale near {2 / epsilon:g} has a certificate of {epsilon:g}.")

    def _edges(self) -> Sequence[Decimal]:
        return _edges(self.scale)

    def _table(self) -> Table:
        return _laplace_table(self.scale)

    def describe(self) -> str:
        """In a few words."""
        return f"one-hot label plus Laplace noise of scale {self.scale:.4g}"

    def parameters(self) -> dict[str, Any]:
        """The scale λ."""
        return {"scale": self.scale}

    @classmethod
    def from_parameters(cls, num_classes: int, parameters: Mapping[str, Any]) -> Laplace:
        """From `scale`."""
        return cls(num_classes, check_number(parameters.get("scale"), "scale"))

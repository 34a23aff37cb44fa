"""Gaussian noise on the one-hot label (AGIBI): (ε, δ), or exactly μ-Gaussian-DP but for a stated slack."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, ClassVar

from labeldp.accounting.cost import Cost, check_delta, check_epsilon
from labeldp.accounting.gaussian import upper_tail
from labeldp.accounting.rounding import CONTEXT, exp, float_up, log_ratio_up
from labeldp.errors import AccountingError, InputError
from labeldp.mechanisms.base import CALIBRATION_MARGIN, Guarantee, check_number
from labeldp.mechanisms.coordinates import CELLS, Additive, integer_weights
from labeldp.mechanisms.table import WHOLE, Table
from labeldp.private import check_num_classes

# The grid ends where the far tail's mass is P[N > 6.7] ≈ 2^-36.5, so that every cell holds more than 2^20 (a test says
# 2^24) and rounding changes none by more than a 2^-25th of itself.
_REACH = Decimal("6.7")
_MIN_SIGMA, _MAX_SIGMA = 0.1, 1e7


@lru_cache(maxsize=16)
def _edges(sigma: float) -> tuple[Decimal, ...]:
    """Equal cells, symmetric about 1/2; the last edge is 6.7 σ above 0."""
    with localcontext(CONTEXT):
        half = _REACH * Decimal(sigma) - Decimal("0.5")
        width = 2 * half / (CELLS - 2)
        return tuple(Decimal("0.5") - half + i * width for i in range(CELLS - 1))


@lru_cache(maxsize=16)
def _gaussian_table(sigma: float) -> tuple[Table, Decimal]:
    """The integers at a wrong class (noise centred at 0), and the largest relative error η among them."""
    with localcontext(CONTEXT):
        edges = [x / Decimal(sigma) for x in _edges(sigma)]
        tails = [upper_tail(abs(z)) for z in edges]
        masses = [tails[0] if edges[0] < 0 else 1 - tails[0]]
        for i in range(1, len(edges)):
            if edges[i] <= 0:
                masses.append(tails[i] - tails[i - 1])
            elif edges[i - 1] >= 0:
                masses.append(tails[i - 1] - tails[i])
            else:
                masses.append(1 - tails[i - 1] - tails[i])
        masses.append(tails[-1])
        weights = integer_weights(masses)
        # The masses themselves are good to 50 digits; 1e-40 covers that many times over.
        eta = max(abs(w / (m * WHOLE) - 1) for w, m in zip(weights, masses, strict=True)) + Decimal("1e-40")
        return Table(weights), eta


@lru_cache(maxsize=16)
def _prefix_sums(weights: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """(P(S), Q(S)) over 2^128 for the sets S of the most telling pairs of cells, one pair more at a time.

    P: the first of the two differing coordinates is the true class; Q: the second. The pairs are sorted by the exact
    ratio P/Q: two different ratios of integers below 2^128 differ by more than 2^-256, so a floor at 2^-260 tells them apart.
    """
    mirrored = weights[::-1]
    by_ratio: dict[int, tuple[int, int]] = {}
    for i in range(len(weights)):
        for j in range(i, len(weights)):
            # Coordinate 1 in cell i, coordinate 2 in the mirror image of cell j; (i, j) and (j, i) weigh the same.
            copies = 1 if i == j else 2
            p, q = mirrored[i] * mirrored[j], weights[i] * weights[j]
            key = (p << 260) // q
            sum_p, sum_q = by_ratio.get(key, (0, 0))
            by_ratio[key] = (sum_p + copies * p, sum_q + copies * q)
    sums, total_p, total_q = [], 0, 0
    for key in sorted(by_ratio, reverse=True):
        total_p, total_q = total_p + by_ratio[key][0], total_q + by_ratio[key][1]
        sums.append((total_p, total_q))
    return tuple(sums)


@dataclass(frozen=True)
class Gaussian(Additive):
    """Independent Gaussian noise of standard deviation `sigma` on each coordinate; ε is stated at `delta`."""

    num_classes: int
    sigma: float
    delta: float = 1e-5
    name: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        check_num_classes(self.num_classes)
        check_delta(self.delta)
        if not _MIN_SIGMA <= self.sigma <= _MAX_SIGMA:
            raise InputError(f"sigma must be from {_MIN_SIGMA:g} to {_MAX_SIGMA:g}; got {self.sigma}.")

    @classmethod
    def calibrated(cls, *, epsilon: float, num_classes: int, delta: float = 1e-5) -> Gaussian:
        """The analytic Gaussian: μ² = 2/σ² (one-hot labels have ℓ2 sensitivity √2) fits a Gaussian cap of (ε, δ)."""
        epsilon, delta = check_epsilon(epsilon), check_delta(delta)
        cap = Cost.gaussian_cap(epsilon * (1 - CALIBRATION_MARGIN), delta)
        with localcontext(CONTEXT):
            sigma = float_up((2 / Decimal(cap.gaussian) / (1 - Decimal(CALIBRATION_MARGIN))).sqrt())
        mechanism = cls(check_num_classes(num_classes), sigma, delta)
        if not mechanism.certificate().within(cap):
            raise AccountingError(f"a Gaussian table's rounding is too coarse for ε = {epsilon:g}, δ = {delta:g}.")
        return mechanism

    def _edges(self) -> Sequence[Decimal]:
        return _edges(self.sigma)

    def _table(self) -> Table:
        return _gaussian_table(self.sigma)[0]

    def certificate(self) -> Cost:
        """μ² = 2/σ², with the slack of two coordinates' integers."""
        with localcontext(CONTEXT):
            eta = _gaussian_table(self.sigma)[1]
            ratio = 2 * ((1 + eta) / (1 - eta)).ln()
            return Cost.of_gaussian(2 / (Decimal(self.sigma) ** 2) * (1 + Decimal("1e-40")), float_up(ratio))

    def delta_at(self, epsilon: float) -> float:
        """The exact curve of one release, rounded up: max over sets S of P(S) − e^ε Q(S)."""
        whole = WHOLE * WHOLE
        with localcontext(CONTEXT):
            e = exp(epsilon) * (1 - Decimal("1e-50"))
            largest = max(p - e * q for p, q in _prefix_sums(self._table().weights))
            return float_up(max(Decimal(0), largest / whole) * (1 + Decimal("1e-50")))

    def guarantee(self) -> Guarantee:
        """The smallest ε with δ(ε) ≤ δ, from the integers: max over S of log((P(S) − δ)/Q(S)), rounded up."""
        numerator, denominator = self.delta.as_integer_ratio()  # a power of two below
        shift = WHOLE * WHOLE * numerator // denominator
        best = (1, 1)
        for p, q in _prefix_sums(self._table().weights):
            if (p - shift) * best[1] > best[0] * q:
                best = (p - shift, q)
        return Guarantee(log_ratio_up(*best), self.delta)

    def describe(self) -> str:
        """In a few words."""
        return f"one-hot label plus Gaussian noise of σ = {self.sigma:.4g}"

    def parameters(self) -> dict[str, Any]:
        """σ, and the δ at which ε is stated."""
        return {"sigma": self.sigma, "delta": self.delta}

    @classmethod
    def from_parameters(cls, num_classes: int, parameters: Mapping[str, Any]) -> Gaussian:
        """From `sigma` and `delta`."""
        sigma = check_number(parameters.get("sigma"), "sigma")
        if not math.isfinite(sigma):
            raise InputError("sigma must be finite.")
        return cls(num_classes, sigma, check_number(parameters.get("delta"), "delta"))

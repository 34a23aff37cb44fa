"""Noise on whole numbers: two-sided geometric (a pure ε), or Gaussian on a grid (μ², for many numbers at once).

Neighbours differ in one label, which moves a few of the counts by one each: their number is `moved`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost, check_delta, check_epsilon
from labeldp.accounting.rounding import CONTEXT, add_up, float_up, log_ratio_up
from labeldp.entropy import Entropy, uint64s
from labeldp.errors import InputError
from labeldp.mechanisms.base import CALIBRATION_MARGIN, Guarantee, aimed_at, check_number, check_word
from labeldp.mechanisms.noise import MIN_SIGMA, GridNoise
from labeldp.mechanisms.table import WHOLE

_MOST_COINS = 1 << 22  # drawn at a time


class CountNoise(ABC):
    """Noise that is added to each of some whole numbers, independently."""

    name: ClassVar[str]

    @abstractmethod
    def certificate(self, moved: int) -> Cost:
        """The cost, where one label moves so many of the numbers by one."""

    @abstractmethod
    def guarantee(self, moved: int) -> Guarantee:
        """The same as (ε, δ)."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Of one number's noise."""

    @abstractmethod
    def sample(self, count: int, entropy: Entropy) -> npt.NDArray[np.float64]:
        """So many independent draws: whole numbers, or multiples of a power of two's fraction, all of which a float holds exactly."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Enough to build it again."""


@dataclass(frozen=True)
class GeometricNoise(CountNoise):
    """P[k] = (1 − q)/(1 + q)·q^|k| with q = `stay`/2^64: the difference of two geometric numbers, each the length of a run of coins.

    Every coin is one comparison of a 64-bit word with `stay`, so P[k]/P[k + 1] is 2^64/`stay` exactly, at all whole numbers: there is
    nothing to clamp, and no tail that is cut off.
    """

    stay: int
    name: ClassVar[str] = "geometric"

    def __post_init__(self) -> None:
        check_word(self.stay, "stay")

    @classmethod
    def calibrated(cls, *, epsilon: float, moved: int) -> GeometricNoise:
        """The least noise that costs at most ε."""
        with localcontext(CONTEXT):
            q = (-aimed_at(epsilon) / moved).exp()
            return cls(min(WHOLE - 1, int((q * WHOLE).to_integral_value(rounding="ROUND_CEILING"))))

    def certificate(self, moved: int) -> Cost:
        """`moved`·log(2^64/stay)."""
        one, total = log_ratio_up(WHOLE, self.stay), 0.0
        for _ in range(moved):
            total = add_up(total, one)
        return Cost(total)

    def guarantee(self, moved: int) -> Guarantee:
        """Pure."""
        return Guarantee(self.certificate(moved).epsilon(), 0.0)

    @property
    def variance(self) -> float:
        """2q/(1 − q)²."""
        return 2.0 * self.stay * WHOLE / (WHOLE - self.stay) ** 2

    def sample(self, count: int, entropy: Entropy) -> npt.NDArray[np.float64]:
        """Runs of coins, of all numbers at once: each coin that does not stay ends one."""
        runs = self._runs(2 * count, entropy)
        return (runs[:count] - runs[count:]).astype(np.float64)

    def _runs(self, count: int, entropy: Entropy) -> npt.NDArray[np.int64]:
        """In one long sequence of independent coins, the lengths between those that end a run are independent and geometric."""
        typical = WHOLE / (WHOLE - self.stay)
        ends: list[npt.NDArray[np.int64]] = []
        tossed = found = 0
        while found < count:
            coins = int(min(_MOST_COINS, 1 + 1.1 * typical * (count - found) + 64))
            part = np.flatnonzero(uint64s(entropy, coins) >= np.uint64(self.stay)) + tossed
            ends.append(part)
            tossed, found = tossed + coins, found + len(part)
        return np.diff(np.concatenate(ends)[:count], prepend=-1) - 1

    def to_json(self) -> dict[str, Any]:
        """`stay` as text: JSON readers lose bits."""
        return {"name": self.name, "stay": str(self.stay)}


@dataclass(frozen=True)
class GaussianCountNoise(CountNoise):
    """N(0, σ²) on a grid that holds the whole numbers; ε is stated at `delta`."""

    sigma: float
    delta: float = 1e-5
    name: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        check_delta(self.delta)
        if not MIN_SIGMA <= self.sigma <= 1e7:
            raise InputError(f"sigma must be from {MIN_SIGMA:g} to 1e7; got {self.sigma}.")

    @classmethod
    def calibrated(cls, *, epsilon: float, delta: float, moved: int) -> GaussianCountNoise:
        """The analytic Gaussian: `moved` numbers that change by one are an ℓ2 distance of √moved."""
        cap = Cost.gaussian_cap(check_epsilon(epsilon) * (1 - CALIBRATION_MARGIN), check_delta(delta))
        with localcontext(CONTEXT):
            sigma = float_up((moved / Decimal(cap.gaussian) / (1 - Decimal(CALIBRATION_MARGIN))).sqrt())
        noise = cls(max(sigma, MIN_SIGMA), delta)
        if not noise.certificate(moved).within(cap):
            raise InputError(f"Gaussian noise on a grid is too coarse for ε = {epsilon:g}, δ = {delta:g}.")
        return noise

    @cached_property
    def _grid(self) -> GridNoise:
        return GridNoise(self.sigma)

    def certificate(self, moved: int) -> Cost:
        """μ² = moved/σ², with the slack of so many coordinates."""
        eta = Decimal(self._grid.relative_error())
        with localcontext(CONTEXT):
            ratio = float_up(moved * ((1 + eta) / (1 - eta)).ln() * (1 + Decimal("1e-40")))
            mass = float_up(moved * Decimal(self._grid.mass_at_the_ends()))
            return Cost.of_gaussian(moved / Decimal(self.sigma) ** 2 * (1 + Decimal("1e-40")), ratio, mass)

    def guarantee(self, moved: int) -> Guarantee:
        """At the stated δ."""
        return Guarantee(self.certificate(moved).epsilon(self.delta), self.delta)

    @property
    def variance(self) -> float:
        """σ², and what rounding to the grid adds."""
        return self.sigma**2 + 1 / (12 * self._grid.per_unit**2)

    def sample(self, count: int, entropy: Entropy) -> npt.NDArray[np.float64]:
        """In units of a count."""
        return self._grid.sample(count, entropy) / self._grid.per_unit

    def to_json(self) -> dict[str, Any]:
        """σ, and the δ at which ε is stated."""
        return {"name": self.name, "sigma": self.sigma, "delta": self.delta}


def noise_from_json(data: Any) -> CountNoise:
    """The inverse of `to_json`; an InputError, if it is none."""
    given = data if isinstance(data, Mapping) else {}
    if given.get("name") == GeometricNoise.name:
        return GeometricNoise(check_word(given.get("stay"), "stay"))
    if given.get("name") == GaussianCountNoise.name:
        return GaussianCountNoise(check_number(given.get("sigma"), "sigma"), check_number(given.get("delta"), "delta"))
    raise InputError("noise on counts is geometric or gaussian.")

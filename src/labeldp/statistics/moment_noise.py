"""Noise on moments T = XᵀY: Gaussian, drawn once, on whole numbers of grid steps.

Rows of X are whole numbers with Σ_j q_ij² ≤ R², checked as such. One label that is replaced moves, of two classes, the one column that is
kept by at most R in ℓ2; of more, two columns by R each: √2·R. Rounding a continuous Gaussian to whole numbers is post-processing, because
T is whole: μ = R/σ, or √2·R/σ, and the sampler's error is the slack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost, check_delta, check_epsilon
from labeldp.accounting.rounding import CONTEXT, float_up
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.mechanisms.base import CALIBRATION_MARGIN, Guarantee, check_number
from labeldp.private import PrivateLabels, check_num_classes
from labeldp.statistics.exact_normal import ExactNormal, slack

MAX_RADIUS = (1 << 15) - 1
MAX_DIMENSIONS = 1 << 14
_CHUNK = 1 << 20  # numbers of X at a time


def _whole(value: object, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value <= high:
        raise InputError(f"{name} must be a whole number from {low} to {high:,}.")
    return int(value)


@dataclass(frozen=True)
class MomentNoise:
    """N(0, σ²), in grid steps, on each number of T; ε is stated at `delta`.

    radius      R, in grid steps: no row of X is longer
    dimensions  columns of X, the constant one among them
    """

    sigma: float
    radius: int
    dimensions: int
    num_classes: int
    delta: float = 1e-5
    name: ClassVar[str] = "moments"

    def __post_init__(self) -> None:
        check_delta(self.delta)
        check_num_classes(self.num_classes)
        _whole(self.radius, "radius", 1, MAX_RADIUS)
        _whole(self.dimensions, "dimensions", 1, MAX_DIMENSIONS)
        if not self.sigma >= self.radius / 16:
            raise InputError(f"sigma must be at least a sixteenth of the radius, {self.radius}; got {self.sigma}.")
        ExactNormal(self.sigma)

    @classmethod
    def calibrated(cls, *, epsilon: float, delta: float, radius: int, dimensions: int, num_classes: int) -> MomentNoise:
        """The least noise that costs at most (ε, δ)."""
        cap = Cost.gaussian_cap(check_epsilon(epsilon) * (1 - CALIBRATION_MARGIN), check_delta(delta))
        squared = _sensitivity_squared(_whole(radius, "radius", 1, MAX_RADIUS), num_classes)
        with localcontext(CONTEXT):
            sigma = float_up((squared / Decimal(cap.gaussian) / (1 - Decimal(CALIBRATION_MARGIN))).sqrt())
        noise = cls(max(sigma, radius / 16), radius, dimensions, num_classes, delta)
        if not noise.certificate().within(cap):
            raise InputError(f"the sampler is too coarse for ε = {epsilon:g}, δ = {delta:g}.")
        return noise

    @property
    def columns(self) -> int:
        """Of T: one for two classes, since both add up to what is public."""
        return 1 if self.num_classes == 2 else self.num_classes

    @property
    def moved(self) -> int:
        """How many numbers of T a label may move."""
        return self.dimensions * min(self.columns, 2)

    @cached_property
    def _normal(self) -> ExactNormal:
        return ExactNormal(self.sigma)

    def certificate(self) -> Cost:
        """μ² = R²/σ² or 2R²/σ², with the slack of all numbers that a label may move, each by at most R."""
        ratio, mass = slack(self._normal, self.radius, self.moved)
        with localcontext(CONTEXT):
            squared = Decimal(_sensitivity_squared(self.radius, self.num_classes)) / Decimal(self.sigma) ** 2
            return Cost.of_gaussian(squared * (1 + Decimal("1e-40")), ratio, mass)

    def guarantee(self) -> Guarantee:
        """At the stated δ."""
        return Guarantee(self.certificate().epsilon(self.delta), self.delta)

    @property
    def mu(self) -> float:
        """√μ² of the certificate, as a float for rules and plans."""
        return float(np.sqrt(_sensitivity_squared(self.radius, self.num_classes))) / self.sigma

    @property
    def variance(self) -> float:
        """Of one number of T, in grid steps squared."""
        return self._normal.variance

    def sample(self, entropy: Entropy) -> npt.NDArray[np.int64]:
        """Of all numbers of T: (dimensions, columns)."""
        drawn = self._normal.sample(self.dimensions * self.columns, entropy)
        return drawn.reshape(self.dimensions, self.columns)

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {
            "name": self.name, "sigma": self.sigma, "radius": self.radius, "dimensions": self.dimensions,
            "num_classes": self.num_classes, "delta": self.delta,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Any) -> MomentNoise:
        """The inverse; an InputError, if it is none."""
        given = data if isinstance(data, Mapping) else {}
        if given.get("name") != cls.name:
            raise InputError("this is no noise on moments.")
        radius, dimensions, classes = (
            _whole(given.get(one), one, 1, 1 << 16) for one in ("radius", "dimensions", "num_classes")
        )
        sigma, delta = (check_number(given.get(one), one) for one in ("sigma", "delta"))
        return cls(sigma, radius, dimensions, classes, delta)


def _sensitivity_squared(radius: int, num_classes: int) -> int:
    return radius * radius * (1 if check_num_classes(num_classes) == 2 else 2)


# ----------------------------------------------------------------
# The statistic.


def check_lengths(features: npt.NDArray[np.integer[Any]], radius: int) -> None:
    """Σ_j q_ij² ≤ R² for every row, in whole numbers; the proof needs nothing else of the features."""
    if features.ndim != 2 or features.dtype.kind not in "iu" or features.shape[1] > MAX_DIMENSIONS:
        raise InputError("features for moments are a table of whole numbers.")
    step = max(1, _CHUNK // max(1, features.shape[1]))
    for start in range(0, len(features), step):
        # Exact in floats: a number beyond 2^15 is too long by itself, and the squares of others add up to less than 2^53.
        part = features[start : start + step].astype(np.float64)
        if part.max() > radius or part.min() < -radius or (np.einsum("ij,ij->i", part, part) > radius * radius).any():
            raise InputError(f"rows {start} to {start + len(part) - 1}: a row of features is longer than {radius}.")


def exact_moments(
    features: npt.NDArray[np.integer[Any]], labels: PrivateLabels, noise: MomentNoise
) -> npt.NDArray[np.int64]:
    """T without its noise, (dimensions, columns): private. Lengths are checked first.

    Of two classes, the sum of the rows of the second; of more, of each. Sums of whole numbers below 2^53 are exact in floats, in any order.
    """
    if features.shape != (len(labels), noise.dimensions) or labels.num_classes != noise.num_classes:
        raise InputError(
            f"features of {len(labels):,} labelled rows and {noise.dimensions:,} columns were to be summed over {noise.num_classes} "
            f"classes; they have shape {features.shape} and {labels.num_classes} classes."
        )
    if len(labels) > 1 << 37:
        raise InputError("more than 2^37 rows are not summed at once.")
    check_lengths(features, noise.radius)
    codes = labels.reveal()
    total = np.zeros((noise.dimensions, noise.columns))
    classes = np.arange(noise.num_classes)[-noise.columns :]
    step = max(1, _CHUNK // max(noise.dimensions, noise.columns))
    for start in range(0, len(codes), step):
        chosen = codes[start : start + step, None] == classes
        total += features[start : start + step].astype(np.float64).T @ chosen.astype(np.float64)
    return total.astype(np.int64)


def completed(
    noisy: npt.NDArray[np.integer[Any]], totals: npt.NDArray[np.integer[Any]], num_classes: int
) -> npt.NDArray[np.float64]:
    """All C columns, adding up to the public Σ x_i: post-processing, which for C > 2 takes a C-th of the noise's variance away."""
    given, whole = np.asarray(noisy, dtype=np.float64), np.asarray(totals, dtype=np.float64)
    if given.shape != (len(whole), 1 if num_classes == 2 else num_classes):
        raise InputError(
            f"moments of {len(whole):,} columns and {num_classes} classes have another shape than {given.shape}."
        )
    if num_classes == 2:
        return np.concatenate((whole[:, None] - given, given), axis=1)
    return np.asarray(given + (whole - given.sum(axis=1))[:, None] / num_classes)

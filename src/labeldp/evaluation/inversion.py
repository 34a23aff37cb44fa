"""Limits of a ratio: those values that a test does not rule out (Fieller), where the test knows that small samples lean to one side.

Of a metric a = E[x]/E[y], T(a) = mean(x) − a·mean(y) has mean 0 at the true a, however small E[y] is. The values at which T(a) is no
further from 0 than chance makes it are the limits. They can be all values that there are: then nothing can be told. The ratio itself,
plus and minus two standard errors, is no such interval where the error of the denominator counts: it covers far too seldom.

With V the variance of a row's part h in T(a), γ its skewness, β = E[h_i·h_j·k_ij]/V^1.5 for the second-order part k of T, and
τ = T(a)/√V, what is compared with a normal law of variance 1/n is Hall's transformation (1992), with Helmers' expansion of studentised
U-statistics (1991) put into it: τ + bτ² + b²τ³/3 + c/n, b = (2γ + 3β)/6, c = (γ + 3β)/6. It grows with τ, and its law is normal up to
terms of order 1/n, while that of τ is so up to 1/√n.

V is itself an estimate, with a variance of (μ₄ − V²)/n for the fourth moment μ₄ of h: as good as 2n·V²/(μ₄ − V²) degrees of freedom
(Satterthwaite), so ±z is Student's quantile for these.

V is that of the rows at hand, but never below what the mechanism's noise alone is known to add. Where few rows are positive, it is known
badly: a number from 0 to 1 with mean a has a variance of at most a(1 − a), and a few rows of that variance are put beside the positives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Z = NormalDist().inv_cdf(0.975)
PSEUDO = 4.0  # rows of the largest possible variance that stand beside the rows of a class: about z², Poisson's limit where none was seen
_GRID = 512
_BETWEEN, _ROUNDS = 33, 5  # a limit is found to 1/512/32⁵


@dataclass(frozen=True)
class CentralMoments:
    """Central moments of x − a·y, second and third, as polynomials in a."""

    xx: float
    xy: float
    yy: float
    xxx: float
    xxy: float
    xyy: float
    yyy: float

    @classmethod
    def of(cls, x: Floats, y: Floats, second: float = 1.0, third: float = 1.0) -> CentralMoments:
        """Mean products, the second ones and the third ones times a factor each."""
        xx, yy = x * x, y * y
        n = len(x)
        return cls(
            *(float(one) * second / n for one in (x @ x, x @ y, y @ y)),
            *(float(one) * third / n for one in (xx @ x, xx @ y, yy @ x, yy @ y)),
        )

    def second(self, a: Floats) -> Floats:
        """The variance."""
        return np.asarray(np.maximum(self.xx - 2 * a * self.xy + a * a * self.yy, 0.0))

    def third(self, a: Floats) -> Floats:
        """The third moment."""
        return np.asarray(self.xxx - 3 * a * self.xxy + 3 * a * a * self.xyy - a**3 * self.yyy)

    def and_a_share(self, weight: float) -> CentralMoments:
        """With `weight`·a(1 − a) added to the variance."""
        return replace(self, xy=self.xy - weight / 2, yy=self.yy - weight)


NOTHING = CentralMoments(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Ratio:
    """T(a) = top − a·bottom, and what is known of a row's part in it, x − a·y."""

    top: float
    bottom: float
    rows: int
    shown: CentralMoments  # by the rows at hand
    noise: CentralMoments  # by the mechanism alone
    bend: tuple[float, float, float] = (0.0, 0.0, 0.0)  # E[h_i·h_j·k_ij], a polynomial in a
    fourth: float = 0.0  # variance of the squares of a row's part, at the value
    spare: tuple[float, float, float] = (0.0, 0.0, 0.0)  # times a(1 − a), a², a³: a variance that neither of them shows

    @property
    def value(self) -> float | None:
        """The ratio itself; none where the denominator is not positive."""
        return self.top / self.bottom if self.bottom > 0 else None

    def variance(self, a: npt.ArrayLike) -> Floats:
        """Of a row's part in T(a)."""
        a = np.asarray(a, dtype=np.float64)
        spare = self.spare[0] * np.maximum(a * (1 - a), 0.0) + a * a * (self.spare[1] + a * self.spare[2])
        return np.asarray(np.maximum(np.maximum(self.shown.second(a), self.noise.second(a)) + spare, 0.0))

    def distance(self, a: npt.ArrayLike) -> Floats:
        """How many standard errors T(a) is from 0, signed, by the transformation."""
        a = np.asarray(a, dtype=np.float64)
        t, v = self.top - a * self.bottom, self.variance(a)
        third = np.where(self.shown.second(a) >= self.noise.second(a), self.shown.third(a), self.noise.third(a))
        bend = self.bend[0] + a * self.bend[1] + a * a * self.bend[2]
        with np.errstate(divide="ignore", invalid="ignore"):
            tau, scale = t / np.sqrt(v), 6 * v**1.5
            b, c = (2 * third + 3 * bend) / scale, (third + 3 * bend) / scale
            turned = tau + b * tau**2 + b**2 * tau**3 / 3 + c / self.rows
        # No variance at all: every row says the same.
        return np.where(v > 0, turned, np.where(t == 0, 0.0, np.copysign(np.inf, t))) * math.sqrt(self.rows)

    @property
    def quantile(self) -> float:
        """Student's, for as many degrees of freedom as the variance has."""
        if self.fourth == 0:
            return Z
        variance = float(self.variance(min(1.0, max(0.0, self.value or 0.0))))
        return student(2 * self.rows * variance**2 / self.fourth)

    def limits(self, low: float = 0.0, high: float = 1.0) -> tuple[float, float]:
        """The smallest and the largest value in this range that are not ruled out.

        A ratio beyond the range rules all of it out, or nearly: then the limits are those of the nearest ratio that is possible. They are
        wider, and an interval is never empty.
        """
        tested, z, grid = self, self.quantile, np.linspace(low, high, _GRID + 1)
        if self.value is not None:
            possible = min(high, max(low, self.value))
            if possible != self.value:
                tested = replace(self, top=possible * self.bottom)
            grid = np.union1d(grid, possible)
        held = np.flatnonzero(np.abs(tested.distance(grid)) <= z)
        if len(held) == 0:  # the denominator is not positive, and no value explains the numerator
            return low, high
        first, last = int(held[0]), int(held[-1])
        return (
            low if first == 0 else tested._turn(float(grid[first - 1]), float(grid[first]), z),
            high if last == len(grid) - 1 else tested._turn(float(grid[last + 1]), float(grid[last]), z),
        )

    def _turn(self, outside: float, inside: float, z: float) -> float:
        """The limit between a value that is ruled out and one that is not, rounded outwards."""
        for _ in range(_ROUNDS):
            between = np.linspace(outside, inside, _BETWEEN)
            first = int(np.argmax(np.abs(self.distance(between)) <= z))
            outside, inside = float(between[max(first - 1, 0)]), float(between[first])
        return outside

    def standard_error(self, a: float) -> float | None:
        """Of the ratio, linearised: √(V(a)/n)/bottom."""
        return math.sqrt(float(self.variance(a)) / self.rows) / self.bottom if self.bottom > 0 else None


def student(freedom: float) -> float:
    """The 97.5% quantile of Student's law, by its expansion about the normal one; three degrees of freedom at least."""
    v = max(freedom, 3.0)
    return Z + (Z**3 + Z) / (4 * v) + (5 * Z**5 + 16 * Z**3 + 3 * Z) / (96 * v**2)


def fourth(x: Floats, y: Floats, a: float | None) -> float:
    """The variance of the squares of x − a·y."""
    squares = (x - min(1.0, max(0.0, a or 0.0)) * y) ** 2
    return float(squares.var())


def mean_ratio(values: Floats, noise: CentralMoments = NOTHING, spare: float = 0.0) -> Ratio:
    """A plain mean: the ratio whose denominator is 1. Here `spare` is a variance as it is."""
    n, mean = len(values), float(values.mean())
    centred, zeros = values - mean, np.zeros(len(values))
    shown = CentralMoments.of(centred, zeros, second=n / (n - 1))
    if noise.xx > shown.xx:
        shown = noise
    return Ratio(mean, 1.0, n, replace(shown, xx=shown.xx + spare), NOTHING, fourth=float((centred**2).var()))


def mean_limits(ratio: Ratio) -> tuple[float, float]:
    """Those of a plain mean, in closed form: (1 + bτ)³ = 1 + 3b(x − c/n) at x = ±z/√n."""
    n, variance, z = ratio.rows, float(ratio.variance(0.0)), ratio.quantile
    if variance == 0:
        return ratio.top, ratio.top
    third = ratio.shown.xxx
    b, c = third / (3 * variance**1.5), third / (6 * variance**1.5)
    low, high = (
        ratio.top - math.sqrt(variance) * (x if abs(b) < 1e-8 else (float(np.cbrt(1 + 3 * b * x)) - 1) / b)
        for x in (z / math.sqrt(n) - c / n, -z / math.sqrt(n) - c / n)
    )
    return low, high

"""A Gaussian rounded to whole numbers, drawn by inverting Φ on a fresh word of 320 bits. No table: few numbers are drawn, of any σ.

A word w is a sign and a tail probability u = (b + ½)/2^320, 0 < u < ½, and the draw is the k with Q((k + ½)/σ) < u ≤ Q((k − ½)/σ), that is
Q⁻¹(u)·σ to the nearest whole number. A float says which k that is, wherever σ·Q⁻¹(u) is further from the middle between two whole
numbers than a float can err; otherwise, and only there, 60 digits say it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt

from labeldp.accounting.gaussian import density, upper_tail
from labeldp.accounting.normal import upper_quantile
from labeldp.accounting.rounding import CONTEXT, float_up
from labeldp.entropy import Entropy
from labeldp.errors import InputError

WORD_BITS = 320
_REACH = 17  # standard deviations, up to which a cell's words are counted for η
# `upper_quantile` is good to 1e-10 on all of z < 21: log Q is good to 1e-13 of at most 222, and dz = d(log Q)/hazard, hazard ≥ 0.79.
_FLOAT_ERROR = 1e-9
_TAIL_ERROR = Decimal("1e-40")  # relative, of `upper_tail`, which is good to 50 digits
MIN_SIGMA, MAX_SIGMA = 0.5, 1e10


@dataclass(frozen=True)
class ExactNormal:
    """round(N(0, σ²)), at all whole numbers: nothing is clamped."""

    sigma: float

    def __post_init__(self) -> None:
        if not MIN_SIGMA <= self.sigma <= MAX_SIGMA:
            raise InputError(f"sigma must be from {MIN_SIGMA:g} to {MAX_SIGMA:g} grid steps; got {self.sigma}.")

    def sample(self, count: int, entropy: Entropy) -> npt.NDArray[np.int64]:
        """`count` independent draws."""
        size = WORD_BITS // 8
        given = entropy.bytes(size * count)
        words = [int.from_bytes(given[i * size : (i + 1) * size], "little") for i in range(count)]
        return self.of_words(words)

    def of_words(self, words: list[int]) -> npt.NDArray[np.int64]:
        """The draws that words of 320 bits stand for; the top bit is the sign."""
        top = 1 << (WORD_BITS - 1)
        tails = [2 * (word & (top - 1)) + 1 for word in words]  # u·2^321
        logs = np.array([math.log(tail) for tail in tails]) - (WORD_BITS + 1) * math.log(2)
        # Rounding may lift the last of them above log ½; that close to 0, the draw is 0 or decided below.
        z = upper_quantile(np.minimum(logs, -math.log(2)))
        place = z * self.sigma
        drawn = np.rint(place).astype(np.int64)
        doubt = _FLOAT_ERROR * self.sigma + 1e-9
        near = np.abs(np.abs(place - drawn) - 0.5) <= doubt
        for one in np.flatnonzero(near):
            drawn[one] = self._decided(tails[one], int(drawn[one]))
        negative = np.array([word >= top for word in words])
        return np.where(negative, -drawn, drawn)

    def _decided(self, tail: int, k: int) -> int:
        """The largest k with Q((k − ½)/σ) ≥ u, from a first guess."""
        with localcontext(CONTEXT):
            u = Decimal(tail) / Decimal(1 << (WORD_BITS + 1))

            def reached(point: int) -> bool:
                return point <= 0 or upper_tail((Decimal(point) - Decimal("0.5")) / Decimal(self.sigma)) >= u

            while reached(k + 1):
                k += 1
            while not reached(k):
                k -= 1
        return k

    def relative_error(self) -> Decimal:
        """η: how far the share of words that give k may be from the Gaussian's mass on [k − ½, k + ½], relatively, where |k| ≤ 17σ.

        Each end of the interval of words is off by one word and by the error of a tail: 2^−320 + 1e-40·Q(z). The mass is at least φ(z)/σ
        at the outer end z, and Q(z)/φ(z) is largest at 0, where it is 1.26. For σ ≥ ½, z is at most a whole σ-th, 2, beyond 17.
        """
        with localcontext(CONTEXT):
            sigma, outermost = Decimal(self.sigma), density(Decimal(_REACH) + 1 / Decimal(self.sigma))
            word = Decimal(2) ** -WORD_BITS
            return 2 * (2 * word * sigma / outermost + 2 * _TAIL_ERROR * sigma * Decimal("1.26"))

    def mass_beyond(self, shift: int) -> Decimal:
        """τ: the probability that a draw, moved by at most `shift`, may be further out than 17σ."""
        with localcontext(CONTEXT):
            edge = Decimal(_REACH) - (Decimal(shift) + 2) / Decimal(self.sigma)
            return 2 * upper_tail(edge) * (1 + Decimal("1e-20")) + Decimal(2) ** -WORD_BITS * 4

    @property
    def variance(self) -> float:
        """σ², and what rounding adds."""
        return self.sigma**2 + 1 / 12


def slack(normal: ExactNormal, shift: int, moved: int) -> tuple[float, float]:
    """Σ log((1+η)/(1−η)) and Στ over so many coordinates, each moved by at most `shift`; for a `Cost`."""
    with localcontext(CONTEXT):
        eta = normal.relative_error()
        ratio = float_up(moved * ((1 + eta) / (1 - eta)).ln() * (1 + Decimal("1e-40")) + Decimal("1e-55"))
        return ratio, float_up(moved * normal.mass_beyond(shift))

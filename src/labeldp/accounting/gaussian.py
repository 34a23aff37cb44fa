"""The Gaussian mechanism's exact privacy curve (Balle & Wang 2018; Gaussian DP, Dong et al. 2019), in 60 digits.

With a = ε/μ − μ/2 and b = ε/μ + μ/2,

    δ(ε) = Φ(−a) − e^ε Φ(−b) = φ(a)·(R(a) − R(b)),      R(z) = Φ(−z)/φ(z)  (Mills' ratio)

because φ(a) = e^ε φ(b). The right-hand form neither overflows nor cancels catastrophically.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import lru_cache

from labeldp.accounting.rounding import CONTEXT, float_up
from labeldp.errors import AccountingError

# The formulas below are good to 50 digits or more; this much is added wherever a bound is stated.
_DOUBT = Decimal("1e-40")
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")


def density(z: Decimal) -> Decimal:
    """The standard normal density φ(z)."""
    with localcontext(CONTEXT):
        return (-z * z / 2).exp() / (2 * _PI).sqrt()


def mills(z: Decimal) -> Decimal:
    """Φ(−z)/φ(z), to 55 digits or better for any z above −40."""
    with localcontext(CONTEXT) as context:
        if z >= 4:
            # Laplace's continued fraction 1/(z + 1/(z + 2/(z + 3/(z + …)))), from the far end.
            fraction = z
            for n in range(500, 0, -1):
                fraction = z + n / fraction
            return 1 / fraction
        # Φ(z) = 1/2 + φ(z)·(z + z³/3 + z⁵/(3·5) + …); the guard digits pay for 1 − Φ and for 1/φ at z < 0.
        context.prec += 20
        x = abs(z)
        term = total = x
        n = 1
        while term > total.scaleb(-context.prec):
            n += 2
            term = term * x * x / n
            total += term
        half = (z * z / 2).exp() * (2 * _PI).sqrt() / 2  # (1/2)/φ(z)
        return half - total if z >= 0 else half + total


def upper_tail(z: Decimal) -> Decimal:
    """P[N(0,1) > z]."""
    with localcontext(CONTEXT):
        return 1 - upper_tail(-z) if z < 0 else density(z) * mills(z)


def _delta(mu: Decimal, epsilon: Decimal) -> Decimal:
    with localcontext(CONTEXT):
        a = epsilon / mu - mu / 2
        b = epsilon / mu + mu / 2
        if a < -30:  # δ is 1 to more digits than a float has
            return Decimal(1)
        return density(a) * (mills(a) - mills(b))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The smallest δ for which a μ-Gaussian-DP mechanism is (ε, δ)-DP, rounded up."""
    with localcontext(CONTEXT):
        return min(1.0, float_up(_delta(Decimal(mu), Decimal(epsilon)) * (1 + _DOUBT)))


@lru_cache(maxsize=4096)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest float ε for which a μ-Gaussian-DP mechanism is (ε, δ)-DP."""
    if not 0 < delta < 1:
        raise AccountingError(f"a Gaussian cost has an ε only at a δ between 0 and 1; got {delta}.")
    if mu == 0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    # δ ≤ Φ(−a) ≤ exp(−a²/2) for a ≥ 0 gives the classical upper end.
    high = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1e-300
    return _smallest(lambda epsilon: gaussian_delta(mu, epsilon) <= delta, 0.0, high)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest float μ whose curve passes at or below (ε, δ): the inverse of `gaussian_epsilon`."""
    if not epsilon > 0 or not 0 < delta < 1:
        raise AccountingError(f"a Gaussian cap needs ε > 0 and 0 < δ < 1; got ε = {epsilon}, δ = {delta}.")
    high = 1.0
    while gaussian_delta(high, epsilon) <= delta:
        high *= 2
    too_large = _smallest(lambda mu: gaussian_delta(mu, epsilon) > delta, 0.0, high)
    return math.nextafter(too_large, 0.0)


def _smallest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest float in (low, high] at which a monotone condition holds; it must hold at `high`."""
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return high
        if holds(middle):
            high = middle
        else:
            low = middle

"""What the best of several runs costs: private selection (Liu & Talwar 2019; Papernot & Steinke 2022), exactly, for a pure base.

K is drawn from a public law, an ε-DP base Q runs K times with fresh randomness, and only the best output leaves. f(z) = Σ p_k z^k is K's
generating function. For an output y let z go from Q(worse than y) to Q(y or worse), z = Q(worse) + t·Q(y) with t from 0 to 1. Then

    P[best = y] = Q(y)·∫ f′(z) dt.

z is the chance of "worse than y, or y and a coin of chance t", an event like any other: for a neighbour, z′ ≥ max(e^−ε z, 1 − e^ε(1−z)),
and f′ increases. So log(P/P′) ≤ ε + sup log f′(z)/f′(z′), z′ at that bound; a y of small chance comes as near as one likes. For the
truncated negative binomial law, p_{k+1}/p_k = (1−γ)(k+η)/(k+1), f′(z) is proportional to (1 − (1−γ)z)^−(1+η). Then the ratio grows with z
while e^−ε z is the larger bound, falls from there on, and at z = e^ε/(e^ε+1), z′ = 1/(e^ε+1),

    cost = ε + (1+η)·log((e^ε + γ)/(1 + γe^ε))  <  (2+η)·ε.

Only integers are drawn, so the cost is read from them. f′(z)/f′(z′) is the mean of (z/z′)^(k−1) under the weights k·p_k·z′^(k−1), and it
falls if weights are lowered the more the larger k is (Chebyshev). Hence *any* weights that fall at least as fast as those of (η, γ) cost no
more, however they were rounded and wherever they were cut. `halting` finds the largest such γ. Proofs: docs/proofs/selected.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

from labeldp.accounting.cost import Cost, check_epsilon
from labeldp.accounting.rounding import CONTEXT, float_up
from labeldp.errors import AccountingError

# The formula is good to 55 digits; this much is added, relatively and absolutely, before it is rounded up.
_DOUBT = Decimal("1e-40")


def halting(weights: Sequence[int], shape: float) -> Fraction:
    """The largest γ such that the weights of K = 1, 2, … fall at least as fast as (1−γ)(k+η)/(k+1) at every k. Exact.

    1 if there is only one run; an error if no γ ≥ 0 does, because f′ is then not bounded by this shape's.
    """
    if not weights or min(weights) < 1:
        raise AccountingError("the numbers of runs from 1 to the largest need positive weights, every one.")
    n, d = shape.as_integer_ratio()
    top, bottom = 0, 1  # the largest (k+1)·w_{k+1} / ((k+η)·w_k) so far
    for k in range(1, len(weights)):
        a, b = (k + 1) * d * weights[k], (k * d + n) * weights[k - 1]
        if a * bottom > top * b:
            top, bottom = a, b
    if top > bottom:
        raise AccountingError(f"these weights fall more slowly than any law of shape {shape:g}; a larger shape may do.")
    return 1 - Fraction(top, bottom)


def selection_cost(base: Cost, gamma: Fraction, shape: float) -> Cost:
    """The cost of the best of K runs of `base`, rounded up: ε + (1+η)·log((e^ε + γ)/(1 + γe^ε))."""
    if base.gaussian or base.slack_ratio or base.slack_mass:
        raise AccountingError(
            "the best of several runs has a proven cost only where every run is pure ε, and this one has a Gaussian part. "
            "Select among releases with Laplace noise, randomized response or subsets, or add up the cost of every run."
        )
    if base.pure == 0.0:
        return base
    with localcontext(CONTEXT):
        epsilon = Decimal(base.pure)
        e, halts = epsilon.exp(), Decimal(gamma.numerator) / Decimal(gamma.denominator)
        total = epsilon + (1 + Decimal(shape)) * ((e + halts) / (1 + halts * e)).ln()
        return Cost(pure=float_up(total * (1 + _DOUBT) + _DOUBT))


def selection_base(total: float, gamma: Fraction, shape: float) -> float:
    """The largest float ε of a base whose `selection_cost` is at most `total`."""
    low, high = 0.0, check_epsilon(total, "total")
    if selection_cost(Cost(pure=high), gamma, shape).pure <= total:
        return high
    while low < (middle := (low + high) / 2) < high:
        if selection_cost(Cost(pure=middle), gamma, shape).pure <= total:
            low = middle
        else:
            high = middle
    return low

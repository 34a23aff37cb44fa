"""A data-dependent ε that may be published: the cost of the votes plus noise in proportion to its smooth sensitivity (GNSS).

The release is M(x) = f(x) + S(x)·σ·(Z + k), Z ~ N(0, 1): f the Rényi cost at order λ, S its β-smooth sensitivity, k a margin in
standard deviations, so that M(x) < f(x) happens with probability Φ(−k) only. What does the release itself cost at order λ? Neighbours
x, x′ have |f − f′| ≤ min(S, S′) and e^(−β) ≤ S′/S ≤ e^β, so the means differ by at most c·min(S, S′), c = 1 + k·σ·(e^β − 1). For two
Gaussians with variances in the ratio r = S′²/S² (Gil et al. 2013), if 1 − λ + λr > 0,

    D_λ(M(x) ‖ M(x′)) ≤ λ·c²·min(1, r)/(2σ²·(1 − λ + λr)) + (λ·log r − log(1 − λ + λr))/(2(λ−1)).

The first term falls with r. The second has the derivative λ(r−1)/(2r(1−λ+λr)): it is least at r = 1. And it is larger at r = e^(−t) than
at e^t, since the difference grows with t, like (e^t−1)·[1/((1−λ)e^t+λ) − 1/(1−λ+λe^t)] ≥ 0. So r = e^(−2β) is the worst:

    cost = λ·c²·r/(2σ²·D) − (βλ + ½·log D)/(λ−1),      D = 1 − λ(1 − r),   r = e^(−2β),   1 < λ < 1/(2β),

and for k = 0 two Gaussians attain it. (pate_2018, after the paper's Theorem 23, has λ·e^(2β)/σ² + (βλ − ½·log(1−2βλ))/(λ−1) on the same
range. That is more than needed while βλ is at most 1/4, and *less than the truth* towards 1/2: at λ = 20, β = 0.02, σ = 7 it says 0.488,
and two Gaussians that meet all assumptions have 0.928.)

Floats leak through their low bits, so the released number is an integer: M(x)/SPACING rounded up, between 0 and the public cost
without looking. Rounding and clamping are post-processing. The integer is drawn by inverting its distribution function, in 60 digits,
at a uniform number of 192 bits: its law is within 2^−128 in total variation of the exact one, and the stated δ includes that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost, check_delta
from labeldp.accounting.gaussian import upper_tail
from labeldp.accounting.rounding import CONTEXT, add_up, up
from labeldp.accounting.smooth import AnswerCurve, check_smoothing, smooth_cost, smooth_sensitivity
from labeldp.accounting.votes import answer_log_q, check_ballot
from labeldp.entropy import Entropy, SecureEntropy
from labeldp.errors import AccountingError, InputError

SPACING = 2.0**-10
_BITS = 192
_DISTANCE = 2.0**-128  # in total variation; needs fewer than 2^30 cells, 2^30·(2^-192 + 1e-50) is far below
# f and S are floats: off by less than this share of the public cost, and of themselves.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class SanitisedEpsilon:
    """(ε, δ) for the answers *and* for this very number; every field may be published.

    `cost` is the noisy Rényi cost of the votes at `order`, `release` what releasing it cost. With probability Φ(−margin) the noise
    took `cost` below the truth.
    """

    epsilon: float
    delta: float
    order: float
    cost: float
    release: float
    margin: float
    secure: bool


@dataclass(frozen=True)
class Sanitising:
    """How a data-dependent ε is made fit to be published; chosen without the votes, so public."""

    order: float
    beta: float
    sigma_ss: float
    margin: float = 2.0

    def __post_init__(self) -> None:
        gnss_cost(self.order, self.beta, self.sigma_ss, self.margin)  # refuses what cannot be

    def check(self, teachers: int, classes: int, sigma1: float, sigma2: float, *, asked: int, answered: int) -> None:
        """Refuse, before anything is charged, where a sensitivity would not be known, or the cost be beyond sanitising."""
        unanimous = np.array([[teachers] + [0] * (classes - 1)])
        curve = AnswerCurve(sigma2, classes, self.order)
        lowest = float(answer_log_q(unanimous, sigma2)[0])
        if lowest < curve.log_q0:
            curve.check_conditions(lowest)
        blind = asked * self.order / (2 * sigma1**2) + answered * self.order / sigma2**2
        if math.ceil(blind / SPACING) >= 1 << 30:
            raise AccountingError(
                f"a Rényi cost of {blind:g} is beyond sanitising: ask fewer queries, or add more noise."
            )

    def cost(self, delta: float) -> Cost:
        """What the number itself adds to a ledger: Rényi cost r at order λ is (r + log(1/δ′)/(λ−1), δ′), here at δ′ = δ/4096.

        An (ε, δ′) mechanism is a pure one outside an event of probability δ′ (Kairouz et al. 2015), which is what a pure ε with
        a slack of mass δ′ says.
        """
        share = delta / 4096  # well within what a Gaussian cap sets aside
        release = up(gnss_cost(self.order, self.beta + 4 * _ROUNDING, self.sigma_ss, self.margin), 16)
        epsilon = add_up(release, up((math.log(1 / share) + 2 * _ROUNDING) / (self.order - 1), 4))
        return Cost(pure=epsilon, slack_mass=add_up(share, _DISTANCE * (1 + math.exp(min(epsilon, 32.0)))))


def gnss_cost(order: float, beta: float, sigma_ss: float, margin: float = 0.0) -> float:
    """The Rényi cost at this order of releasing a value with noise σ_SS times its β-smooth sensitivity, and a margin of so many σ_SS."""
    order = check_smoothing(order, beta)
    if not (math.isfinite(sigma_ss) and sigma_ss > 0):
        raise InputError(
            f"sigma_ss, the noise in smooth sensitivities, must be a positive number; got {sigma_ss}. Usual: 5 to 20."
        )
    if not (math.isfinite(margin) and margin >= 0):
        raise InputError(f"margin, in standard deviations of the noise, must not be negative; got {margin}. Usual: 2.")
    c = 1 + margin * sigma_ss * math.expm1(beta)
    d = 1 + order * math.expm1(-2 * beta)
    return order * c * c * math.exp(-2 * beta) / (2 * sigma_ss**2 * d) - (beta * order + math.log(d) / 2) / (order - 1)


def sanitised_epsilon(
    votes: npt.ArrayLike,
    answered: npt.ArrayLike,
    *,
    threshold: float,
    sigma1: float,
    sigma2: float,
    delta: float,
    order: float,
    beta: float,
    sigma_ss: float,
    margin: float = 2.0,
    entropy: Entropy | None = None,
) -> SanitisedEpsilon:
    """A data-dependent ε with its own cost paid: noisy cost + release + log(1/δ)/(λ−1). It may be published, once.

    `order`, `beta`, `sigma_ss` and `margin` must be chosen without these votes. How many queries were asked and answered is public. A
    second draw costs again. (Proposals: β = 0.2/order, σ_SS = 5 to 10.)
    """
    entropy = SecureEntropy() if entropy is None else entropy
    counts, mask = check_ballot(votes, answered)
    delta = check_delta(delta)
    release = up(gnss_cost(order, beta + 4 * _ROUNDING, sigma_ss, margin), 16)
    exact = smooth_cost(counts, mask, threshold=threshold, sigma1=sigma1, sigma2=sigma2, order=order)
    smooth = smooth_sensitivity(counts, mask, threshold=threshold, sigma1=sigma1, sigma2=sigma2, order=order, beta=beta)
    blind = len(counts) * order / (2 * sigma1**2) + int(mask.sum()) * order / sigma2**2
    # A constant added to a smooth bound leaves it one; this one covers the rounding of f.
    deviation = (smooth * (1 + _ROUNDING) + _ROUNDING * blind) * sigma_ss
    cells = math.ceil(blind / SPACING)
    if cells >= 1 << 30:
        raise AccountingError(f"a Rényi cost of {blind:g} is beyond sanitising: ask fewer queries, or add more noise.")
    cell = _draw(exact + margin * deviation, deviation, cells, entropy) if blind else 0
    cost = cell * SPACING
    # P̃ ≤ P + τ ≤ e^ε Q + δ′ + τ ≤ e^ε Q̃ + δ′ + (1 + e^ε)τ, with δ′ a billionth below δ: room for any ε up to 32 and more.
    epsilon = add_up(add_up(cost, release), up((math.log(1 / delta) + 2 * _ROUNDING) / (order - 1), 4))
    slack = _DISTANCE * (1 + math.exp(min(epsilon, 700.0)))
    stated = delta if slack <= _ROUNDING * delta else min(1.0, add_up(delta, slack))
    return SanitisedEpsilon(epsilon, stated, float(order), cost, release, float(margin), entropy.secure)


def _draw(mean: float, deviation: float, cells: int, entropy: Entropy) -> int:
    """The smallest j < `cells` with M ≤ j·SPACING, else `cells`, for M ~ N(mean, deviation²): P[M ≤ j·SPACING] is inverted by bisection."""
    with localcontext(CONTEXT):
        uniform = (Decimal(int.from_bytes(entropy.bytes(_BITS // 8), "little")) + Decimal("0.5")) / 2**_BITS
        low, high = (
            -1,
            cells,
        )  # P[M ≤ low] is below the uniform number, or low is −1; at `high` it is not, or high is the end
        while high - low > 1:
            middle = (low + high) // 2
            z = (Decimal(middle) * Decimal(SPACING) - Decimal(mean)) / Decimal(deviation)
            low, high = (low, middle) if upper_tail(-z) >= uniform else (middle, high)
        return high

"""A one-run bound for Gaussian mechanisms (Mahloujifar, Melis, Chaudhuri 2024, "Auditing f-differential privacy in one run").

Let u_w be the probability that w of n guesses are right, with n fixed beforehand, m canaries and K candidates each. If the mechanism is
μ-Gaussian-DP, then

    R_j = Σ_{w ≥ j} (w/m)·u_w        (a canary is guessed right, and j or more are)
    H_j = Σ_{w ≥ j} ((n−w)/m)·u_w    (it is guessed wrong, and j or more are right)
    H_{j−1}/(K−1) ≥ Φ(Φ⁻¹(R_j) − μ),

for a right guess among j becomes one particular wrong guess beside j−1 right ones when that canary's label is replaced. If v or more are
right with probability α, then R_v + H_v = αn/m; going down from v with as little as each step allows (docs/proofs/audit.md) gives the least
R₀ + H₀. It is n/m, so μ is rejected where the least is more.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

from labeldp.accounting.gaussian import gaussian_epsilon
from labeldp.audit.binomial import MARGIN, check_alpha, check_counts, largest
from labeldp.errors import InputError

_quantile = NormalDist().inv_cdf


class GaussianBound(NamedTuple):
    """The largest μ that is rejected, and the ε that a *Gaussian* mechanism of that μ has at δ."""

    mu: float
    epsilon: float


def gaussian_one_run(
    correct: int, guesses: int, *, canaries: int, candidates: int = 2, delta: float, alpha: float = 0.05
) -> GaussianBound:
    """The largest μ for which "μ-Gaussian-DP" is rejected at level α, with its ε at δ. The number of guesses is fixed beforehand.

    **Assumption: the mechanism's trade-off curve is a Gaussian's.** The step from μ to ε is false for any other: 953 of 1,000 right, what
    randomized response of ε = 3 gives, would "prove" ε = 5.20 at δ = 1e-5. Only for releases whose whole cost is Gaussian noise.
    """
    v, n, m = check_counts(correct=correct, guesses=guesses, canaries=canaries)
    (k,) = check_counts(candidates=candidates)
    check_alpha(alpha)
    if k < 2:
        raise InputError(f"a canary is drawn from at least 2 candidate labels; got candidates = {k}.")
    if not 0 < delta < 1:
        raise InputError(
            f"a Gaussian mechanism has an ε only at a δ between 0 and 1; got {delta}. Use the certificate's, say 1e-5."
        )
    if v == 0 or not _rejected(0.0, v, n, m, k, alpha):
        return GaussianBound(0.0, 0.0)
    high = 1.0
    while _rejected(high, v, n, m, k, alpha):
        high *= 2
    mu = largest(lambda mu: _rejected(mu, v, n, m, k, alpha), 0.0, high)
    return GaussianBound(mu, gaussian_epsilon(mu, delta))


def _rejected(mu: float, v: int, n: int, m: int, k: int, alpha: float) -> bool:
    right, wrong, whole = alpha * v / m, alpha * (n - v) / m, n / m * (1 + MARGIN)
    for w in range(v - 1, -1, -1):
        needed = (k - 1) * 0.5 * math.erfc((mu - _quantile(right)) / math.sqrt(2))
        if needed <= wrong:  # and so at every w below
            return False
        right += w / (n - w) * (needed - wrong)
        wrong = needed
        if right + wrong > whole:
            return True
    return False

"""From counts of right guesses to a lower bound on ε: one training with many canaries, or many trainings of one pair.

*One run* (Steinke, Nasr, Jagielski 2023, "Privacy auditing with one (1) training run"). Each of m canaries has one of K labels planted by a
fair draw. Under (ε, δ)-label-DP, of r guesses fixed beforehand v or more are right with probability at most

    P[N ≥ v] + mδ·τ,      N ~ Bin(r, q),   q = e^ε/(e^ε + K − 1),

with τ = 2·max_i P[v−i ≤ N < v]/i in that paper (`one_run`), and, exactly, τ = P[N ≥ v]·P[N < v]/(v·P[N = v]) (`one_run_exact`: some
(ε, δ)-DP mechanism attains it). docs/proofs/audit.md has the proof for any K. The bound is the largest ε at which this is at most α. No
independence is assumed: nothing but the fair draw.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from labeldp.accounting.gaussian import gaussian_epsilon
from labeldp.errors import InputError

# ----------------------------------------------------------------
# Binomial tails in logarithms, with numpy alone, and the exact limits of Clopper and Pearson (1934).
#
# Chances are written as log-odds θ = log(q/(1−q)), which lose nothing next to 0 or 1. Tails are good to 5e-10 (relative) for up to a
# million trials; wherever one is compared with a level it is taken 1e-9 larger, so that no limit is too bold because of rounding.

MARGIN = 1e-9
_STEP = 1e-11  # limits are searched to this, in log-odds


class Tail:
    """P[N ≥ v] and its neighbours for N ~ Bin(r, q): v successes or more in r trials, with 1 ≤ v ≤ r."""

    def __init__(self, successes: int, trials: int) -> None:
        self.v, self.r = successes, trials
        few = np.arange(1, min(successes, trials - successes) + 1)
        self._log_choose = math.fsum(np.log((trials - few + 1) / few))

    @cached_property
    def _above(self) -> npt.NDArray[np.float64]:
        """log of C(r, v+j)/C(r, v) for j = 0 … r−v."""
        w = np.arange(self.v, self.r)
        return np.concatenate([[0.0], np.cumsum(np.log((self.r - w) / (w + 1)))])

    @cached_property
    def _below(self) -> npt.NDArray[np.float64]:
        """log of C(r, v−i)/C(r, v) for i = 1 … v."""
        w = np.arange(self.v, 0, -1)
        return np.cumsum(np.log(w / (self.r - w + 1)))

    def log_mass(self, odds: float) -> float:
        """log P[N = v]."""
        return self._log_choose - self.v * _softplus(-odds) - (self.r - self.v) * _softplus(odds)

    def log_tail(self, odds: float) -> float:
        """log P[N ≥ v]."""
        terms = self._above + odds * np.arange(self.r - self.v + 1)
        top = float(terms.max())
        return min(0.0, self.log_mass(odds) + top + math.log(float(np.exp(terms - top).sum())))

    def best_rate_below(self, odds: float) -> float:
        """max over i of P[v−i ≤ N < v]/i."""
        i = np.arange(1, self.v + 1)
        masses = np.exp(np.minimum(0.0, self.log_mass(odds) + self._below - odds * i))
        return float((np.cumsum(masses) / i).max())


def largest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest number, to 1e-11, at which a condition holds that holds at `low` and fails at `high`."""
    while high - low > _STEP:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def highest_odds(trials: int, alpha: float) -> float:
    """Log-odds at which even `trials` successes of `trials` are likelier than α: (1 − e^−θ)^r ≥ 1 − r·e^−θ > α."""
    return math.log(trials / (1 - alpha)) + 1


@lru_cache(maxsize=65536)
def lower_odds(successes: int, trials: int, alpha: float) -> float:
    """The largest log-odds θ at which `successes` or more have a chance of at most α; −∞ for none."""
    if successes == 0:
        return -math.inf
    tail, level = Tail(successes, trials), math.log(alpha) - MARGIN
    low = math.log(alpha / trials) - 1  # there P[N ≥ 1] ≤ r·q < α/e
    return largest(lambda odds: tail.log_tail(odds) <= level, low, highest_odds(trials, alpha))


def clopper_pearson_low(successes: int, trials: int, alpha: float = 0.05) -> float:
    """A one-sided lower limit on a chance: it exceeds the truth with probability at most α, whatever the truth is."""
    successes, trials = check_counts(successes=successes, trials=trials)
    return _chance(lower_odds(successes, trials, check_alpha(alpha)))


def clopper_pearson_high(successes: int, trials: int, alpha: float = 0.05) -> float:
    """A one-sided upper limit on a chance: it falls below the truth with probability at most α, whatever the truth is."""
    successes, trials = check_counts(successes=successes, trials=trials)
    return _chance(-lower_odds(trials - successes, trials, check_alpha(alpha)))


def check_counts(**counts: int) -> list[int]:
    """Whole numbers, none negative, none larger than the next."""
    whole: list[int] = []
    for name, count in counts.items():
        try:
            whole.append(operator.index(count))
        except TypeError:
            raise InputError(f"{name} must be a whole number, for it counts; got {count!r}.") from None
        if whole[-1] < 0:
            raise InputError(f"{name} must not be negative; got {count}.")
    names = list(counts)
    for i in range(len(names) - 1):
        if whole[i] > whole[i + 1]:
            raise InputError(f"{names[i]} ({whole[i]:,}) cannot be more than {names[i + 1]} ({whole[i + 1]:,}).")
    return whole


def check_alpha(alpha: float) -> float:
    """A chance of error, between 0 and 1."""
    if not 0 < alpha < 1:
        raise InputError(
            f"alpha is the accepted chance that the bound is wrong, between 0 and 1; got {alpha}. Usual: 0.05."
        )
    return float(alpha)


def _chance(odds: float) -> float:
    """q = 1/(1 + e^−θ)."""
    return math.exp(-_softplus(-odds))


def _softplus(x: float) -> float:
    """log(1 + e^x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def one_run(
    correct: int, guesses: int, *, canaries: int, candidates: int = 2, delta: float = 0.0, alpha: float = 0.05
) -> float:
    """The largest ε for which "(ε, δ)-label-DP" is rejected at level α, by the published formula; 0 if none is.

    Which canaries are guessed, and which not, may depend on everything the attacker sees. So may their number if δ = 0, for then
    the bound holds given the guesses. With δ > 0 the number must be fixed beforehand: guesses that were left out count as wrong.
    """
    return _one_run(*_checked(correct, guesses, canaries, candidates, delta, alpha), exact=False)


def one_run_exact(
    correct: int, guesses: int, *, canaries: int, candidates: int = 2, delta: float = 0.0, alpha: float = 0.05
) -> float:
    """`one_run` with the exact δ-term: as valid, never smaller, and much larger where mδ is not small beside α."""
    return _one_run(*_checked(correct, guesses, canaries, candidates, delta, alpha), exact=True)


def chosen_alpha(alpha: float, *, canaries: int, candidates: int, delta: float) -> float:
    """The level left for a δ = 0 bound when the *number* of guesses was chosen after the fact: α − mδ(1 − 1/K). It may be negative.

    Given what the attacker sees, each guess is right with probability q at most, except for an excess that adds up, over all canaries,
    to mδ(1−q) ≤ mδ(1 − 1/K) in expectation (docs/proofs/audit.md).
    """
    return alpha - canaries * delta * (1 - 1 / candidates)


def repeated_guess(correct: int, guesses: int, *, alpha: float = 0.05) -> float:
    """Pure ε from Game 1, played anew each time: train on D₀ or D₁ by a fair coin, guess which or abstain.

    The paper's theorem, with CGR = P[right | a guess is made]: if the training is ε-DP and D₀, D₁ are neighbours, then
    ε ≥ log(CGR/(1 − CGR)). Abstentions are dropped: the theorem is about made guesses, and given which games were answered, right
    answers are independent. That needs a fair coin and δ = 0 (for δ > 0 see `repeated_game`). CGR ≥ its Clopper–Pearson limit.
    """
    correct, guesses = check_counts(correct=correct, guesses=guesses)
    check_alpha(alpha)
    return max(0.0, lower_odds(correct, guesses, alpha)) if guesses else 0.0


def repeated_game(
    true_positives: int,
    positives: int,
    false_positives: int,
    negatives: int,
    *,
    delta: float = 0.0,
    alpha: float = 0.05,
) -> float:
    """(ε, δ) from Game 1: ε ≥ log((TPR − δ)/FPR) and ε ≥ log((TNR − δ)/FNR), the better of the two.

    `positives` games were trained on D₁, and in `true_positives` of them the guess was D₁; `negatives` were trained on D₀, and in
    `false_positives` of them the guess was D₁. (ε, δ)-DP bounds P[event | D₁] by e^ε·P[event | D₀] + δ, and the other way round, for the
    event "the guess is D₁" and for its complement. An abstention is not a guess of D₁: it stays in `positives` or `negatives`. (Dropping
    it would compare two *conditional* probabilities, whose ratio may reach e^2ε.)

    α is halved: TPR ≥ low and FPR ≤ high hold together with probability 1 − α, and they are the same two events as FNR ≤ 1 − low and
    TNR ≥ 1 − high, so both directions, and the choice between them, are covered.
    """
    true_positives, positives = check_counts(true_positives=true_positives, positives=positives)
    false_positives, negatives = check_counts(false_positives=false_positives, negatives=negatives)
    check_alpha(alpha)
    _check_delta(delta)
    if not positives or not negatives:
        raise InputError(
            "a repeated game needs trainings on both data sets: positives and negatives are both at least 1."
        )
    epsilon = 0.0
    for right, of, wrong, against in (
        (true_positives, positives, false_positives, negatives),
        (negatives - false_positives, negatives, positives - true_positives, positives),
    ):
        gain = clopper_pearson_low(right, of, alpha / 2) - delta
        if gain > 0:
            epsilon = max(epsilon, math.log(gain / clopper_pearson_high(wrong, against, alpha / 2)))
    return epsilon


@lru_cache(maxsize=65536)
def _one_run(v: int, r: int, m: int, k: int, delta: float, alpha: float, *, exact: bool) -> float:
    if v == 0:
        return 0.0
    shift = math.log(k - 1)  # ε = θ + log(K−1)
    if delta == 0:
        return max(0.0, lower_odds(v, r, alpha) + shift)
    tail = Tail(v, r)

    def rejected(epsilon: float) -> bool:
        odds = epsilon - shift
        log_f = tail.log_tail(odds)
        f = math.exp(log_f)
        if f * (1 + MARGIN) > alpha:
            return False
        # κ = f(1−f)/(v·b), f = P[N ≥ v], b = P[N = v]: what one unit of mδ can buy at most.
        term = (1 - f) * math.exp(log_f - tail.log_mass(odds)) / v
        if not exact:
            # The published term is larger than κ where f ≤ q. Beyond, where it need not be enough, κ is.
            term = max(term, 2 * tail.best_rate_below(odds))
        return (f + m * delta * term) * (1 + MARGIN) <= alpha

    return largest(rejected, 0.0, highest_odds(r, alpha) + shift) if rejected(0.0) else 0.0


def _checked(
    correct: int, guesses: int, canaries: int, candidates: int, delta: float, alpha: float
) -> tuple[int, int, int, int, float, float]:
    v, r, m = check_counts(correct=correct, guesses=guesses, canaries=canaries)
    (k,) = check_counts(candidates=candidates)
    if k < 2:
        raise InputError(f"a canary is drawn from at least 2 candidate labels; got candidates = {k}.")
    return v, r, m, k, _check_delta(delta), check_alpha(alpha)


def _check_delta(delta: float) -> float:
    if not 0 <= delta < 1:
        raise InputError(
            f"delta must be at least 0 and below 1; got {delta}. It is the certificate's δ: 0 for pure ε, else say 1e-5."
        )
    return float(delta)


# ----------------------------------------------------------------
# A one-run bound for Gaussian mechanisms (Mahloujifar, Melis, Chaudhuri 2024, "Auditing f-differential privacy in one run").
#
# Let u_w be the probability that w of n guesses are right, with n fixed beforehand, m canaries and K candidates each. If the mechanism is
# μ-Gaussian-DP, then
#
#     R_j = Σ_{w ≥ j} (w/m)·u_w        (a canary is guessed right, and j or more are)
#     H_j = Σ_{w ≥ j} ((n−w)/m)·u_w    (it is guessed wrong, and j or more are right)
#     H_{j−1}/(K−1) ≥ Φ(Φ⁻¹(R_j) − μ),
#
# for a right guess among j becomes one particular wrong guess beside j−1 right ones when that canary's label is replaced. If v or more
# are right with probability α, then R_v + H_v = αn/m; going down from v with as little as each step allows (docs/proofs/audit.md)
# gives the least R₀ + H₀. It is n/m, so μ is rejected where the least is more.

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

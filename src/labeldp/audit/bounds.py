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
from functools import lru_cache

from labeldp.audit.binomial import (
    MARGIN,
    Tail,
    check_alpha,
    check_counts,
    clopper_pearson_high,
    clopper_pearson_low,
    highest_odds,
    largest,
    lower_odds,
)
from labeldp.errors import InputError


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

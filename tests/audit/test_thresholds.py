"""Strategies on worst-case channels: how often the bound exceeds the truth, and how much of it is found."""

import math

import numpy as np
import pytest

from labeldp.audit.bounds import gaussian_one_run, one_run, one_run_exact
from labeldp.audit.counts import Bound, GaussianCounts
from labeldp.audit.thresholds import Bonferroni, Split
from labeldp.errors import InputError

EPSILON, CANARIES, TRIALS, ALPHA = 1.5, 200, 1000, 0.05
PASS = ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / TRIALS)
STRATEGIES = [Bonferroni(), Bonferroni(tuple(0.5**i for i in range(8))), Split(), Split(share=0.3, seed=3)]


def bound(strategy, sure, right, *, candidates=2, delta=0.0, alpha=ALPHA):
    """What the strategy's looks prove together."""
    return Bound("", strategy.looks(sure, right, candidates=candidates, fixed=delta > 0)).at(alpha, delta)


def everywhere(rng, q, k):
    """Every guess as good as ε allows, and a sureness that says nothing."""
    return rng.random(CANARIES), rng.random(CANARIES) < q


def a_quarter(rng, q, k):
    """A quarter revealed as well as ε allows, and the attacker knows which; the others are noise."""
    good = rng.random(CANARIES) < 0.25
    return good + rng.random(CANARIES), rng.random(CANARIES) < np.where(good, q, 1 / k)


def with_ties(rng, q, k):
    """Three degrees of sureness, one of which abstains; the surer, the better."""
    sure = rng.integers(0, 3, CANARIES)
    return sure.astype(float), rng.random(CANARIES) < np.array([1 / k, 0.6 * q, q])[sure]


def sorted_by_answer(rng, q, k):
    """Equally sure, and handed over with the right ones first: a tie that is broken by position would cheat."""
    return np.ones(CANARIES), np.sort(rng.random(CANARIES) < q)[::-1]


def all_at_once(rng, q, k):
    """Good releases are as good as ε allows for every canary, bad ones noise: canaries are anything but independent."""
    return rng.random(CANARIES) + 1, rng.random(CANARIES) < (q if rng.random() < 0.9 else 1 / k)


CASES = [(s, c) for s in STRATEGIES for c in (everywhere, a_quarter, with_ties, all_at_once)]
CASES += [(s, sorted_by_answer) for s in STRATEGIES[:2]]  # Split divides by position, which must not know the answers


@pytest.mark.parametrize(("strategy", "channel"), CASES)
def test_wrong_with_probability_alpha_at_most(strategy, channel):
    """1,000 seeded audits of a pure ε = 1.5; pass mark 5% + 3 standard errors."""
    rng, k = np.random.default_rng(11), 3
    q = 1 / (1 + (k - 1) * math.exp(-EPSILON))
    found = [bound(strategy, *channel(rng, q, k), candidates=k).epsilon for _ in range(TRIALS)]
    assert np.mean(np.array(found) > EPSILON) <= PASS


@pytest.mark.parametrize("strategy", [STRATEGIES[0], STRATEGIES[2]], ids=["four", "parity"])
def test_wrong_with_probability_alpha_at_most_with_delta(strategy):
    """The same with δ = 1e-4: each canary revealed for sure with that probability, or all of them, known to the attacker."""
    rng, delta = np.random.default_rng(12), 1e-4
    q = 1 / (1 + math.exp(-EPSILON))
    wrong = 0
    for trial in range(TRIALS):
        sure, right = with_ties(rng, q, 2) if trial % 2 else everywhere(rng, q, 2)
        revealed = rng.random(CANARIES) < delta if rng.random() < 0.5 else np.full(CANARIES, rng.random() < delta)
        found = bound(strategy, sure + 9 * revealed, right | revealed, delta=delta)
        wrong += found.epsilon > EPSILON
    assert wrong / TRIALS <= PASS


def test_looks_that_are_not_paid_for_are_wrong_too_often():
    """What the tests above would notice: the best of eight looks, each at the full α."""
    rng, q = np.random.default_rng(13), 1 / (1 + 2 * math.exp(-EPSILON))
    cheat = STRATEGIES[1]
    found = [bound(cheat, *everywhere(rng, q, 3), candidates=3, alpha=8 * ALPHA).epsilon for _ in range(TRIALS)]
    assert np.mean(np.array(found) > EPSILON) > PASS


def test_sure_guesses_are_found():
    """Power: of 1,000 canaries an eighth is revealed with ε = 4, the rest not at all. Mean share of ε over 50 audits."""
    rng, q = np.random.default_rng(14), 1 / (1 + math.exp(-4))
    share = dict.fromkeys(["all", "bonferroni", "split"], 0.0)
    for _ in range(50):
        good = np.arange(1000) % 8 == 3
        right = rng.random(1000) < np.where(good, q, 0.5)
        sure = good + rng.random(1000)
        share["all"] += one_run(int(right.sum()), 1000, canaries=1000) / 200
        share["bonferroni"] += bound(Bonferroni(), sure, right).epsilon / 200
        share["split"] += bound(Split(seed=1), sure, right).epsilon / 200
    assert share["all"] < 0.1
    assert share["bonferroni"] > 0.6
    assert share["split"] > 0.4


def test_ties_at_the_cut_abstain():
    sure, right = np.array([3.0, 2.0, 2.0, 2.0, 1.0, 0.0]), np.array([True, True, True, False, True, True])
    counts = Bonferroni((1 / 6, 1 / 3, 1 / 2, 2 / 3, 5 / 6, 1)).looks(sure, right)
    assert [found.guesses for found in counts] == [1, 1, 1, 4, 5, 5]
    assert [found.correct for found in counts] == [1, 1, 1, 3, 4, 4]
    assert {(found.canaries, found.fixed) for found in counts} == {(6, False)}


def test_with_delta_the_number_of_guesses_is_fixed():
    """Undecided canaries are then wrong guesses, and ties are broken without a look at the answers."""
    sure, right = np.array([3.0, 2.0, 2.0, 2.0, 1.0, 0.0]), np.array([True, True, True, False, True, True])
    counts = Bonferroni((1 / 3, 1 / 2, 1)).looks(sure, right, fixed=True)
    assert [(found.guesses, found.fixed) for found in counts] == [(2, True), (3, True), (6, True)]
    assert counts[-1].correct == 4


def test_what_is_recorded():
    sure, right = np.arange(1.0, 101.0), np.arange(100) >= 40
    found = bound(Bonferroni((1, 1 / 2, 1 / 4)), sure, right, candidates=10)
    assert (found.look.guesses, found.look.correct, found.look.share) == (50, 50, 0.5)
    assert found.level == pytest.approx(0.05 / 3)
    assert found.epsilon == one_run_exact(50, 50, canaries=100, candidates=10, alpha=found.level)
    found = bound(Split(), sure, right, candidates=10)
    assert (found.look.guesses, found.look.correct, found.look.canaries, found.level) == (25, 25, 50, 0.05)
    # The number of guesses was chosen, for which mδ(1 − 1/K) of the level pays.
    paid = bound(Split(), sure, right, candidates=10, delta=1e-4)
    assert paid.epsilon == one_run_exact(25, 25, canaries=50, candidates=10, alpha=0.05 - 50 * 1e-4 * (1 - 1 / 10))
    assert bound(Split(), sure, right, delta=0.01).epsilon == 0.0


def test_a_gaussian_bound_may_be_looked_at_several_times():
    sure, right = np.arange(1.0, 101.0), np.arange(100) >= 40
    looks = Bonferroni((1, 1 / 2)).looks(sure, right, fixed=True)
    found = Bound("", tuple(GaussianCounts(**vars(look)) for look in looks)).at(0.05, 1e-5)
    assert found.epsilon == gaussian_one_run(50, 50, canaries=100, delta=1e-5, alpha=0.025).epsilon
    with pytest.raises(InputError, match="Use Bonferroni"):
        GaussianCounts(**vars(Split().looks(sure, right, fixed=True)[0]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bonferroni(()), "1 to 8 times"),
        (lambda: Bonferroni(tuple(1 / i for i in range(1, 10))), "1 to 8 times"),
        (lambda: Bonferroni((1, 1)), "different parts"),
        (lambda: Bonferroni((2,)), "at most 1"),
        (lambda: Split(share=1.0), "between 0 and 1"),
        (lambda: Bonferroni().looks([1.0, 2.0], [True]), "one value a canary"),
        (lambda: Bonferroni().looks([1.0, 2.0], [1, 0]), "True or False"),
        (lambda: Bonferroni().looks([1.0, -2.0], [True, True]), "negative or not a number"),
        (lambda: Bonferroni().looks([1.0, math.nan], [True, True]), "negative or not a number"),
        (lambda: Bonferroni().looks([], []), "one value a canary"),
        (lambda: Split().looks([1.0], [True]), "too few"),
        (lambda: bound(Bonferroni(), [1.0, 1.0], [True, True], alpha=1.5), "alpha"),
    ],
)
def test_errors_teach(make, message):
    with pytest.raises(InputError, match=message):
        make()

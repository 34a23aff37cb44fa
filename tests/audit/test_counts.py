"""The largest of several lower bounds is above the true ε at most 5% of the time: computed, not sampled."""

import json
import math
from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from labeldp.audit.counts import (
    CONFIDENCE,
    Bound,
    GameCounts,
    GaussianCounts,
    Headline,
    OneRunCounts,
    counts_json,
    read_counts,
)
from labeldp.audit.result import AuditResult
from labeldp.errors import InputError
from labeldp.mechanisms import Guarantee

DOUBT = 1 - CONFIDENCE


def one_run(correct, guesses, canaries=None, candidates=2, fixed=False):
    return OneRunCounts(correct, guesses, canaries or guesses, candidates, fixed)


def chance_above(looks, level, epsilon):
    """P[some look of this bound is above ε], at most: the sum over looks, whose guesses are each right with the largest probability
    that ε allows. No assumption on how looks and bounds depend on each other can make the union larger than that sum.
    """
    total = 0.0
    for guesses, candidates in looks:
        q = 1 / (1 + (candidates - 1) * math.exp(-epsilon))
        # Bounds grow with the number of right guesses, so the smallest one above ε decides.
        above = bisect_left(
            range(guesses + 1),
            True,
            key=lambda v, k=candidates, r=guesses: (
                one_run(v, r, candidates=k).epsilon(level / len(looks), 0.0) > epsilon
            ),
        )
        total += float(binom.sf(above - 1, guesses, q))
    return total


AUDITS = [
    [(60, 2)],  # who sees a release of classes looks once
    [(60, 2), (30, 2), (15, 2), (7, 2)],  # who sees a model, at four thresholds
    [(100, 10)],
    [(40, 4), (20, 4)],
    [(200, 2)],
    [(400, 2), (100, 2)],
]


@pytest.mark.parametrize("audits", range(1, len(AUDITS) + 1))
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_the_headline_is_above_the_truth_at_most_once_in_twenty(audits, epsilon):
    """Exact, for any dependence between the audits. One at the full 5% each, as before, is above it too often from two on."""
    known = AUDITS[:audits]
    levels = {stated.level * len(stated.bound.looks) for stated in headline(known).bounds}
    (level,) = levels
    assert sum(chance_above(looks, level, epsilon) for looks in known) <= DOUBT + 1e-12
    alone = [chance_above(looks, DOUBT, epsilon) for looks in known]
    assert max(alone) <= DOUBT + 1e-12
    if audits >= 2 and epsilon == 1.0:
        assert 1 - math.prod(1 - chance for chance in alone) > DOUBT  # even if they were independent


def headline(audits, **options):
    return Headline.of(
        [Bound("", tuple(one_run(g, g, candidates=k) for g, k in looks)) for looks in audits], delta=0.0, **options
    )


counts = st.integers(2, 120).flatmap(
    lambda guesses: st.builds(
        one_run, st.integers(0, guesses), st.just(guesses), st.integers(guesses, 200), st.integers(2, 12), st.booleans()
    )
)
games = st.builds(GameCounts, *(st.integers(0, 40), st.integers(0, 40), st.integers(80, 100)) * 2)
bounds = st.lists(counts | games, min_size=1, max_size=4).map(lambda looks: Bound("model", tuple(looks)))
several = st.lists(bounds, min_size=1, max_size=5)
deltas = st.sampled_from([0.0, 1e-6, 1e-3])


@settings(max_examples=40, deadline=None)
@given(several, st.lists(bounds, max_size=3), st.integers(0, 4), deltas, st.floats(0.5, 0.999))
def test_more_audits_never_make_a_bound_larger_or_surer(some, more, others, delta, confidence):
    before = Headline.of(some, delta=delta, confidence=confidence)
    after = Headline.of([*some, *more], delta=delta, confidence=confidence, others=others)
    assert after.confidence == before.confidence == confidence
    assert (before.shared_by, after.shared_by) == (len(some), len(some) + len(more) + others)
    for one, same in zip(before.bounds, after.bounds, strict=False):
        assert same.epsilon <= one.epsilon
    for found in (before, after):
        # Every look of every bound together: no more doubt than is stated.
        assert sum(stated.level * len(stated.bound.looks) for stated in found.bounds) <= (1 - confidence) * (1 + 1e-9)
        assert found.epsilon == max(stated.epsilon for stated in found.bounds)


@settings(max_examples=40, deadline=None)
@given(several, deltas, st.floats(0.01, 0.999), st.floats(0.01, 0.999))
def test_what_is_kept_does_not_depend_on_the_confidence_that_was_asked_for(some, delta, first, second):
    """So a kept audit, whatever it was asked for, is stated anew at any other confidence."""

    def kept(confidence):
        result = AuditResult.of(
            some, Guarantee(math.inf, delta), confidence=confidence, canaries=1000, candidates=2
        ).to_json()
        assert (result["confidence"], result["shared_by"], result["delta"]) == (confidence, len(some), delta)
        return json.loads(json.dumps(result))

    def read(result):
        return [Bound(look["attack"], tuple(map(read_counts, look["counts"]))) for look in result["looks"]]

    one, other = kept(first), kept(second)
    assert read(one) == read(other) == some
    again = Headline.of(read(one), delta=delta, confidence=second)
    assert again.epsilon == other["epsilon_low"]
    assert [stated.epsilon for stated in again.bounds] == [look["epsilon_low"] for look in other["looks"]]


@settings(max_examples=40, deadline=None)
@given(counts, st.floats(0.001, 0.2), st.sampled_from([1e-9, 1e-6, 1e-4, 1e-2]))
def test_a_larger_delta_proves_less(found, alpha, delta):
    assert found.epsilon(alpha, delta) <= found.epsilon(alpha, 0.0)


def test_a_number_of_guesses_that_was_not_fixed_pays_for_delta():
    free, fixed = one_run(90, 100), one_run(90, 100, fixed=True)
    assert free.epsilon(0.05, 0.0) == fixed.epsilon(0.05, 0.0)
    assert 0 < free.epsilon(0.05, 1e-4) < fixed.epsilon(0.05, 1e-4)
    assert free.epsilon(0.05, 1e-2) == 0.0  # 100 · 1% · ½ is more than there is to pay with


@pytest.mark.parametrize(
    ("changes", "delta"),
    [({"confidence": 0.0}, 0.0), ({"confidence": 1.0}, 0.0), ({"confidence": math.nan}, 0.0), ({}, -0.1), ({}, 1.0), ({}, math.nan)],
)  # fmt: skip
def test_no_such_confidence_or_delta(changes, delta):
    with pytest.raises(InputError, match=r"between 0 and 1|at least 0"):
        Headline.of([Bound("", (one_run(1, 2),))], delta=delta, **changes)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "magic"}, {"correct": 101}, {"guesses": 501}, {"correct": -1}, {"correct": 50.0}, {"correct": True}, {"fixed": 1},
        {"share": 0}, {"share": "1"}, {"share": math.nan}, {"candidates": 1}, {"canaries": 10**7},
    ],
)  # fmt: skip
def test_counts_from_elsewhere_are_counts_or_nothing(change):
    good = counts_json(OneRunCounts(50, 100, 500, 3, True, 0.2))
    assert read_counts(json.loads(json.dumps(good))) == OneRunCounts(50, 100, 500, 3, True, 0.2)
    with pytest.raises((ValueError, TypeError, KeyError, InputError)):
        read_counts(good | change)


def test_a_gaussian_curve_says_nothing_at_delta_zero():
    assert GaussianCounts(90, 100, 100, 2, True).epsilon(0.05, 0.0) == 0.0
    assert GaussianCounts(90, 100, 100, 2, True).epsilon(0.05, 1e-5) > 1

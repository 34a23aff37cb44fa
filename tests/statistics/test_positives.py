"""Ratios from noisy counts by bin: the double sums as they are written, and means over the noise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from labeldp.statistics.positives import BinnedPositives, Called, _harmonic, possible

tables = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=9).map(
    lambda bins: [(p, q) for p, q in bins if p + q] or [(1, 1)]
)


def binned(bins, variance=0.0, noise=None, excess=0.0, shrunk=True):
    p, q = (np.array(x, dtype=np.float64) for x in zip(*bins, strict=True))
    counts = p if noise is None else p + noise
    rows = (p + q).astype(np.int64)
    likely = possible(counts, rows, variance) if shrunk else counts
    return BinnedPositives(rows, counts, np.ones(len(p), dtype=np.int64), variance, excess, likely)


@given(bins=tables)
@settings(max_examples=150, deadline=None)
def test_auc_is_that_of_all_pairs(bins):
    scores = np.repeat(np.arange(len(bins)), [p + q for p, q in bins])
    labels = np.concatenate([[1] * p + [0] * q for p, q in bins])
    if labels.min() == labels.max() or len(labels) < 3:
        return
    ratio = binned(bins).auc()
    n = len(labels)
    pairs = sum(1.0 if a > b else 0.5 if a == b else 0.0 for a in scores[labels == 1] for b in scores[labels == 0])
    assert ratio.top * n * (n - 1) == pytest.approx(pairs)
    assert ratio.value == pytest.approx(roc_auc_score(labels, scores))


@given(bins=tables, seed=st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_average_precision_is_the_mean_over_orders_within_bins(bins, seed):
    total = sum(p for p, _ in bins)
    n = sum(p + q for p, q in bins)
    if total < 1 or n < 3 or sum(bins[-1]) < 2:
        return
    rng, found = np.random.default_rng(seed), []
    orders = 1500
    for _ in range(orders):
        labels = np.concatenate([rng.permutation([1] * p + [0] * q) for p, q in bins[::-1]])  # the best first
        others, above = np.cumsum(labels) - labels, np.arange(n)
        shown = others[1:] / above[1:]
        # The best row has none above it: the others of its bin stand for them.
        first = (bins[-1][0] - labels[0]) / (sum(bins[-1]) - 1)
        found.append((labels[0] * first + labels[1:] @ shown) / total)
    error = np.std(found) / math.sqrt(orders)
    assert abs(binned(bins).precision().value - np.mean(found)) <= 5 * error + 1e-9  # false alarm below 1 in 10⁵


def test_harmonic_numbers():
    k = np.arange(0, 60)
    assert _harmonic(k.astype(float)) == pytest.approx([sum(1 / j for j in range(1, i + 1)) for i in k], abs=1e-11)


BINS = [(2, 40), (6, 36), (10, 30), (20, 25), (30, 12)]


def test_tops_and_bottoms_are_unbiased_whatever_the_noise():
    """Means over 4,000 draws; false alarm 1 in 10⁶."""
    rng, q, draws = np.random.default_rng(3), math.exp(-0.3), 4000
    v = 2 * q / (1 - q) ** 2
    noise = rng.geometric(1 - q, (draws, 5)) - rng.geometric(1 - q, (draws, 5))
    clean = {name: getattr(binned(BINS), name)() for name in ("auc", "precision")}
    for name, true in clean.items():
        found = [getattr(binned(BINS, v, one), name)() for one in noise]
        for end in ("top", "bottom"):
            values = np.array([getattr(one, end) for one in found])
            assert abs(values.mean() - getattr(true, end)) < 4.9 * values.std() / math.sqrt(draws)
        # The noise's variance at the true value is what is stated, the square's included.
        a = true.value
        parts = np.array([one.top - a * one.bottom for one in found])
        stated = binned(BINS, v, None, 3 + 1 / v, shrunk=False)
        ratio = getattr(stated, name)()
        n = ratio.rows
        exact = (
            ratio.noise.second(np.array(a)) / n
            if name == "auc"
            else (ratio.noise.and_a_share(-stated._share)).second(np.array(a)) / n
        )
        assert parts.var() == pytest.approx(float(exact), rel=0.2)


def test_recall_has_the_binomial_variance():
    positives = binned(BINS)
    ratio = positives.recall(Called(87, 50.0, 2))
    assert ratio.value == pytest.approx(50 / 68)
    low, high = ratio.limits()
    assert low < 50 / 68 < high
    n, share = ratio.rows, 68 / ratio.rows
    assert float(ratio.variance(0.5)) == pytest.approx(share * 0.25 * (1 + 4 / (4 + n * share)))


def test_what_binning_hides_is_in_the_limits():
    """The best and the worst order within bins are both held."""
    ratio = binned([(3, 50), (10, 30), (20, 20)]).auc()
    low, high = ratio.limits()
    p, q = np.array([3.0, 10, 20]), np.array([50.0, 30, 20])
    hides = float(p @ q) / (2 * p.sum() * q.sum())
    assert low <= ratio.value - hides
    assert high >= ratio.value + hides


@given(bins=tables, seed=st.integers(0, 1000), scale=st.floats(0, 50))
@settings(max_examples=100, deadline=None)
def test_possible_counts_are_possible(bins, seed, scale):
    rows = np.array([p + q for p, q in bins])
    noisy = np.array([p for p, _ in bins]) + scale * np.random.default_rng(seed).standard_normal(len(bins))
    made = possible(noisy, rows, scale**2)
    assert (made >= 0).all()
    assert (made <= rows + 1e-9).all()
    assert 0 < made.sum() < rows.sum()


def test_the_rest_is_the_class_turned_round():
    positives = binned(BINS)
    other = positives.opposite().reversed()
    assert other.auc().value == pytest.approx(positives.auc().value)
    assert other.total == pytest.approx(143)

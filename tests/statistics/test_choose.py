"""The exponential mechanism from integers: its cost enumerated, its spread by brute force."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labeldp.entropy import SeededEntropy
from labeldp.errors import InputError
from labeldp.statistics.choose import ModelChoice, row_scores, score_spread, total_scores


def models(count, rows, classes, seed):
    made = np.random.default_rng(seed).gamma(0.5, size=(count, rows, classes)) + 1e-6
    return list(made / made.sum(axis=2, keepdims=True))


@pytest.mark.parametrize("score", ["accuracy", "brier", "log_loss"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_no_two_neighbours_are_further_apart_than_the_certificate(score, classes, epsilon):
    """All labellings of four rows, all neighbours, all models: in exact fractions."""
    given_ = models(3, 4, classes, 7)
    choice = ModelChoice.calibrated(epsilon=epsilon, score=score, models=given_)
    stated = choice.certificate().epsilon()
    assert epsilon * (1 - 1e-6) < stated <= epsilon
    worst = 0.0
    chances = {}
    for labels in itertools.product(range(classes), repeat=4):
        weights = choice.weights(total_scores(score, given_, np.array(labels)))
        chances[labels] = [Fraction(w, sum(weights)) for w in weights]
    for labels, mine in chances.items():
        for row, other in itertools.product(range(4), range(classes)):
            theirs = chances[(*labels[:row], other, *labels[row + 1 :])]
            worst = max(worst, max(math.log(a / b) for a, b in zip(mine, theirs, strict=True)))
    assert worst <= stated
    assert worst > 0.2 * stated  # the bound is not idle


@given(
    seed=st.integers(0, 10**6),
    classes=st.integers(2, 4),
    count=st.integers(2, 5),
    score=st.sampled_from(["accuracy", "brier", "log_loss"]),
)
@settings(max_examples=40, deadline=None)
def test_the_spread_is_that_of_all_pairs_of_labels(seed, classes, count, score):
    given_ = models(count, 6, classes, seed)
    scores = np.stack([row_scores(score, p) for p in given_])
    naive = max(
        (scores[:, i, y] - scores[:, i, z]).max() - (scores[:, i, y] - scores[:, i, z]).min()
        for i in range(6)
        for y in range(classes)
        for z in range(classes)
    )
    assert score_spread(score, given_) == naive


def test_far_totals_still_have_exact_weights():
    choice = ModelChoice("accuracy", 3, 2, 1 << 64)  # β = 1
    weights = choice.weights([10**9, 10**9 - 1, 0])
    assert weights[0] == 1 << 128
    assert weights[1] == pytest.approx(2**128 / math.e, rel=1e-12)
    assert weights[2] >= 1 << 64


def test_draws_follow_the_weights():
    """Chi-square of 4,000 draws; false alarm 1 in 10⁶."""
    choice = ModelChoice("accuracy", 4, 2, (1 << 64) // 10)
    totals = [100, 97, 90, 104]
    weights = np.array([float(w) for w in choice.weights(totals)])
    entropy = SeededEntropy(3)
    seen = np.bincount([choice.draw(totals, entropy) for _ in range(4000)], minlength=4)
    assert stats.chisquare(seen, 4000 * weights / weights.sum()).pvalue > 1e-6
    below = 104 - (weights / weights.sum()) @ np.array(totals)
    assert below < choice.expected_loss()


@pytest.mark.parametrize("name", ["roc_auc", "average_precision", "precision", "recall"])
def test_what_depends_on_the_number_of_positives_is_refused(name):
    with pytest.raises(InputError, match="private number of positives"):
        ModelChoice.calibrated(epsilon=1.0, score=name, models=models(2, 5, 2, 0))
    with pytest.raises(InputError, match="private number of positives"):
        ModelChoice(name, 2, 1, 1 << 64)


def test_scores_are_the_metrics():
    p, y = models(1, 50, 3, 2)[0], np.random.default_rng(0).integers(0, 3, 50)
    at = np.arange(50), y
    assert row_scores("accuracy", p)[at].sum() == (p.argmax(axis=1) == y).sum()
    one_hot = np.eye(3)[y]
    assert row_scores("brier", p)[at].sum() == pytest.approx(-1000 * ((p - one_hot) ** 2).sum(), abs=50)
    assert row_scores("log_loss", p)[at].sum() == pytest.approx(1000 * np.log(np.maximum(p[at], 0.01)).sum(), abs=50)


@pytest.mark.parametrize("changed", [{"models": 1}, {"spread": -1}, {"rate": 0}, {"rate": 1.5}, {"spread": True}])
def test_impossible_choices_are_refused(changed):
    with pytest.raises(InputError):
        ModelChoice(**({"score": "accuracy", "models": 2, "spread": 1, "rate": 5} | changed))


def test_models_are_of_the_same_rows():
    with pytest.raises(InputError, match="same rows"):
        ModelChoice.calibrated(epsilon=1.0, score="accuracy", models=[*models(1, 5, 2, 0), *models(1, 6, 2, 0)])
    with pytest.raises(InputError, match="between 2"):
        ModelChoice.calibrated(epsilon=1.0, score="accuracy", models=models(1, 5, 2, 0))
    same = models(1, 5, 2, 0) * 2
    assert ModelChoice.calibrated(epsilon=1.0, score="accuracy", models=same).certificate().epsilon() < 1e-15
    choice = ModelChoice("accuracy", 2, 1, 1 << 64)
    with pytest.raises(InputError, match="one whole number"):
        choice.draw([1], SeededEntropy(0))

"""Metrics of noisy counts: naive references without noise, unbiased with it, and limits that hold."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, log_loss, precision_score, recall_score, roc_auc_score

from labeldp.errors import InputError
from labeldp.statistics.bins import ScoreLayout
from labeldp.statistics.counts import SCORE_METRICS, ScoreCounts
from labeldp.statistics.noise import GeometricNoise


def rows_of(n, classes, seed, sharp=1.0):
    rng = np.random.default_rng(seed)
    p = rng.gamma(0.7, size=(n, classes)) + 1e-6
    p /= p.sum(axis=1, keepdims=True)
    true = p**sharp / (p**sharp).sum(axis=1, keepdims=True)
    y = (rng.random(n)[:, None] > np.cumsum(true, axis=1)[:, :-1]).sum(axis=1)
    return y, p


def counted(y, p, epsilon=1.0, bins=None):
    noise = GeometricNoise.calibrated(epsilon=epsilon, moved=1 if p.shape[1] == 2 else 2)
    layout = ScoreLayout.of(p, noise=noise, bins=bins)
    cells = layout.cells(p)
    held = cells[y == 1] if p.shape[1] == 2 else cells[np.arange(len(y)), y]
    return layout, np.bincount(held, minlength=len(layout)).astype(np.float64), noise


def draws(noise, shape, rng):
    stop = 1 - noise.stay / 2**64
    return (rng.geometric(stop, shape) - rng.geometric(stop, shape)).astype(np.float64)


@given(seed=st.integers(0, 10**6), classes=st.integers(2, 4), bins=st.sampled_from([None, 2, 7]))
@settings(max_examples=30, deadline=None)
def test_without_noise_the_numbers_are_scikit_learns_of_the_binned_scores(seed, classes, bins):
    y, p = rows_of(300, classes, seed)
    if len(np.unique(y)) < classes:
        return
    layout, counts, _ = counted(y, p, bins=bins)
    score = ScoreCounts(layout, counts, 0.0)
    cells = layout.cells(p)
    called = p.argmax(axis=1)
    assert score.accuracy().value == pytest.approx(accuracy_score(y, called))
    share = [(y == c).mean() for c in range(classes)]
    assert [one.value for one in score.class_shares()] == pytest.approx(share)
    aucs = []
    for place, c in enumerate([1] if classes == 2 else range(classes)):
        cell = cells if classes == 2 else cells[:, place]
        aucs.append(roc_auc_score(y == c, layout.bin[cell]))
        assert score.positives(c).auc().value == pytest.approx(aucs[-1])
        assert score.at_threshold("recall", positive=c).value == pytest.approx(
            recall_score(y == c, called == c), abs=1e-9
        )
        if (called == c).any():
            found = score.at_threshold("precision", positive=c)
            if found.value is not None:
                assert found.value == pytest.approx(precision_score(y == c, called == c))
    if classes == 2:
        q = layout.mean[cells]
        assert score.log_loss().value == pytest.approx(log_loss(y, np.clip(q, 1e-7, 1 - 1e-7)))
        assert score.brier().value == pytest.approx(((q - y) ** 2).mean())
        assert score.confusion().shares * 300 == pytest.approx(confusion_matrix(y, called))
        assert score.positives(0).auc().value == pytest.approx(aucs[0])
        assert score.at_threshold("recall", positive=0).value == pytest.approx(recall_score(1 - y, 1 - called))
    else:
        q = layout.mean[cells[np.arange(300), y]]
        assert score.log_loss().value == pytest.approx(-np.log(np.maximum(q, 1e-7)).mean())
        assert score.brier().value == pytest.approx((1 + (p**2).sum(axis=1) - 2 * q).mean())
        with pytest.raises(InputError, match="taken for"):
            score.confusion()


@pytest.mark.parametrize("classes", [2, 3])
def test_linear_metrics_are_unbiased_and_as_noisy_as_stated(classes):
    """Means over 4,000 draws of the noise; false alarm 1 in 10⁶ a metric."""
    y, p = rows_of(400, classes, 5)
    layout, counts, noise = counted(y, p, epsilon=0.5)
    rng, n = np.random.default_rng(1), 4000
    clean = ScoreCounts(layout, counts, 0.0)
    noisy = [ScoreCounts(layout, counts + z, noise.variance) for z in draws(noise, (n, len(layout)), rng)]
    for name in ("log_loss", "brier"):
        constant, weights = clean.loss_weights(name)
        found = np.array([constant + weights @ one.counts for one in noisy]) / 400
        # Of three classes the noise's sum is not 0, and its part is taken out by the weights' mean.
        assert abs(found.mean() - clean.metric(name).value) < 4.9 * found.std() / math.sqrt(n)
        assert found.std() == pytest.approx(math.sqrt(noise.variance * weights @ weights) / 400, rel=0.1)
        if classes > 2:
            assert abs(weights.sum()) < 1e-9
    right = np.array([one.right()[0] for one in noisy])
    assert abs(right.mean() - (p.argmax(axis=1) == y).sum()) < 4.9 * right.std() / math.sqrt(n)
    assert right.std() == pytest.approx(math.sqrt(noise.variance * clean.right()[1]), rel=0.1)


@pytest.mark.parametrize(("epsilon", "rows", "sharp"), [(0.2, 1000, 1.0), (2.0, 300, 2.0)])
def test_limits_hold(epsilon, rows, sharp):
    """300 draws of rows and noise; 95% limits that hold less than 90% of the time are a false alarm of 1 in 5,000, a metric."""
    population, held = rows_of(60_000, 2, 9, sharp), dict.fromkeys(("accuracy", "roc_auc", "recall"), 0)
    y, p = population
    called = p.argmax(axis=1)
    true = {
        "accuracy": (called == y).mean(), "roc_auc": roc_auc_score(y, p[:, 1]), "recall": recall_score(y, called)
    }  # fmt: skip
    rng, told = np.random.default_rng(2), 0
    for _ in range(300):
        rows_ = rng.integers(len(y), size=rows)
        layout, counts, noise = counted(y[rows_], p[rows_], epsilon)
        score = ScoreCounts(layout, counts + draws(noise, len(layout), rng), noise.variance)
        for name in held:
            one = score.metric(name)
            held[name] += one.interval_95[0] <= true[name] <= one.interval_95[1]
            told += one.value is not None
    assert min(held.values()) >= 270, held
    assert told > 800  # and it is not for want of an answer


@pytest.mark.parametrize("classes", [2, 5])
def test_curves_are_of_the_counts(classes):
    y, p = rows_of(3000, classes, 4, 2.0)
    layout, counts, noise = counted(y, p)
    curves = ScoreCounts(layout, counts, noise.variance).curves(positive=1)
    scores = p[:, 1]
    assert curves.rows == 3000
    assert sum(one.rows for one in curves.calibration) == 3000
    for point in curves.points:
        top = scores >= point.threshold
        assert point.called == pytest.approx(top.mean())
        if point.true_positive_rate is not None:
            assert point.true_positive_rate == pytest.approx((y[top] == 1).sum() / (y == 1).sum())
            assert point.false_positive_rate == pytest.approx((y[top] != 1).sum() / (y != 1).sum())
        if point.precision is not None:
            assert point.precision == pytest.approx((y[top] == 1).mean())
            assert point.precision_95[0] <= point.precision <= point.precision_95[1]
    assert [one.predicted for one in curves.calibration] == sorted(one.predicted for one in curves.calibration)
    assert curves.points[-1].called == 1.0
    assert curves.to_json()["positive"] == 1


def test_a_threshold_is_moved_to_an_edge_that_is_named():
    y, p = rows_of(2000, 2, 4)
    layout, counts, noise = counted(y, p, bins=10)
    score = ScoreCounts(layout, counts, noise.variance)
    edge = score.snapped(0.3)
    assert edge in layout.low
    assert abs(edge - 0.3) == np.abs(layout.low - 0.3).min()
    top = p[:, 1] >= edge
    assert score.at_threshold("recall", 0.3).value == pytest.approx(y[top].sum() / y.sum())
    assert score.at_threshold("lift", 0.3).value == pytest.approx(y[top].sum() / y.sum() / top.mean())
    assert score.snapped(None) is None
    assert score.snapped(1.0) == math.inf or score.snapped(1.0) in layout.low
    assert score.at_threshold("lift").value is not None
    for wrong in ({"threshold": math.nan}, {"threshold": 0.5, "positive": 0}):
        with pytest.raises(InputError):
            score.metric("recall", **wrong)
    with pytest.raises(InputError, match="threshold"):
        score.metric("accuracy", threshold=0.5)
    with pytest.raises(InputError, match="class 1"):
        score.curves(positive=0)
    assert score.at_threshold("lift", positive=0).value > 1


def test_too_much_noise_cannot_be_told_and_says_what_would_do():
    y, p = rows_of(200, 2, 1)
    layout, counts, noise = counted(y, p, epsilon=0.01)
    score = ScoreCounts(layout, counts, noise.variance)
    found = score.roc_auc()
    assert found.value is None
    assert found.interval_95 == (0.0, 1.0)
    assert found.rows_needed > 200
    assert "cannot be told" in str(found)


def test_the_mean_over_classes_has_its_classes():
    y, p = rows_of(4000, 4, 8, 2.0)
    layout, counts, noise = counted(y, p, epsilon=2.0)
    found = ScoreCounts(layout, counts, noise.variance).metrics(SCORE_METRICS)
    auc = found["roc_auc"]
    assert len(auc.by_class) == 4
    assert auc.value == pytest.approx(np.mean([one.value for one in auc.by_class]))
    widths = [one.interval_95[1] - one.interval_95[0] for one in auc.by_class]
    assert auc.interval_95[1] - auc.interval_95[0] < np.mean(widths)
    assert ScoreCounts(layout, counts, noise.variance).roc_auc(positive=2).value == auc.by_class[2].value


@pytest.mark.parametrize(
    "counts", [np.zeros(3), np.full(5, np.nan), np.full(5, 1e300), np.array(["a"] * 5), np.zeros((5, 1))]
)
def test_impossible_counts_are_refused(counts):
    y, p = rows_of(100, 2, 0)
    layout = ScoreLayout.of(p, noise=GeometricNoise(1 << 63), bins=5)
    given_ = counts if counts.shape[0] != 5 else np.resize(counts, (len(layout), *counts.shape[1:]))
    with pytest.raises(InputError):
        ScoreCounts(layout, given_, 1.0)
    with pytest.raises(InputError):
        ScoreCounts(layout, np.zeros(len(layout)), -1.0)
    with pytest.raises(InputError, match="unknown metric"):
        ScoreCounts(layout, np.zeros(len(layout)), 1.0).metric("f1")
    assert len(y) == 100

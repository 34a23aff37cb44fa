"""Differences between models: zero between twins, unbiased, with limits that hold and are narrower than two intervals."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from labeldp.errors import InputError
from labeldp.statistics.counts import ScoreCounts
from labeldp.statistics.differences import DIFFERENCES, difference
from tests.statistics.test_counts import counted, draws, rows_of


def tables(y, models, epsilon, rng, noisy=True):
    made = []
    for p in models:
        layout, counts, noise = counted(y, p, epsilon)
        z = draws(noise, len(layout), rng) if noisy else 0.0
        made.append(ScoreCounts(layout, counts + z, noise.variance if noisy else 0.0))
    return made


def worse(p, seed, much):
    rng = np.random.default_rng(seed)
    made = np.log(p) + much * rng.standard_normal(p.shape)
    made = np.exp(made - made.max(axis=1, keepdims=True))
    return made / made.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("classes", [2, 3])
def test_without_noise_it_is_the_difference(classes):
    y, p = rows_of(2000, classes, 3, 2.0)
    other = worse(p, 1, 0.7)
    a, b = tables(y, (p, other), 2.0, None, noisy=False)
    for name in DIFFERENCES:
        found = difference(name, a, b, p, other)
        assert found.value == pytest.approx(a.metric(name).value - b.metric(name).value)
        low, high = found.interval_95
        assert low <= found.value <= high
        # Rows that both models see alike cancel: narrower than two intervals on their own.
        apart = sum(one.metric(name).interval_95[1] - one.metric(name).interval_95[0] for one in (a, b))
        assert high - low < apart


def test_twins_differ_by_nothing_but_their_noise():
    y, p = rows_of(2000, 2, 3)
    a, b = tables(y, (p, p), 1.0, np.random.default_rng(0))
    found = difference("accuracy", a, b, p, p)
    noise = (a.right()[1] * a.variance + b.right()[1] * b.variance) / 2000**2
    assert found.standard_error == pytest.approx(np.sqrt(noise), rel=0.05)


@pytest.mark.parametrize(("classes", "epsilon"), [(2, 0.5), (3, 4.0)])
def test_limits_hold(classes, epsilon):
    """150 draws; limits that hold less than 87% of the time are a false alarm of 1 in 10,000, a metric."""
    y, p = rows_of(20_000, classes, 3, 2.0)
    other = worse(p, 1, 0.7)
    right = (p.argmax(axis=1) == y).mean() - (other.argmax(axis=1) == y).mean()
    columns = [1] if classes == 2 else range(classes)
    aucs = [np.mean([roc_auc_score(y == c, q[:, c]) for c in columns]) for q in (p, other)]
    true = {"accuracy": right, "roc_auc": aucs[0] - aucs[1]}
    rng, held, told = np.random.default_rng(5), dict.fromkeys(true, 0), 0
    for _ in range(150):
        rows = rng.integers(len(y), size=800)
        a, b = tables(y[rows], (p[rows], other[rows]), epsilon, rng)
        for name in held:
            found = difference(name, a, b, p[rows], other[rows])
            held[name] += found.interval_95[0] <= true[name] <= found.interval_95[1]
            told += found.value is not None
    assert min(held.values()) >= 131, held
    assert told >= 290


def test_what_cannot_be_compared_is_refused():
    y, p = rows_of(200, 2, 3)
    a, b = tables(y, (p, p), 1.0, np.random.default_rng(0))
    with pytest.raises(InputError, match="compared by"):
        difference("recall", a, b, p, p)
    with pytest.raises(InputError, match="same rows"):
        difference("accuracy", a, b, p, p[:100])
    loud, louder = tables(y, (p, p), 0.01, np.random.default_rng(0))
    assert difference("roc_auc", loud, louder, p, p).value is None

"""Histograms by cluster: weights in whole numbers, what a label moves, the classifier."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.entropy import SeededEntropy
from labeldp.errors import InputError
from labeldp.private import PrivateLabels
from labeldp.statistics.clusters import (
    ClusterModel,
    Clusters,
    exact_histogram,
    fit_clusters,
    moved_by_a_label,
    noisy_histogram,
    number_of_clusters,
    public_clusters,
)
from labeldp.statistics.noise import GeometricNoise


def blobs(n=2000, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    centres = 3000 * rng.normal(size=(classes, 5))
    return (centres[y] + 600 * rng.normal(size=(n, 5))).astype(np.int16), y


@given(parts=st.integers(1, 40), count=st.integers(1, 30), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_weights_are_whole_and_add_up(parts, count, seed):
    x, _ = blobs(200, seed=seed)
    clusters = Clusters.of(x, count, seed=seed, parts=parts)
    where, weights = clusters.spread(x)
    assert (weights >= 0).all()
    assert (weights.sum(axis=1) == parts).all()
    assert (where >= 0).all()
    assert (where < clusters.count).all()
    assert all(len(set(row)) == len(row) for row in where)


@pytest.mark.parametrize("classes", [2, 5])
def test_one_label_moves_the_histogram_by_what_is_paid_for(classes):
    x, y = blobs(300, classes)
    clusters = Clusters.of(x, 12)
    where, weights = clusters.spread(x)

    def table(labels):
        return exact_histogram(where, weights, PrivateLabels(labels, classes), clusters.count, clusters.parts)

    before, furthest = table(y), 0
    for row in range(40):
        changed = y.copy()
        changed[row] = (y[row] + 1) % classes
        furthest = max(furthest, int(np.abs(table(changed) - before).sum()))
    assert furthest == moved_by_a_label(clusters.parts, classes)
    assert before.sum() == (clusters.parts * (y == 1).sum() if classes == 2 else clusters.parts * len(y))


@pytest.mark.parametrize("classes", [2, 3])
def test_blobs_are_learned_at_a_small_epsilon(classes):
    x, y = blobs(3000, classes)
    test, truth = x[2000:], y[2000:]
    x, y = x[:2000], y[:2000]
    clusters = Clusters.of(x, number_of_clusters(len(x), classes, 0.5))
    where, weights = clusters.spread(x)
    moved = moved_by_a_label(clusters.parts, classes)
    noise = GeometricNoise.calibrated(epsilon=0.5, moved=moved)
    assert noise.certificate(moved).epsilon() <= 0.5
    exact = exact_histogram(where, weights, PrivateLabels(y, classes), clusters.count, clusters.parts)
    sizes = np.bincount(where.ravel(), weights=weights.ravel(), minlength=clusters.count).astype(np.int64)
    model = fit_clusters(clusters, noisy_histogram(exact, noise, SeededEntropy(0)), sizes, noise, classes)
    p = model.probabilities(test)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (p.argmax(axis=1) == truth).mean() > 0.9


def test_clusters_by_rule():
    assert number_of_clusters(50_000, 10, 0.05) < number_of_clusters(50_000, 10, 0.5) <= 1024
    assert number_of_clusters(10, 2, 0.01) == 2


def test_public_clusters_follow_from_public_facts():
    x, _ = blobs(300)
    first, second = public_clusters(x, 3, 1.0), public_clusters(x, 3, 1.0)
    np.testing.assert_array_equal(first[1].centres, second[1].centres)
    assert first[1].count == number_of_clusters(300, 3, 1.0)
    assert first[1].centres.shape[1] == first[0].dimensions
    with pytest.raises(InputError, match="epsilon"):
        public_clusters(x, 3, 0.0)


def test_what_is_refused():
    x, y = blobs(50)
    clusters = Clusters.of(x, 4)
    where, weights = clusters.spread(x)
    for bad_where, bad_weights in (
        (where, weights + 1),
        (where + 4, weights),
        (where[:5], weights[:5]),
        (where, weights * 1.0),
        (where * 1.0, weights),
    ):
        with pytest.raises(InputError):
            exact_histogram(bad_where, bad_weights, PrivateLabels(y, 3), 4, clusters.parts)
    for bad in (
        {"width": 0.0},
        {"width": np.nan},
        {"parts": 0},
        {"parts": True},
        {"parts": 4.0},
        {"centres": np.array([[np.nan]], dtype=np.float32)},
        {"centres": np.array([[1e30]], dtype=np.float32)},
    ):
        with pytest.raises(InputError):
            Clusters(**({"centres": clusters.centres, "width": 1.0, "parts": 4} | bad))
    with pytest.raises(InputError):
        Clusters.of(x, 0)


def test_probabilities_take_no_more_memory_than_their_table():
    """Of every row the shares of three clusters were once copied at a time."""
    classes, rows = 200, 60_000
    clusters = Clusters(np.arange(8, dtype=np.float32).reshape(4, 2), 1.0)
    shares = np.random.default_rng(0).dirichlet(np.ones(classes), 4)
    x = np.random.default_rng(1).integers(0, 8, (rows, 2)).astype(np.int16)
    tracemalloc.start()
    found = ClusterModel(clusters, shares).probabilities(x)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2 * found.nbytes
    where, weights = clusters.spread(x[-5:])
    np.testing.assert_allclose(found[-5:], np.einsum("nm,nmc->nc", weights / clusters.parts, shares[where]))

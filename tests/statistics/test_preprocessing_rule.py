"""The public rule: more noise, fewer axes; and where moments beat rows."""

import math

import numpy as np
import pytest

from labeldp.errors import InputError
from labeldp.statistics.preprocessing_rule import (
    choose,
    choose_preprocessing,
    known_by_histogram,
    known_by_moments,
    known_by_rows,
    moments_beat_rows,
    pure_beats_rows,
)
from labeldp.statistics.whitening import Axes


@pytest.fixture(scope="module")
def x():
    rng = np.random.default_rng(0)
    return rng.normal(size=(3000, 60)) @ (rng.normal(size=(60, 60)) * np.arange(1, 61)[:, None] ** -1.0)


def test_more_noise_means_fewer_axes(x):
    axes = Axes.of(x)
    chosen = [choose(axes, 10, mu) for mu in (0.005, 0.05, 0.5, 5.0)]
    assert [one.dimensions for one in chosen] == sorted(one.dimensions for one in chosen)
    assert chosen[0].dimensions < 10 < chosen[-1].dimensions
    told = [one.told for one in chosen]
    assert told == sorted(told)
    assert 0 < told[0] < 0.2 < 0.8 < told[-1] < 1
    assert choose(axes, 10, 0.05, rows=10**7).dimensions > chosen[1].dimensions


def test_the_rule_looks_at_features_alone(x):
    by_epsilon = choose_preprocessing(x, 2, epsilon=0.5, delta=1e-5)
    assert by_epsilon.dimensions == choose_preprocessing(x, 2, epsilon=0.5).dimensions
    assert choose_preprocessing(x, 2, mu=1e-4).dimensions < by_epsilon.dimensions
    for bad in ({}, {"mu": 1.0, "epsilon": 1.0}, {"mu": 0.0}, {"mu": math.nan}):
        with pytest.raises(InputError):
            choose_preprocessing(x, 2, **bad)


def test_where_moments_beat_rows():
    """d + 1 < n·v·μ²(1/κ − 1)/m, for two classes by hand: at ε = 0.1, μ = 0.0325, κ = 0.0025."""
    edge = 30_000 / 4 * 0.03249**2 * (1 / math.tanh(0.05) ** 2 - 1)
    assert moments_beat_rows(30_000, int(edge * 0.97), 2, 0.1)
    assert not moments_beat_rows(30_000, int(edge * 1.03), 2, 0.1)
    assert not moments_beat_rows(1000, 500, 2, 8.0)
    assert moments_beat_rows(50_000, 64, 10, 0.1)
    assert 0 < known_by_rows(1000, 10, 2, 0.1) < known_by_rows(1000, 10, 2, 1.0) < 1
    assert 0 < known_by_moments(1000, 10, 2, 0.1) < known_by_moments(10_000, 10, 2, 0.1) < 1
    for bad in ((0, 1, 2, 1.0), (1, 0, 2, 1.0), (1, 1, 1, 1.0), (1, 1, 2, 0.0)):
        with pytest.raises(InputError):
            moments_beat_rows(*bad)


def test_where_a_pure_histogram_beats_rows():
    """By hand, one axis and two classes: 32,000 rows at ε = 0.05 are 56 clusters; c = 1 − 56^(−2), N = 32,000/4/56, s = √2/0.05."""
    held, n = 1 - 56**-2, 32_000 / 4 / 56
    error = 1 / n + (math.sqrt(2) / 0.05 / n) ** 2
    assert known_by_histogram(32_000, 1, 2, 0.05) == pytest.approx(held * 2 * held / (2 * held + error))
    # Two axes, ⅔ and ⅓ of the variance, both wet: √(⅔·⅓)/θ = 56, and 1 − 2θ is held.
    held = 1 - 2 * math.sqrt(2) / 3 / 56
    assert known_by_histogram(32_000, 2, 2, 0.05) == pytest.approx(held * 2 * held / (2 * held + error))
    for columns in (2, 10, 100):
        beaten = [pure_beats_rows(32_000, columns, 2, epsilon) for epsilon in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)]
        assert beaten == sorted(beaten, reverse=True)  # at a small ε, and no longer above some other
        assert (beaten[0], beaten[-1]) == (True, False)
    for bad in ((0, 1, 2, 1.0), (1, 0, 2, 1.0), (1, 1, 1, 1.0), (1, 1, 2, 0.0)):
        with pytest.raises(InputError):
            pure_beats_rows(*bad)

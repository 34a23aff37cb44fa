"""Public preprocessing: lengths in whole numbers, rounding toward zero, what a stranger's file may hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.errors import InputError
from labeldp.statistics.whitening import RADIUS, Axes, ColumnCurves, Preprocessing


def table(seed=0, n=800):
    rng = np.random.default_rng(seed)
    x = np.column_stack((rng.lognormal(size=n) * 100, rng.normal(size=n), rng.integers(0, 2, n), rng.integers(0, 5, n)))
    x[:, 1] += x[:, 2]
    return x


@given(
    seed=st.integers(0, 10**6), n=st.integers(2, 200), d=st.integers(1, 40), power=st.floats(0, 1), quantile=st.floats(0.05, 1),
    scale=st.sampled_from([1e-6, 1.0, 1e6]), dimensions=st.one_of(st.none(), st.integers(1, 50)),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_no_row_is_longer_than_the_radius(seed, n, d, power, quantile, scale, dimensions):
    rng = np.random.default_rng(seed)
    x = scale * rng.standard_cauchy((n, d))
    made = Preprocessing.of(x, power=power, dimensions=dimensions, clip_quantile=quantile)
    q = made.apply(np.concatenate((x, 1000 * x))).astype(object)
    assert max(sum(v * v for v in row) for row in q) <= RADIUS**2
    assert q.shape == (2 * n, made.dimensions)


def test_rounding_shortens_and_by_less_than_a_thousandth():
    x = np.random.default_rng(0).normal(size=(2000, 300))
    made = Preprocessing.of(x, power=0.5)
    z = np.append((x * made.curves.scale - made.mean) @ made.axes, np.full((2000, 1), made.constant), axis=1)
    z *= (RADIUS / made.limit) * np.minimum(1, made.limit / np.linalg.norm(z, axis=1))[:, None]
    q = made.apply(x)
    assert (np.abs(q) <= np.abs(z) + 1e-6).all()
    assert (np.abs(q - z) < 1 + 1e-4).all()
    lost = 1 - np.linalg.norm(q.astype(float), axis=1) / np.linalg.norm(z, axis=1)
    assert lost.min() >= 0
    assert lost.max() < 1e-3


def test_whitened_axes_are_alike_and_uncorrelated():
    x = np.random.default_rng(1).normal(size=(5000, 40)) @ np.random.default_rng(2).normal(size=(40, 40))
    q = Preprocessing.of(x, power=1.0, clip_quantile=1.0).apply(x)[:, :-1].astype(float)
    covariance = np.cov(q.T) / q.var(axis=0).mean()
    np.testing.assert_allclose(covariance, np.eye(40), atol=1e-2)


def test_axes_come_by_variance_and_are_cut_off():
    axes = Axes.of(table())
    assert (np.diff(axes.variances) <= 0).all()
    assert axes.preprocessing(0.5, 3, 0.9).dimensions == 4
    assert axes.preprocessing(0.5, 999, 0.9).dimensions == len(axes.variances) + 1


def test_hats_add_up_to_one_and_hold_straight_lines():
    x = table()
    curves = ColumnCurves.of(x, 8)
    assert [len(one) for one in curves.knots] == [8, 8, 0, 5]
    e = curves(x)
    np.testing.assert_allclose(e[:, :8].sum(axis=1), 1)
    np.testing.assert_allclose(e[:, 8:16] @ curves.knots[1], x[:, 1])
    np.testing.assert_array_equal(e[:, 16], x[:, 2])


def test_what_is_missing_is_as_if_average():
    x = table()
    x[3, 0] = x[4, 2] = np.nan
    made = Preprocessing.of(x)
    given = made.apply(np.full((1, 4), np.nan))
    assert (given[0, :-1] == 0).all()
    assert given[0, -1] > 0


def test_arrays_go_there_and_back_and_are_checked():
    x = table()
    made = Preprocessing.of(x, power=0.25, dimensions=5)
    again = Preprocessing.from_arrays(made.to_arrays())
    np.testing.assert_array_equal(again.apply(x), made.apply(x))
    np.testing.assert_array_equal(made.apply(x.astype(np.float32))[:, -1], made.apply(x)[:, -1])
    good = made.to_arrays()
    for name, value in good.items():
        for bad in (
            None,
            value[:-1],
            value.astype(object),
            np.full_like(value, -1)
            if name not in ("mean", "axes", "scale")
            else value + np.inf,  # these may be negative
            value.astype(complex),
            np.float64(np.nan),
        ):
            with pytest.raises(InputError):
                Preprocessing.from_arrays(good | {name: bad})
        with pytest.raises(InputError):
            Preprocessing.from_arrays({one: array for one, array in good.items() if one != name})


@pytest.mark.parametrize(
    "x", [np.zeros((5, 3)), np.zeros((0, 3)), np.array(["a"]), np.array([[np.inf, 1.0], [0.0, 2.0]]), np.zeros(4)]
)
def test_what_no_features_can_be(x):
    with pytest.raises(InputError):
        Preprocessing.of(x)


def test_choices_out_of_range():
    for bad in ({"power": 2}, {"power": -1}, {"clip_quantile": 0}, {"dimensions": 0}):
        with pytest.raises(InputError):
            Preprocessing.of(table(), **bad)
    with pytest.raises(InputError, match="4 columns"):
        Preprocessing.of(table()).apply(np.zeros((2, 3)))

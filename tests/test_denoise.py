import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize

from labeldp import denoise

vectors = hnp.arrays(np.float64, st.integers(1, 8), elements=st.floats(-5, 5))


def naive_projection(o):
    """Bisection on the shift u with Σ max(o − u, 0) = 1."""
    low, high = o.min() - 1.0, o.max()
    u = optimize.brentq(lambda u: np.maximum(o - u, 0).sum() - 1, low, high, xtol=1e-14)
    return np.maximum(o - u, 0)


@given(vectors)
def test_min_projection_equals_a_naive_solver(o):
    np.testing.assert_allclose(denoise.min_projection(o[None])[0], naive_projection(o), atol=1e-9)


@given(vectors, st.integers(0, 2**32 - 1))
def test_nothing_on_the_simplex_is_closer(o, seed):
    ours = denoise.min_projection(o[None])[0]
    assert ours.sum() == pytest.approx(1)
    assert (ours >= 0).all()
    others = np.random.default_rng(seed).dirichlet(np.ones(len(o)), 50)
    assert (((others - o) ** 2).sum(axis=1) >= ((ours - o) ** 2).sum() - 1e-9).all()


def test_points_on_the_simplex_stay():
    o = np.array([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(denoise.min_projection(o), o)


@given(vectors)
def test_min_max_equals_the_papers_formula(o):
    """As its code's comment says: over the range, then over the sum."""
    low, high = min(o), max(o)
    ours = denoise.min_max(o[None])[0]
    if low == high:
        np.testing.assert_allclose(ours, 1 / len(o))
        return
    scaled = [(value - low) / (high - low) for value in o]
    np.testing.assert_allclose(ours, [value / sum(scaled) for value in scaled], atol=1e-9)


def test_softmax_and_argmax():
    o = np.array([[0.0, 1.0, 3.0], [2.0, 2.0, 1.0], [1e4, 0.0, -1e4]])
    np.testing.assert_allclose(denoise.softmax(o)[0], np.exp(o[0]) / np.exp(o[0]).sum())
    assert np.isfinite(denoise.softmax(o)).all()
    np.testing.assert_array_equal(denoise.argmax(o), [[0, 0, 1], [0.5, 0.5, 0], [1, 0, 0]])


@pytest.mark.parametrize("function", [denoise.min_projection, denoise.min_max, denoise.softmax, denoise.argmax])
def test_rows_are_independent_and_types_kept(function):
    o = np.random.default_rng(0).laplace(size=(100, 7)).astype(np.float32)
    whole = function(o)
    assert whole.dtype == np.float32
    assert whole.shape == o.shape
    np.testing.assert_allclose(whole, np.concatenate([function(row[None]) for row in o]))
    with pytest.raises(ValueError, match="matrix"):
        function([1.0, 2.0])

"""Noise on moments: its cost against the exact curve of what is drawn, the statistic in whole numbers, its projection."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labeldp.accounting.cost import Cost
from labeldp.entropy import SeededEntropy
from labeldp.errors import InputError
from labeldp.private import PrivateLabels
from labeldp.statistics.moment_noise import MomentNoise, check_lengths, completed, exact_moments


@given(
    epsilon=st.floats(0.005, 32), delta=st.sampled_from([1e-5, 1e-9]), classes=st.sampled_from([2, 3, 100]),
    radius=st.integers(500, 32767), dimensions=st.integers(1, 600),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_never_more_than_was_asked_and_hardly_less(epsilon, delta, classes, radius, dimensions):
    noise = MomentNoise.calibrated(
        epsilon=epsilon, delta=delta, radius=radius, dimensions=dimensions, num_classes=classes
    )
    cost = noise.certificate()
    moved = 1 if classes == 2 else 2
    assert Fraction(cost.gaussian) >= Fraction(moved * radius**2) / Fraction(noise.sigma) ** 2
    assert cost.gaussian == pytest.approx(moved * radius**2 / noise.sigma**2, rel=1e-12)
    stated = noise.guarantee()
    assert stated.epsilon <= epsilon
    assert stated.delta == delta
    assert stated.epsilon > 0.99 * epsilon or noise.sigma == radius / 16
    assert cost.within(Cost.gaussian_cap(epsilon, delta))


@pytest.mark.parametrize(("shift", "num_classes"), [((40,), 2), ((24, 32), 2), ((28, 0), 2), ((40, -40), 3)])
def test_delta_of_whole_draws_is_at_most_the_stated_one(shift, num_classes):
    """δ(ε) = Σ max(0, P − e^ε Q) of rounded Gaussians, summed over all cells, for neighbours that differ by a row of length R = 40."""
    noise = MomentNoise.calibrated(
        epsilon=1.0, delta=1e-3, radius=40, dimensions=2 if num_classes == 2 else 1, num_classes=num_classes
    )
    reach = int(9 * noise.sigma)
    cells = np.arange(-reach, reach + 41)

    def law(moved):
        ends = np.append(cells - 0.5, cells[-1] + 0.5) - moved
        return np.diff(stats.norm.cdf(ends / noise.sigma))

    p, q = law(0), law(shift[0])
    for other in shift[1:]:
        p, q = np.outer(p, law(0)).ravel(), np.outer(q, law(other)).ravel()
    for epsilon in (0.2, noise.guarantee().epsilon):
        exact = max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))
        sensitivity = math.sqrt(sum(one**2 for one in shift)) / noise.sigma
        continuous = stats.norm.cdf(sensitivity / 2 - epsilon / sensitivity) - math.exp(epsilon) * stats.norm.cdf(
            -sensitivity / 2 - epsilon / sensitivity
        )
        assert exact <= continuous * (1 + 1e-9)  # rounding is post-processing
    assert exact <= 1e-3
    if sum(one**2 for one in shift) >= 1600:
        assert exact > 0.97e-3


def test_moments_are_sums_of_rows():
    rng = np.random.default_rng(0)
    x, y = rng.integers(-100, 100, (500, 7)).astype(np.int16), rng.integers(0, 4, 500)
    noise = MomentNoise(1e4, 400, 7, 4)
    assert exact_moments(x, PrivateLabels(y, 4), noise).T.tolist() == [
        x[y == c].sum(axis=0, dtype=np.int64).tolist() for c in range(4)
    ]
    two = MomentNoise(1e4, 400, 7, 2)
    assert (
        exact_moments(x, PrivateLabels(y % 2, 2), two)[:, 0].tolist() == x[y % 2 == 1].sum(0, dtype=np.int64).tolist()
    )


@given(rows=st.lists(st.lists(st.integers(-300, 300), min_size=3, max_size=3), min_size=1, max_size=4))
def test_lengths_are_checked_in_whole_numbers(rows):
    table = np.array(rows, dtype=np.int16)
    if max(sum(v * v for v in row) for row in rows) <= 250**2:
        check_lengths(table, 250)
    else:
        with pytest.raises(InputError):
            check_lengths(table, 250)


@pytest.mark.parametrize(
    "table",
    [np.array([[2**40, 0]]), np.array([[0.5, 0.5]]), np.array([1, 2]), np.array([[-(2**15), 0]], dtype=np.int16)],
)
def test_what_is_too_long_or_no_whole_number(table):
    with pytest.raises(InputError):
        check_lengths(table, 32767)


def test_all_columns_add_up_to_what_is_public():
    rng = np.random.default_rng(1)
    totals = rng.integers(-50, 50, 6)
    for classes in (2, 5):
        noisy = rng.integers(-50, 50, (6, 1 if classes == 2 else classes))
        np.testing.assert_allclose(completed(noisy, totals, classes).sum(axis=1), totals, atol=1e-9)
    with pytest.raises(InputError):
        completed(noisy, totals, 4)


def test_the_projection_takes_a_share_of_the_noise():
    """Variance σ²(1 − 1/C), by 6,000 draws; five standard errors."""
    noise = MomentNoise(200.0, 100, 2000, 3)
    drawn = completed(noise.sample(SeededEntropy(0)), np.zeros(2000, dtype=np.int64), 3)
    assert drawn.var() == pytest.approx(noise.variance * 2 / 3, rel=5 * math.sqrt(2 / 4000))


def test_json_goes_there_and_back():
    noise = MomentNoise(123.456, 100, 7, 3, 1e-6)
    assert MomentNoise.from_json(noise.to_json()) == noise
    assert noise.sample(SeededEntropy(0)).shape == (7, 3)
    for change in ({"radius": 1.5}, {"radius": 40000}, {"sigma": "x"}, {"sigma": 1.0}, {"delta": 0.0}, {"name": "gaussian"},
                   {"num_classes": 1}, {"dimensions": True}, {"sigma": math.nan}):  # fmt: skip
        with pytest.raises(InputError):
            MomentNoise.from_json(noise.to_json() | change)
    with pytest.raises(InputError):
        MomentNoise.from_json([])


def test_rows_that_do_not_fit():
    x = np.ones((5, 3), dtype=np.int16)
    for noise, labels in ((MomentNoise(500.0, 100, 4, 2), [0] * 5), (MomentNoise(500.0, 100, 3, 2), [0] * 4)):
        with pytest.raises(InputError):
            exact_moments(x, PrivateLabels(labels, 2), noise)
    with pytest.raises(InputError, match="longer"):
        exact_moments(x * 90, PrivateLabels([0] * 5, 2), MomentNoise(500.0, 100, 3, 2))

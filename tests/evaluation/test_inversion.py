import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.evaluation.inversion import NOTHING, CentralMoments, Ratio, Z, mean_limits, mean_ratio, student


def ratio(x, y, **more):
    return Ratio(
        float(x.mean()), float(y.mean()), len(x), CentralMoments.of(x - x.mean(), y - y.mean()), NOTHING, **more
    )


def test_fieller_in_closed_form():
    """Without skewness the limits are the roots of (x̄ − aȳ)² = z²·V(a)/n."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(0.5, 1, 400), rng.normal(1.0, 1, 400)
    found = ratio(x, y)
    plain = Ratio(
        found.top,
        found.bottom,
        400,
        CentralMoments(found.shown.xx, found.shown.xy, found.shown.yy, 0, 0, 0, 0),
        NOTHING,
    )
    k, m = Z**2 / 400, plain.shown
    roots = np.roots([plain.bottom**2 - k * m.yy, -2 * (plain.top * plain.bottom - k * m.xy), plain.top**2 - k * m.xx])
    assert plain.limits() == pytest.approx(sorted(roots), abs=1e-9)


def test_nothing_can_be_told():
    """A denominator that may be 0: every value is possible."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(0.0, 1, 50), rng.normal(0.01, 1, 50)
    assert ratio(x - x.mean(), y - y.mean() + 0.01).limits() == (0.0, 1.0)


def test_a_ratio_beyond_the_range_has_limits_all_the_same():
    found = Ratio(1.2, 1.0, 10_000, CentralMoments(0.01, 0, 0, 0, 0, 0, 0), NOTHING)
    low, high = found.limits()
    assert high == 1.0
    assert low == pytest.approx(1 - Z * 0.1 / 100, abs=1e-6)


def test_noise_is_a_floor():
    shown, noise = CentralMoments(1.0, 0, 0, 2.0, 0, 0, 0), CentralMoments(4.0, 0, 0, 0, 0, 0, 0)
    assert Ratio(0.5, 1.0, 100, shown, noise).variance(0.3) == 4.0
    assert Ratio(0.5, 1.0, 100, shown, NOTHING, spare=(1.0, 0.0, 0.0)).variance(0.5) == 1.25


def test_no_variance_at_all():
    assert mean_limits(mean_ratio(np.full(10, 0.3))) == pytest.approx((0.3, 0.3))
    assert Ratio(0.25, 1.0, 10, NOTHING, NOTHING).limits() == (pytest.approx(0.25), pytest.approx(0.25))


@given(st.lists(st.floats(0, 1), min_size=3, max_size=30))
@settings(max_examples=50, deadline=None)
def test_a_mean_in_closed_form_is_the_same(values):
    """Searched or solved; and the mean itself is inside, as far as skewness lets it."""
    x = np.array(values)
    if x.std() < 1e-3:
        return
    found = mean_ratio(x)
    low, high = mean_limits(found)
    assert low < high
    for end in (low, high):
        assert abs(float(found.distance(end))) == pytest.approx(found.quantile, rel=1e-6)


def test_a_skewed_mean_is_covered():
    """An exponential law, 20 rows: t's limits miss 8%, these about 5%. Of 1000 at most 85 miss: false alarm below 1e-3 at 6%."""
    rng, missed = np.random.default_rng(3), 0
    for _ in range(1000):
        low, high = mean_limits(mean_ratio(rng.exponential(size=20)))
        missed += not low <= 1 <= high
    assert missed <= 85


def test_the_standard_error():
    x = np.random.default_rng(4).normal(size=100)
    assert mean_ratio(x).standard_error(0.0) == pytest.approx(x.std(ddof=1) / math.sqrt(100))
    assert Ratio(0.1, -0.1, 10, NOTHING, NOTHING).standard_error(0.5) is None


def test_students_quantile():
    """Against scipy's; its expansion is good to one percent from six degrees of freedom on."""
    from scipy.stats import t

    for freedom in (6, 10, 30, 1e4):
        assert student(freedom) == pytest.approx(t.ppf(0.975, freedom), rel=0.01)
    assert student(0.0) == student(3.0)

"""Exact limits of a noisy share: against naive sums, and Clopper and Pearson where there is no noise."""

import numpy as np
import pytest
from scipy import stats

from labeldp.evaluation.accuracy import counted_interval
from labeldp.statistics.noise import GeometricNoise
from labeldp.statistics.shares import NoiseSum, excess_kurtosis, share_limits


@pytest.mark.parametrize("counts", [1, 2, 7])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_the_law_of_summed_noise_is_the_convolution(counts, epsilon):
    noise = GeometricNoise.calibrated(epsilon=epsilon, moved=1)
    q, reach = noise.stay / 2**64, 600
    one = (1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1.0))
    law = np.array([1.0])
    for _ in range(counts):
        law = np.convolve(law, one)
    middle = len(law) // 2
    x = np.arange(-40, 41)
    naive = [law[middle + k :].sum() for k in x]
    assert NoiseSum(counts, noise.variance).at_least(x.astype(float)) == pytest.approx(naive, abs=1e-9)
    k4 = (one @ np.arange(-reach, reach + 1.0) ** 4) / noise.variance**2 - 3
    assert excess_kurtosis(noise.variance, True) == pytest.approx(k4, rel=1e-6)


@pytest.mark.parametrize(("right", "rows"), [(0, 10), (3, 10), (10, 10), (420, 1000), (99_999, 100_000)])
def test_without_noise_limits_are_clopper_and_pearsons(right, rows):
    assert share_limits(right, rows, NoiseSum(5, 0.0)) == pytest.approx(counted_interval(right, rows), abs=1e-6)


def test_with_noise_the_limits_are_where_the_tails_say():
    n, total, v, k = 300, 40, 6.0, 4
    low, high = share_limits(total, n, NoiseSum(k, v))
    r = np.arange(n + 1)
    for a, tail in (
        (low, lambda r: NoiseSum(k, v).at_least(total - r)),
        (high, lambda r: NoiseSum(k, v).at_least(r - total)),
    ):
        assert stats.binom.pmf(r, n, a) @ tail(r.astype(float)) == pytest.approx(0.025, abs=1e-5)
    wide = share_limits(total, n, NoiseSum(k, v, heavy=False))
    assert wide == pytest.approx((low, high), abs=0.01)


@pytest.mark.parametrize("heavy", [True, False])
def test_impossible_counts_leave_wide_limits(heavy):
    noise = NoiseSum(3, 50.0, heavy)
    assert share_limits(-100.0, 20, noise)[0] == 0.0
    assert share_limits(-100.0, 20, noise)[1] == pytest.approx(share_limits(0.0, 20, noise)[1])
    low, high = share_limits(1e4, 20, noise)
    assert low < high == 1.0


def test_very_much_noise_is_approximated():
    low, high = share_limits(5e6, 10**7, NoiseSum(10, 1e10))
    assert low == pytest.approx(0.5 - 1.96 * 10**5.5 / 10**7, abs=2e-3)
    assert high == pytest.approx(1 - low, abs=1e-6)

"""Noise on counts: its law from integers, its cost, and what it draws."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labeldp.entropy import SecureEntropy, SeededEntropy
from labeldp.errors import InputError
from labeldp.statistics.noise import GaussianCountNoise, GeometricNoise, noise_from_json


@given(epsilon=st.floats(1e-4, 32), moved=st.integers(1, 20))
@settings(max_examples=200)
def test_the_geometric_certificate_is_that_of_its_integer_and_never_above_what_was_asked(epsilon, moved):
    noise = GeometricNoise.calibrated(epsilon=epsilon, moved=moved)
    stated = noise.certificate(moved).epsilon()
    exact = moved * math.log1p(Fraction((1 << 64) - noise.stay, noise.stay))
    assert exact * (1 - 1e-12) <= stated <= epsilon
    assert stated >= epsilon * (1 - 1e-6) or noise.stay == (1 << 64) - 1


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_geometric_draws_follow_their_law(epsilon):
    """Chi-square over the cells that expect ten draws; false alarm 1 in 10⁶."""
    noise, n = GeometricNoise.calibrated(epsilon=epsilon, moved=1), 200_000
    drawn = noise.sample(n, SeededEntropy(5))
    q = noise.stay / 2**64
    reach = int(math.log(10 / n / ((1 - q) / (1 + q))) / math.log(q))
    cells = np.arange(-reach, reach + 1)
    law = (1 - q) / (1 + q) * q ** np.abs(cells)
    expected = n * np.append(law, 1 - law.sum())
    counts = np.array([(drawn == cell).sum() for cell in cells])
    seen = np.append(counts, n - counts.sum())
    assert stats.chisquare(seen, expected).pvalue > 1e-6
    assert drawn.var() == pytest.approx(noise.variance, rel=0.05)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / math.sqrt(n)


def test_gaussian_draws_follow_their_law():
    """Kolmogorov–Smirnov on a fine grid; false alarm 1 in 10⁶."""
    noise = GaussianCountNoise.calibrated(epsilon=0.5, delta=1e-5, moved=4)
    drawn = noise.sample(100_000, SeededEntropy(1)) + np.random.default_rng(0).uniform(-0.5, 0.5, 100_000)
    assert stats.kstest(drawn, stats.norm(scale=math.sqrt(noise.variance)).cdf).pvalue > 1e-6
    assert noise.guarantee(4).epsilon <= 0.5
    assert noise.certificate(4).gaussian == pytest.approx(4 / noise.sigma**2)


@pytest.mark.parametrize("noise", [GeometricNoise(1 << 63), GaussianCountNoise(3.0, 1e-6)])
def test_json_goes_there_and_back(noise):
    assert noise_from_json(noise.to_json()) == noise
    assert len(noise.sample(7, SecureEntropy())) == 7


@pytest.mark.parametrize(
    "data",
    [None, {}, {"name": "geometric"}, {"name": "geometric", "stay": str(1 << 64)}, {"name": "geometric", "stay": "0"},
     {"name": "gaussian", "sigma": math.inf, "delta": 1e-5}, {"name": "gaussian", "sigma": 1.0, "delta": 0.0}, {"name": "laplace"}],
)  # fmt: skip
def test_what_is_no_noise_is_refused(data):
    with pytest.raises(InputError):
        noise_from_json(data)

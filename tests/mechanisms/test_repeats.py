"""Noise for a count: the difference of two geometric numbers, whose law is exact."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from labeldp import SecureEntropy
from labeldp.errors import InputError
from labeldp.mechanisms.repeats import TwoSidedGeometric

from .channels import WHOLE

mpmath.mp.dps = 80
FALSE_ALARM = 1e-7  # of each goodness-of-fit test


def log(ratio):
    return mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)


def noise_law(heads, z):
    """P[G − G′ = z] for coins with heads of weight `heads`, from the closed form."""
    q = Fraction(heads, WHOLE)
    return (1 - q) / (1 + q) * q ** abs(z)


def below_or_at(heads, z):
    """P[G − G′ ≤ z]."""
    q = Fraction(heads, WHOLE)
    return q**-z / (1 + q) if z < 0 else 1 - q ** (z + 1) / (1 + q)


@pytest.mark.parametrize("heads", [WHOLE // 2, WHOLE // 5 + 1, 12345678901])
def test_the_closed_form_is_the_difference_of_two_geometric_numbers(heads):
    """Naively: all pairs of runs of heads up to 60; what is beyond is bounded by the chance of so long a run."""
    q = Fraction(heads, WHOLE)
    one = [(1 - q) * q**g for g in range(60)]
    for z in range(-5, 6):
        naive = sum(one[g] * one[g - z] for g in range(60) if 0 <= g - z < 60)
        assert 0 <= noise_law(heads, z) - naive <= 2 * q**54
        assert below_or_at(heads, z) - below_or_at(heads, z - 1) == noise_law(heads, z)


@given(st.floats(1e-5, 32))
def test_neighbouring_counts_differ_by_exactly_one_ratio(epsilon):
    noise = TwoSidedGeometric.calibrated(epsilon=epsilon)
    exact = Fraction(WHOLE, noise.heads)
    for count, other in ((5, 6), (6, 5), (0, 1)):
        ratios = {noise_law(noise.heads, s - count) / noise_law(noise.heads, s - other) for s in range(-3, 10)}
        assert ratios == {exact, 1 / exact}
    assert log(exact) <= noise.certificate().pure <= epsilon
    assert noise.certificate().pure >= epsilon - 1e-5
    if epsilon > 0.1:
        q, z = noise.heads / WHOLE, np.arange(1, 601)
        assert noise.deviation**2 == pytest.approx(2 * float((q**z * z * z).sum()) * (1 - q) / (1 + q), rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
def test_draws_fit_the_law(epsilon):
    """Chi-squared over single values, tails together."""
    noise, entropy, count = TwoSidedGeometric.calibrated(epsilon=epsilon), SecureEntropy(), 20_000
    drawn = np.array([noise.sample(entropy) for _ in range(count)])
    edge = next(z for z in range(1000) if float(below_or_at(noise.heads, -z - 1)) < 5e-3)
    middle = range(-edge, edge + 1)
    expected = [
        below_or_at(noise.heads, -edge - 1),
        *(noise_law(noise.heads, z) for z in middle),
        1 - below_or_at(noise.heads, edge),
    ]
    seen = [(drawn < -edge).sum(), *((drawn == z).sum() for z in middle), (drawn > edge).sum()]
    assert sum(expected) == 1
    assert stats.chisquare(seen, [float(p) * count for p in expected]).pvalue > FALSE_ALARM


class Words:
    """An entropy source that deals given 64-bit words."""

    secure = False

    def __init__(self, words):
        self.data = np.array(words, dtype="<u8").tobytes()

    def bytes(self, count):
        part, self.data = self.data[:count], self.data[count:]
        assert len(part) == count
        return part


def test_a_run_of_heads_goes_on_over_blocks():
    noise = TwoSidedGeometric(1000)
    block = [999] * 64
    first = [*block, *block, 3, 0, 1000, *([0] * 61)]
    second = [999, 1000, *([0] * 62)]
    assert noise.sample(Words(first + second)) == 130 - 1
    assert noise.sample(Words([2**64 - 1] * 128)) == 0


@pytest.mark.parametrize("heads", [0, -1, 2**64, 0.5, True, None])
def test_coins_that_cannot_be(heads):
    with pytest.raises(InputError, match="heads"):
        TwoSidedGeometric(heads)

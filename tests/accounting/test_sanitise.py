import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from labeldp.accounting.gaussian import upper_tail
from labeldp.accounting.rounding import CONTEXT
from labeldp.accounting.sanitise import SPACING, SanitisedEpsilon, _draw, gnss_cost, sanitised_epsilon
from labeldp.accounting.smooth import smooth_cost, smooth_sensitivity
from labeldp.entropy import SecureEntropy, SeededEntropy
from labeldp.errors import InputError

VOTES = np.array([[90, 5, 5], [60, 30, 10], [99, 1, 0]] * 4)
ANSWERED = np.array([True, False, True] * 4)
NOISE = {"threshold": 70, "sigma1": 10.0, "sigma2": 10.0}
RELEASE = {"order": 6.0, "beta": 0.02, "sigma_ss": 8.0}


def divergence(order, mean, deviation, other_mean, other_deviation):
    """D_λ of two Gaussians by the trapezoidal rule, in logarithms."""
    variance = order * other_deviation**2 - (order - 1) * deviation**2
    middle = (order * mean * other_deviation**2 - (order - 1) * other_mean * deviation**2) / variance
    width = deviation * other_deviation / math.sqrt(variance)
    x = middle + width * np.linspace(-12, 12, 20001)
    logs = order * stats.norm.logpdf(x, mean, deviation) - (order - 1) * stats.norm.logpdf(
        x, other_mean, other_deviation
    )
    top = logs.max()
    return (top + math.log(np.exp(logs - top).sum() * (x[1] - x[0]))) / (order - 1)


@given(
    st.floats(1.1, 60), st.floats(0.01, 0.97), st.floats(0.5, 30), st.floats(0, 3), st.floats(-1, 1), st.floats(-1, 1)
)
def test_the_cost_bounds_every_pair_of_neighbours(order, share, sigma, margin, ratio, move):
    beta = share / (2 * order)
    smooth, other = 1.0, math.exp(beta * ratio)
    value = move * min(smooth, other)
    one = (margin * sigma * smooth, sigma * smooth)
    two = (value + margin * sigma * other, sigma * other)
    assert divergence(order, *one, *two) <= gnss_cost(order, beta, sigma, margin) * (1 + 1e-7) + 1e-9


@pytest.mark.parametrize(("order", "beta", "sigma"), [(20, 0.02, 7.0), (20, 0.0245, 7.0), (5, 0.01, 3.0)])
def test_the_cost_is_attained(order, beta, sigma):
    other = math.exp(-beta)
    assert gnss_cost(order, beta, sigma) == pytest.approx(divergence(order, 0, sigma, other, other * sigma), rel=1e-9)


def test_the_published_formula_is_too_low_beyond_a_quarter():
    def published(order, beta, sigma):  # pate_2018's compute_rdp_of_smooth_sensitivity_gaussian
        return order * math.exp(2 * beta) / sigma**2 + (beta * order - math.log(1 - 2 * order * beta) / 2) / (order - 1)

    assert published(20, 0.02, 7.0) == pytest.approx(0.48822698501)
    assert gnss_cost(20, 0.02, 7.0) == pytest.approx(0.92796535371)
    for share in np.linspace(0.01, 0.25, 20):
        assert gnss_cost(20, share / 20, 7.0) < published(20, share / 20, 7.0)


def test_the_draw_is_the_rounded_gaussian():
    """A χ² test on 300 draws; false alarm 1e-6. The ends collect what lies beyond."""
    mean, deviation, cells = 6.3 * SPACING, 3.0 * SPACING, 12
    draws = np.bincount(
        [_draw(mean, deviation, cells, SeededEntropy(seed)) for seed in range(300)], minlength=cells + 1
    )
    below = stats.norm.cdf((np.arange(cells) * SPACING - mean) / deviation)
    expected = 300 * np.diff(np.concatenate([[0.0], below, [1.0]]))
    assert len(draws) == cells + 1
    assert stats.chi2.sf(np.sum((draws - expected) ** 2 / expected), cells) > 1e-6


class Word:
    """Entropy that is one given number."""

    secure = False

    def __init__(self, value):
        self.value = value

    def bytes(self, count):
        return self.value.to_bytes(count, "little")


def test_the_draw_inverts_the_distribution_function_exactly():
    mean, deviation = 0.5, 0.1
    for cell in (400, 512, 600):
        with localcontext(CONTEXT):
            z = (Decimal(cell) * Decimal(SPACING) - Decimal(mean)) / Decimal(deviation)
            edge = int(upper_tail(-z) * 2**192)
        assert _draw(mean, deviation, 2000, Word(edge - 10**6)) == cell
        assert _draw(mean, deviation, 2000, Word(edge + 10**6)) == cell + 1
    assert _draw(mean, deviation, 2000, Word(0)) == 0
    assert _draw(mean, deviation, 2000, Word(2**192 - 1)) == 2000


def test_the_released_epsilon_adds_up():
    got = sanitised_epsilon(VOTES, ANSWERED, **NOISE, **RELEASE, delta=1e-5, entropy=SeededEntropy(1))
    assert got.release == pytest.approx(gnss_cost(6.0, 0.02, 8.0, 2.0), rel=1e-6)
    assert got.epsilon == pytest.approx(got.cost + got.release + math.log(1e5) / 5, rel=1e-8)
    assert got.delta == 1e-5
    assert not got.secure
    assert (got.cost / SPACING).is_integer()
    blind = 12 * 6 / 200 + 8 * 6 / 100
    assert 0 <= got.cost <= blind + SPACING


def test_the_margin_keeps_the_noise_above_the_truth():
    """P[cost below the truth] = Φ(−2) = 2.3%; of 30 draws, 9 or more are below with probability 2e-8 at most."""
    truth = smooth_cost(VOTES, ANSWERED, **NOISE, order=6.0)
    noise = smooth_sensitivity(VOTES, ANSWERED, **NOISE, order=6.0, beta=0.02) * 8.0
    assert noise > 0
    draws = [
        sanitised_epsilon(VOTES, ANSWERED, **NOISE, **RELEASE, delta=1e-5, entropy=SeededEntropy(s)).cost
        for s in range(30)
    ]
    assert sum(cost < truth for cost in draws) < 9
    assert len(set(draws)) > 1


def test_without_a_look_nothing_is_hidden_and_the_system_draws():
    parameters = {"threshold": 5, "sigma1": 20.0, "sigma2": 20.0, **RELEASE}
    got = sanitised_epsilon([[6, 4]], [True], **parameters, delta=1e-5, entropy=SecureEntropy())
    assert isinstance(got, SanitisedEpsilon)
    assert got.secure
    assert got.cost == math.ceil((6 / 800 + 6 / 400) / SPACING) * SPACING


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((25.0, 0.02, 1.0), "below 1/"),
        ((2.0, 0.1, 0.0), "sigma_ss"),
        ((2.0, 0.1, 1.0, -1.0), "margin"),
        ((2.0, -0.1, 1.0), "beta"),
    ],
)
def test_errors_teach(arguments, message):
    with pytest.raises(InputError, match=message):
        gnss_cost(*arguments)

"""The exact sampler: its cells by 60 digits, its law by a test, its slack."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labeldp.accounting.gaussian import upper_tail
from labeldp.accounting.rounding import CONTEXT
from labeldp.entropy import SeededEntropy
from labeldp.errors import InputError
from labeldp.statistics.exact_normal import WORD_BITS, ExactNormal, slack

TOP = 1 << (WORD_BITS - 1)


def naive(sigma, word):
    """The largest k with Q((k − ½)/σ) ≥ u, by bisection in 60 digits, from nothing."""
    with localcontext(CONTEXT):
        u = (Decimal(word & (TOP - 1)) + Decimal("0.5")) / Decimal(1 << WORD_BITS)
        low, high = 0, int(25 * sigma) + 2
        while high - low > 1:
            middle = (low + high) // 2
            if upper_tail((Decimal(middle) - Decimal("0.5")) / Decimal(sigma)) >= u:
                low = middle
            else:
                high = middle
    return -low if word >= TOP else low


@given(word=st.integers(0, 2 * TOP - 1), sigma=st.floats(0.5, 1e7))
@settings(max_examples=60, deadline=None)
def test_a_word_stands_for_what_sixty_digits_say(word, sigma):
    assert ExactNormal(sigma).of_words([word])[0] == naive(sigma, word)


@pytest.mark.parametrize("sigma", [0.5, 3.3, 1e3, 5e6, 1e9])
@pytest.mark.parametrize("k", [0, 1, 2, 7])
def test_words_on_either_side_of_an_edge(sigma, k):
    """At the edge between k and k + 1 a float cannot tell: the words next to it fall to their own sides."""
    with localcontext(CONTEXT) as context:
        context.prec = 120
        edge = upper_tail((Decimal(k) + Decimal("0.5")) / Decimal(sigma)) * Decimal(1 << WORD_BITS)
        gap = Decimal(1 << WORD_BITS) * Decimal("1e-45")  # within which 60 digits do not promise
        above, below = int(edge + gap), int(edge - gap)
    if below > 0 and above < TOP:
        assert ExactNormal(sigma).of_words([above, below]).tolist() == [k, k + 1]


def test_the_ends_of_the_words():
    normal = ExactNormal(100.0)
    nearest, furthest, mirrored = normal.of_words([TOP - 1, 0, TOP])
    assert nearest == 0
    assert 2000 < furthest < 2200  # Q(z) = 2^−321 at z = 20.9
    assert mirrored == -furthest


@pytest.mark.parametrize("sigma", [0.7, 40.0, 1e6])
def test_draws_follow_their_law(sigma):
    """Chi-square of the Gaussian's masses on 40 cells; false alarm 1 in 10⁶."""
    n = 40_000
    drawn = ExactNormal(sigma).sample(n, SeededEntropy(3))
    edges = np.unique(np.floor(sigma * stats.norm.ppf(np.arange(1, 40) / 40)) + 0.5)
    law = np.diff(np.concatenate(([0.0], stats.norm.cdf(edges / sigma), [1.0])))
    seen = np.bincount(np.searchsorted(edges, drawn), minlength=len(edges) + 1)
    assert stats.chisquare(seen, n * law).pvalue > 1e-6
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / math.sqrt(n)


def test_the_slack_covers_what_a_cell_can_be_off_by():
    """Words that give k, counted between the edges in 60 digits, against the mass: within η, out to 17σ."""
    normal = ExactNormal(50.0)
    eta = normal.relative_error()
    with localcontext(CONTEXT):
        for k in (1, 50, 400, 849):
            edges = [upper_tail((Decimal(k) + shift) / 50) for shift in (Decimal("-0.5"), Decimal("0.5"))]
            mass = edges[0] - edges[1]
            assert 2 / (mass * 2**WORD_BITS) < eta  # one word at either end
            assert 2 * edges[0] * Decimal("1e-45") / mass < eta  # sixty digits at either end
    ratio, beyond = slack(normal, 50, 1000)
    assert 0 < ratio < 1e-15
    assert 0 < beyond < 1e-50


@pytest.mark.parametrize("sigma", [0.4, 1e11, math.nan, math.inf])
def test_what_no_sigma_can_be(sigma):
    with pytest.raises(InputError):
        ExactNormal(sigma)

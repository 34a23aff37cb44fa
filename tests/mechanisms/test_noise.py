"""Gaussian noise on the votes' grid: its law is what the slack says it is."""

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from labeldp import SeededEntropy
from labeldp.accounting.gaussian import upper_tail
from labeldp.accounting.rounding import CONTEXT
from labeldp.mechanisms.noise import GridNoise

SIGMAS = (0.5, 0.7, 1.0, 2.0, 20.0, 33.3)


def weights(noise):
    """Each grid point's integer over 2^128, from the sampler's own cumulative words."""
    ends = [(int(high) << 64) + int(low) for high, low in zip(*noise._ends, strict=True)]
    return np.diff([0, *ends, 1 << 128]).tolist()


@pytest.mark.parametrize("sigma", SIGMAS)
def test_every_weight_is_within_the_slack_of_its_mass(sigma):
    """The masses are the continuous Gaussian's on intervals around the grid points; the ends are in the slack's mass."""
    noise = GridNoise(sigma)
    integers = weights(noise)
    assert sum(integers) == 1 << 128
    assert integers == integers[::-1]
    with localcontext(CONTEXT):
        edge = [(Decimal(k) - Decimal("0.5")) / noise.per_unit / Decimal(sigma) for k in range(1, noise.reach + 2)]
        tails = [upper_tail(z) for z in edge]
        masses = [1 - 2 * tails[0]] + [a - b for a, b in pairwise(tails)]
        middle = noise.reach
        worst = max(abs(integers[middle + k] / (masses[k] * 2**128) - 1) for k in range(noise.reach))
    assert 0 < worst <= noise.relative_error() < 1e-9
    given_up = sum(integers[: noise.per_unit + 1]) + sum(
        integers[-noise.per_unit - 1 :]
    )  # a vote from the ends, or nearer
    assert Fraction(given_up, 1 << 128) <= Fraction(noise.mass_at_the_ends()) < Fraction(1, 1 << 61)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_grid_holds_whole_votes_and_is_fine_enough(sigma):
    noise = GridNoise(sigma)
    assert isinstance(noise.per_unit, int)
    assert noise.per_unit * sigma >= 31.9
    assert noise.reach - noise.per_unit >= 9 * sigma * noise.per_unit  # what 9σ reaches, a neighbour reaches too


def test_draws_follow_the_weights():
    """Chi-square of 200,000 seeded draws in 40 cells; false alarms are once in 10^7."""
    noise = GridNoise(2.0)
    drawn = noise.sample(200_000, SeededEntropy(3))
    edges = np.linspace(-4, 4, 39) * noise.sigma * noise.per_unit
    edges = np.floor(edges) + 0.5
    counts = np.histogram(drawn, np.concatenate([[-1e9], edges, [1e9]]))[0]
    law = np.diff(np.concatenate([[0], stats.norm.cdf(edges / noise.per_unit / noise.sigma), [1]]))
    assert stats.chisquare(counts, law * counts.sum()).pvalue > 1e-7


class Fixed:
    """Entropy that says these words."""

    secure = False

    def __init__(self, *words):
        self.words = list(words)

    def bytes(self, count):
        return b"".join(int(self.words.pop(0)).to_bytes(8, "little") for _ in range(count // 8))


def test_a_word_that_leaves_the_outcome_open_is_decided_by_the_next():
    """The high word equals that of a cumulative weight: the low word says on which side the draw falls."""

    noise = GridNoise(2.0)
    high, low = noise._ends
    place = len(high) // 2
    for rest, outcome in ((int(low[place]), place + 1), (int(low[place]) - 1, place)):
        assert noise.sample(1, Fixed(high[place], rest))[0] == outcome - noise.reach

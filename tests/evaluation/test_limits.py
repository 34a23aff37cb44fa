"""Limits of an accuracy hold as often as they say: by enumeration, with tails from other sources."""

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labeldp import NoPrivacy
from labeldp.evaluation.limits import SumOfStatistics, accuracy_limits
from labeldp.mechanisms import StatisticLaw
from labeldp.mechanisms.plan import NAMES, calibrate


@lru_cache
def law_of(name, epsilon, classes):
    mechanism = NoPrivacy(classes) if name == "none" else calibrate(name, epsilon=epsilon, num_classes=classes)
    return mechanism.law()


def chances(law, right, wrong):
    """Of every sum, where so many rows are of each law: by plain convolution."""
    found = np.ones(1)
    for one in (*[law.true] * right, *[law.other] * wrong):
        found = np.convolve(found, one)
    return found


def mixed(law, accuracy):
    """The law of a row that is right with this probability."""
    one = accuracy * np.array(law.true) + (1 - accuracy) * np.array(law.other)
    return StatisticLaw(tuple(one), tuple(one))


def first(low, high, holds):
    """The first number at which something holds that holds from there on (both limits grow with the sum: tested below)."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def coverage(law, rows, accuracy, found):
    """The chance of a sum whose limits hold the accuracy."""
    begin = first(0, len(found), lambda t: accuracy_limits(law, rows, t, 0.95)[1] >= accuracy)
    end = first(begin, len(found), lambda t: accuracy_limits(law, rows, t, 0.95)[0] > accuracy)
    return found[begin:end].sum()


# ── tails ──


@pytest.mark.parametrize("rows", [2, 50, 1000, 1_000_000])
@pytest.mark.parametrize(("true", "other"), [(0.9, 0.1), (0.9975, 0.0025), (1.0, 0.0), (0.55, 0.5)])
def test_tails_of_coins_are_binomial(rows, true, other):
    sums = SumOfStatistics(StatisticLaw.coin(true, other), rows)
    for accuracy in (0.0, 0.3, 0.999, 1.0):
        q = other + accuracy * (true - other)
        around = rows * q + np.sqrt(rows * q * (1 - q) + 1) * np.linspace(-6, 6, 25)
        for total in np.unique(np.clip(np.rint(around), 0, rows)).astype(int).tolist():
            assert sums.at_least(total, accuracy) == pytest.approx(stats.binom.sf(total - 1, rows, q), abs=1e-10)
            assert sums.at_most(total, accuracy) == pytest.approx(stats.binom.cdf(total, rows, q), abs=1e-10)


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
@pytest.mark.parametrize("epsilon", [0.5, 8])
@pytest.mark.parametrize("rows", [2, 20, 200])
def test_tails_of_grids_are_convolutions(name, epsilon, rows):
    law = law_of(name, epsilon, 10)
    sums, found = SumOfStatistics(law, rows), chances(mixed(law, 0.7), rows, 0)
    above = found[::-1].cumsum()[::-1]
    for total in range(0, len(found), max(1, len(found) // 100)):
        assert sums.at_least(total, 0.7) == pytest.approx(above[total], abs=1e-12)


# ── limits ──


@pytest.mark.parametrize("name", ["response", "subset", "unary", "none"])
def test_of_coins_they_are_those_of_clopper_and_pearson_through_the_channel(name):
    rows, law = 60, law_of(name, 2, 10)
    for hits in range(61):
        low, high = accuracy_limits(law, rows, hits, 0.95)
        ends = stats.beta.ppf(0.025, hits, rows - hits + 1), stats.beta.ppf(0.975, hits + 1, rows - hits)
        q = np.nan_to_num(ends[0]), 1.0 if hits == rows else ends[1]
        exact = np.clip((np.array(q) - law.mean_other) / (law.mean_true - law.mean_other), 0, 1)
        if law.mean_other * rows <= hits <= law.mean_true * rows:
            np.testing.assert_allclose((low, high), exact, atol=1e-6)
        assert low <= exact[0] + 1e-9  # beyond what is expected they are wider, never empty
        assert high >= exact[1] - 1e-9


LAWS = st.builds(law_of, st.sampled_from((*NAMES, "none")), st.sampled_from((0.5, 2, 6)), st.sampled_from((2, 10)))


@settings(max_examples=60, deadline=None)
@given(LAWS, st.integers(2, 60), st.data())
def test_limits_grow_with_the_sum_and_hold_the_estimate(law, rows, data):
    """And they nest: the surer, the wider."""
    total = data.draw(st.integers(0, law.levels * rows - 1))
    share = data.draw(st.sampled_from((0.0, 0.1)))
    within = share / 10, 1 - share + share / 10
    low, high = accuracy_limits(law, rows, total, 0.95, *within)
    assert within[0] <= low < high <= within[1]
    estimate = (total / (law.levels * rows) - law.mean_other) / (law.mean_true - law.mean_other)
    assert low - 1e-6 <= np.clip(estimate, *within) <= high + 1e-6
    above = accuracy_limits(law, rows, total + 1, 0.95, *within)
    assert low <= above[0] + 1e-6
    assert high <= above[1] + 1e-6
    surer = accuracy_limits(law, rows, total, 0.99, *within)
    assert surer[0] <= low
    assert surer[1] >= high


# ── coverage, which benchmarks/coverage.py enumerates on the whole grid ──


@pytest.mark.parametrize("name", [*NAMES, "none"])
@pytest.mark.parametrize("epsilon", [1, 6])
def test_limits_hold(name, epsilon):
    """Rows drawn, each right with probability a; and k of these very rows right, whose sums vary less."""
    rows, law = 50, law_of(name, epsilon, 2)
    for accuracy in (0.5, 0.9, 0.999, 1.0):
        assert coverage(law, rows, accuracy, chances(mixed(law, accuracy), rows, 0)) >= 0.95 - 1e-9
    for right in (25, 49, 50):
        assert coverage(law, rows, right / rows, chances(law, right, rows - right)) >= 0.945


@pytest.mark.parametrize(("epsilon", "rows", "accuracy", "before"), [(6, 50, 0.999, 0.841), (8, 200, 0.9995, 0.846)])
def test_few_rows_are_wrong(epsilon, rows, accuracy, before):
    """Where an interval of standard errors (Wilson's) held in 84% of draws; the sum's chances are binomial."""
    law = law_of("response", epsilon, 2)
    q = law.mean_other + accuracy * (law.mean_true - law.mean_other)
    found = stats.binom.pmf(np.arange(rows + 1), rows, q)
    assert coverage(law, rows, accuracy, found) >= 0.95
    within = np.abs(np.arange(rows + 1) - rows * q) <= 1.959964 * np.sqrt(rows * q * (1 - q))
    assert found[within].sum() == pytest.approx(before, abs=5e-4)

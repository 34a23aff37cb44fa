"""Numbers for people: rounded to the safe side, and a reading of ε that is right."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import RandomizedResponse
from labeldp.files.summary import Certificate
from labeldp.report.promise import best_guess, condition, up_to
from labeldp.wording import downward, upward


@given(st.floats(1e-9, 1e9))
def test_what_is_promised_never_looks_better_than_it_is(value):
    assert float(upward(value)) >= value
    assert float(downward(value)) <= value
    assert float(upward(value)) <= value * 1.0011
    assert float(downward(value)) >= value * 0.9989


def test_round_numbers_stay_round():
    assert upward(1.9999999999981821) == "2"
    assert (upward(0.0), downward(0.0), upward(math.inf)) == ("0", "0", "∞")
    assert (downward(1.4006254), upward(1.4006254)) == ("1.4", "1.401")


def test_the_issues_example():
    assert f"{best_guess(0.1, 4.0):.0%}" == "86%"


@given(st.floats(0.001, 0.999), st.floats(0, 20))
def test_odds_are_multiplied_by_e_to_the_epsilon(p, epsilon):
    after = best_guess(p, epsilon)
    assert p * (1 - 1e-12) <= after <= 1
    assert after == pytest.approx(p * math.exp(epsilon) / (1 - p + p * math.exp(epsilon)), rel=1e-9)


def test_a_real_mechanism_reaches_it_and_does_not_pass_it():
    """Randomized response with two classes: Bayes' rule on its own probabilities."""
    mechanism = RandomizedResponse.calibrated(epsilon=1.0, num_classes=2)
    epsilon = mechanism.certificate().epsilon()
    keep = mechanism.probability_kept()
    for p in (0.01, 0.1, 0.5, 0.9):
        posterior = p * keep / (p * keep + (1 - p) * (1 - keep))
        assert posterior <= best_guess(p, epsilon) * (1 + 1e-12)
        assert posterior == pytest.approx(best_guess(p, epsilon), rel=1e-9)


def test_nothing_is_certain_before():
    assert best_guess(0.0, 3.0) == 0.0
    assert not np.isnan(best_guess(1.0, 700.0))


@given(st.floats(0, 1))
def test_a_bound_in_percent_is_never_too_small(share):
    shown = up_to(share)
    if shown.startswith("over"):
        assert 0.999 <= share < 1
    else:
        assert share <= float(shown.rstrip("%")) / 100 + 1e-12
        assert float(shown.rstrip("%")) / 100 <= share + 0.0011


def test_a_delta_is_said():
    assert condition(Certificate(1.0, 0.0)) == ""
    assert "1e-05" in condition(Certificate(1.0, 1e-5))

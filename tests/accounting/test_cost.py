import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.accounting.cost import MIN_DELTA, Cost, check_delta, check_epsilon
from labeldp.accounting.gaussian import gaussian_epsilon
from labeldp.errors import AccountingError, InputError

numbers = st.floats(0, 100)


@given(st.tuples(numbers, numbers, numbers, numbers), st.tuples(numbers, numbers, numbers, numbers))
def test_costs_add_number_by_number(a, b):
    total = Cost(*a) + Cost(*b)
    for x, y, z in zip(a, b, total.numbers(), strict=True):
        assert x + y <= z <= (x + y) * (1 + 1e-15)


def test_pure_cost_is_its_own_epsilon():
    assert Cost(pure=1.5).epsilon() == 1.5
    assert Cost(pure=1.5).epsilon(1e-5) == 1.5


def test_pure_and_gaussian_parts_add_at_delta():
    assert Cost(pure=1.0, gaussian=0.25).epsilon(1e-5) == pytest.approx(1 + gaussian_epsilon(0.5, 1e-5), abs=1e-12)


def test_slack_widens_epsilon_and_eats_delta():
    plain = Cost(gaussian=0.25)
    assert Cost(gaussian=0.25, slack_ratio=0.01).epsilon(1e-5) > plain.epsilon(1e-5) + 0.01
    assert Cost(gaussian=0.25, slack_mass=5e-6).epsilon(1e-5) == pytest.approx(plain.epsilon(5e-6), abs=1e-9)
    with pytest.raises(AccountingError, match="δ above"):
        Cost(gaussian=0.25, slack_mass=1e-5).epsilon(1e-5)


def test_a_gaussian_cost_has_no_epsilon_at_delta_zero():
    with pytest.raises(AccountingError):
        Cost(gaussian=1.0).epsilon()


@given(st.floats(1e-4, 32), st.floats(MIN_DELTA, 0.5))
def test_a_gaussian_cap_keeps_its_promise_and_wastes_little(epsilon, delta):
    reached = Cost.gaussian_cap(epsilon, delta).epsilon(delta)
    assert epsilon * 0.99 < reached <= epsilon


def test_within_compares_every_number():
    cap = Cost(1.0, 1.0, 0.1, 0.1)
    assert Cost(1.0, 1.0, 0.1, 0.1).within(cap)
    for field in ("pure", "gaussian", "slack_ratio", "slack_mass"):
        assert not Cost(**{field: 1.01}).within(cap)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_cost_is_finite_and_not_negative(value):
    with pytest.raises(AccountingError):
        Cost(pure=value)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, 33, 1e-9, "x", None, True])
def test_bad_epsilon(value):
    with pytest.raises(InputError, match="epsilon must be"):
        check_epsilon(value)


@pytest.mark.parametrize("value", [0, 1, 1.5, -0.1, math.nan, 2.0**-41])
def test_bad_delta(value):
    with pytest.raises(InputError, match="delta must be"):
        check_delta(value)


def test_json_round_trip():
    cost = Cost(0.1, 0.2, 1e-7, 1e-20)
    assert Cost.from_json(cost.to_json()) == cost

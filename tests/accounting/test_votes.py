import itertools
import json
import math
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from labeldp.accounting.votes import ORDERS, answer_rdp, data_dependent_cost, threshold_rdp
from labeldp.errors import InputError

FOLDER = Path(os.environ.get("LABELDP_DATA") or Path(__file__).parents[3] / "shared" / "data") / "pate"
FEW = np.array([1.5, 2.0, 4.0, 8.0, 20.0, 64.0])


@pytest.fixture(scope="module")
def golden():
    """A vote matrix, and what tensorflow/privacy's research/pate_2018 (core.py, smooth_sensitivity.py) gives for it."""
    if not (FOLDER / "votes_shared.npz").exists():
        pytest.skip(f"there is no {FOLDER}/votes_shared.npz; set LABELDP_DATA")
    with np.load(FOLDER / "votes_shared.npz") as arrays:
        votes, answered = arrays["votes"], arrays["answered"]
    values = json.loads((FOLDER / "votes_shared.json").read_text())
    return votes, answered, {name: values[name] for name in ("threshold", "sigma1", "sigma2")}, values


# A naive reference, one query and one order at a time, from the paper's equations.


def log_q_of_answer(votes, sigma2):
    best = int(np.argmax(votes))
    logs = [stats.norm.logsf((votes[best] - v) / (sigma2 * 2**0.5)) for j, v in enumerate(votes) if j != best]
    top = max(logs)
    return min(top + math.log(sum(math.exp(x - top) for x in logs)), math.log(1 - 1 / len(votes)))


def theorem_6(log_q, sigma, order):
    blind = order / sigma**2
    mu2 = sigma * math.sqrt(-log_q)
    mu1 = mu2 + 1
    if not (mu2 > 1 and mu1 > order):
        return blind
    e1, e2 = mu1 / sigma**2, mu2 / sigma**2
    if log_q > (mu2 - 1) * e2 - mu2 * math.log(mu1 / (mu1 - 1) * mu2 / (mu2 - 1)) or log_q + e2 >= 0:
        return blind
    log_1q = math.log(-math.expm1(log_q))
    log_a = log_1q - math.log(-math.expm1((log_q + e2) * (1 - 1 / mu2)))
    log_b = e1 - log_q / (mu1 - 1)
    log_s = np.logaddexp(log_1q + (order - 1) * log_a, log_q + (order - 1) * log_b)
    return min(blind, log_s / (order - 1))


def naive_answer(votes, sigma2, orders):
    return np.array([[theorem_6(log_q_of_answer(v, sigma2), sigma2, a) for a in orders] for v in votes])


def naive_threshold(votes, threshold, sigma1, orders):
    log_q = [stats.norm.logsf(abs(max(v) - threshold) / sigma1) for v in votes]
    return np.array([[theorem_6(x, 2**0.5 * sigma1, a) for a in orders] for x in log_q])


@st.composite
def ballots(draw, largest=4000):
    classes = draw(st.integers(2, 12))
    teachers = draw(st.sampled_from([1, 2, 7, 50, 250, largest]))
    seed = draw(st.integers(0, 2**32 - 1))
    clarity = draw(st.sampled_from([0.0, 0.5, 0.95, 1.0]))
    rng = np.random.default_rng(seed)
    weights = (1 - clarity) * rng.dirichlet(np.ones(classes), size=6)
    weights[:, draw(st.integers(0, classes - 1))] += clarity
    return np.array([rng.multinomial(teachers, w) for w in weights / weights.sum(axis=1, keepdims=True)])


def test_golden_costs(golden):
    votes, answered, parameters, values = golden
    cost = data_dependent_cost(votes, answered, **parameters, orders=values["orders"])
    assert cost.threshold == pytest.approx(values["rdp_threshold"], rel=1e-12)
    assert cost.answers == pytest.approx(values["rdp_answers"], rel=1e-12)


def test_golden_epsilon(golden):
    votes, answered, parameters, values = golden
    epsilon, order = data_dependent_cost(votes, answered, **parameters).epsilon(values["delta"])
    assert epsilon == pytest.approx(values["epsilon_data_dependent"], rel=1e-12)
    assert order == values["optimal_order"]
    # Their grid has halves, and so has ours: orders between would give 4.4e-6 less.
    finer = data_dependent_cost(votes, answered, **parameters, orders=np.arange(18.5, 19.5, 0.001))
    assert finer.epsilon(values["delta"]) == (pytest.approx(1.3216384462, abs=1e-9), pytest.approx(19.042, abs=1e-3))


@given(ballots(), st.sampled_from([1e-3, 0.3, 1.0, 5.0, 40.0, 300.0, 1e6]), st.floats(-10, 5000))
def test_against_the_naive_reference(votes, sigma, threshold):
    assert answer_rdp(votes, sigma, FEW) == pytest.approx(naive_answer(votes, sigma, FEW), rel=1e-8, abs=1e-13)
    naive = naive_threshold(votes, threshold, sigma, FEW)
    assert threshold_rdp(votes, threshold, sigma, FEW) == pytest.approx(naive, rel=1e-8, abs=1e-13)


@given(ballots(), st.floats(1e-3, 1e6), st.floats(1e-3, 1e6), st.floats(-10, 5000))
def test_a_look_never_costs_more_than_none_and_sums_are_sums(votes, sigma1, sigma2, threshold):
    answered = np.arange(len(votes)) % 2 == 0
    tests, answers = threshold_rdp(votes, threshold, sigma1, ORDERS), answer_rdp(votes, sigma2, ORDERS)
    assert (tests >= 0).all()
    assert (answers >= 0).all()
    assert (tests <= ORDERS / (2 * sigma1**2) * (1 + 1e-12)).all()
    assert (answers <= ORDERS / sigma2**2).all()
    cost = data_dependent_cost(votes, answered, threshold=threshold, sigma1=sigma1, sigma2=sigma2)
    assert cost.threshold == pytest.approx(tests.sum(axis=0), rel=1e-12)
    assert cost.answers == pytest.approx(answers[answered].sum(axis=0), rel=1e-12)


def renyi(p, q, order):
    return float(np.logaddexp.reduce(order * np.log(p) - (order - 1) * np.log(q))) / (order - 1)


def outcome(votes, sigma):
    """The chance of each class to win: ∫ φ(x)·Π_j Φ(x + (v_i − v_j)/σ) dx, by the trapezoidal rule."""
    x = np.linspace(-12, 12, 4001)
    chances = [
        np.sum(
            stats.norm.pdf(x)
            * np.prod([stats.norm.cdf(x + (v - w) / sigma) for j, w in enumerate(votes) if j != i], axis=0)
        )
        * (x[1] - x[0])
        for i, v in enumerate(votes)
    ]
    return np.array(chances) / sum(chances)


@pytest.mark.parametrize(("teachers", "classes", "sigma"), [(6, 3, 0.6), (6, 3, 1.2), (9, 2, 1.5), (12, 2, 0.9)])
def test_no_neighbour_tells_more_than_the_bound(teachers, classes, sigma):
    table = [v for v in itertools.product(range(teachers + 1), repeat=classes) if sum(v) == teachers]
    orders = np.array([1.2, 1.5, 2.0, 3.0, 5.0])
    bounds = answer_rdp(table, sigma, orders)
    assert (bounds < 0.9 * orders / sigma**2).any()  # a look helps somewhere
    chances = {v: outcome(v, sigma) for v in table}
    for v, bound in zip(table, bounds, strict=True):
        for i, j in itertools.permutations(range(classes), 2):
            if v[i]:
                w = list(v)
                w[i], w[j] = w[i] - 1, w[j] + 1
                for order, most in zip(orders, bound, strict=True):
                    assert renyi(chances[v], chances[tuple(w)], order) <= most + 1e-9


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_no_neighbour_of_a_threshold_test_tells_more_than_the_bound(sigma):
    orders = np.array([1.2, 2.0, 4.0, 8.0])
    top = np.arange(31)
    bounds = threshold_rdp(np.stack([top, 0 * top], axis=1), 14.5, sigma, orders)
    chance = np.stack([stats.norm.sf((14.5 - top) / sigma), stats.norm.cdf((14.5 - top) / sigma)], axis=1)
    for v, w in [*itertools.pairwise(top), *itertools.pairwise(top[::-1])]:
        for order, most in zip(orders, bounds[v], strict=True):
            assert renyi(chance[v], chance[w], order) <= most + 1e-12


def test_far_above_the_threshold_is_not_free():
    """38 σ1 above τ pate_2018's log P[answered] is 0 in floats, and it charges 0 at every order. The truth at order 400 is 3,000."""
    sigma, order = 0.1685, 400.0
    log_q, log_q_of_neighbour = (stats.norm.logsf((v - 150) / sigma) for v in (249, 250))
    truth = (order * log_q - (order - 1) * log_q_of_neighbour) / (order - 1)
    assert 2900 < truth <= threshold_rdp([[249, 1]], 150, sigma, [order])[0, 0]
    assert threshold_rdp([[249, 1]], 150, sigma, [40.0])[0, 0] < 1e-100


def test_edges():
    orders = [2.0, 30.0]
    blind = np.array(orders) / 4
    tied, unanimous, none = answer_rdp([[5, 5, 0], [2000, 0, 0], [0, 0, 0]], 2.0, orders)
    assert tied == pytest.approx(blind)
    assert none == pytest.approx(blind)
    assert (unanimous < 1e-200).all()  # q underflows in floats, not in logarithms
    assert answer_rdp([[1, 0]], 0.1, [1.5])[0, 0] == pytest.approx(150)  # one teacher: μ2 is about 1/2, whatever σ
    assert answer_rdp([[1, 0]], 1e50, orders)[0] == pytest.approx(np.array(orders) / 1e100)
    above, at, below = threshold_rdp([[200, 0], [100, 100], [0, 200]], 100.0, 2.0, orders)
    assert above == pytest.approx(below)
    assert (above < 1e-100).all()
    assert at == pytest.approx(blind / 2)
    assert answer_rdp(np.zeros((0, 3), dtype=int), 1.0, orders).shape == (0, 2)
    nothing = data_dependent_cost(np.zeros((0, 3), dtype=int), np.zeros(0, dtype=bool), threshold=1, sigma1=1, sigma2=1)
    assert nothing.total.max() == 0


def test_the_cost_is_not_printed():
    cost = data_dependent_cost([[3, 1]], [True], threshold=2, sigma1=1.0, sigma2=1.0, orders=[2.0])
    assert repr(cost) == "VoteCost(orders=array([2.]))"


@pytest.mark.parametrize(
    ("votes", "answered", "change", "message"),
    [
        ([3, 1], [True], {}, "one row a query"),
        ([[3]], [True], {}, "2 or more"),
        ([[3, 1], [-1, 5]], [True, True], {}, "row 1 holds another number"),
        ([[3, 1], [1.5, 2.5]], [True, True], {}, "row 1 holds another number"),
        ([["a", "b"]], [True], {}, "whole numbers"),
        ([[3, 1], [2, 2], [3, 3]], [True] * 3, {}, "one teacher, one vote: row 2"),
        ([[3, 1]], [1], {}, "True or False"),
        ([[3, 1]], [True, False], {}, "each of the 1 asked"),
        ([[3, 1]], [True], {"sigma1": 0.0}, "sigma1 is a standard deviation"),
        ([[3, 1]], [True], {"sigma2": math.inf}, "sigma2 is a standard deviation"),
        ([[3, 1]], [True], {"threshold": math.nan}, "finite number of votes"),
        ([[3, 1]], [True], {"orders": [1.0, 2.0]}, "above 1"),
    ],
)
def test_errors_teach(votes, answered, change, message):
    with pytest.raises(InputError, match=message):
        data_dependent_cost(votes, answered, **{"threshold": 2, "sigma1": 1.0, "sigma2": 1.0, **change})


def test_fifty_times_as_fast_as_a_loop():
    rng = np.random.default_rng(0)
    votes = np.array([rng.multinomial(250, w) for w in rng.dirichlet([0.3] * 10, size=10_000)])
    orders = np.linspace(1.5, 100, 300)
    start = time.process_time()
    answer_rdp(votes, 20.0, orders)
    ours = time.process_time() - start
    start = time.process_time()
    naive_answer(votes[:5], 20.0, orders)
    assert (time.process_time() - start) * 2000 > 50 * ours

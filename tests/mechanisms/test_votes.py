"""PATE's answers: the aggregator does what the certificate says, and the certificate is a bound."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labeldp import SecureEntropy, SeededEntropy
from labeldp.accounting.gaussian import gaussian_delta
from labeldp.errors import InputError, NoMomentsError
from labeldp.mechanisms import PateAnswers, mechanism_from_json
from labeldp.mechanisms.table import WHOLE
from labeldp.mechanisms.votes import _coins

ROWS = [  # the paper's parameters, all asked queries answered; FACTS.md: 7.55, 0.257, 0.156, 2743, 17.1, 7.23
    (10, 200, 160, 20, 100, 500, 7.55),
    (10, 800, 800, 300, 400, 250, 0.257),
    (10, 800, 800, 500, 400, 250, 0.156),
    (100, 20, 7, 2, 2, 9400, 2743),
    (100, 100, 45, 15, 10, 1000, 17.1),
    (100, 100, 90, 30, 10, 1000, 7.23),
]


@pytest.mark.parametrize("row", ROWS)
def test_published_epsilon_of_the_papers_rows(row):
    classes, teachers, sigma1, sigma2, threshold, answered, epsilon = row
    mechanism = PateAnswers(classes, teachers, sigma1, sigma2, threshold, answered, answered)
    assert mechanism.guarantee().epsilon == pytest.approx(epsilon, rel=3e-3)
    mu_squared = answered / sigma1**2 + 2 * answered / sigma2**2
    cost = mechanism.certificate()
    assert cost.gaussian == pytest.approx(mu_squared, rel=1e-14)
    assert cost.gaussian >= mu_squared * (1 - 1e-15)
    assert cost.slack_ratio < 1e-11
    assert cost.slack_mass < 1e-11


def test_certificates_add_up_query_by_query():
    one, many = (PateAnswers(10, 200, 160, 20, 100, n, n).certificate() for n in (1, 50))
    for a, b in zip(one.numbers(), many.numbers(), strict=True):
        assert b == pytest.approx(50 * a, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.floats(0, 1), st.floats(0.1, 50))
def test_every_coin_is_within_its_slack(teachers, share, sigma1):
    threshold = share * teachers
    weights, eta, tau = _coins(teachers, threshold, sigma1)
    assert tau in (0.0, 2.0**-38)
    for most, weight in enumerate(weights):
        z = (most - threshold) / sigma1
        for side, mass in ((weight, stats.norm.cdf(z)), (WHOLE - weight, stats.norm.sf(z))):
            got = side / WHOLE
            if got <= 2.0**-38:  # lifted: never below its mass, and so rare that it is in τ
                assert tau == 2.0**-38
                assert got >= mass * (1 - 1e-9)
            else:
                assert got == pytest.approx(mass, rel=eta + 1e-9)
    assert eta < 1e-8


def test_the_tosses_are_the_coins():
    """Each of two kinds of query 100,000 times: the share that passes, within 5 standard errors."""
    mechanism = PateAnswers(3, 10, 4, 2, 6, 200_000, 200_000)
    votes = np.tile([[10, 0, 0], [4, 3, 3]], (100_000, 1))
    said = mechanism.answer(votes, SeededEntropy(5))
    for kind, most in ((0, 10), (1, 4)):
        p = stats.norm.cdf((most - 6) / 4)
        share = (said[kind::2] < 3).mean()
        assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / 100_000)


def test_the_answers_are_noisy_arg_maxima():
    """Against a straightforward simulation with float noise, 100,000 queries; within 5 standard errors."""
    mechanism = PateAnswers(3, 10, 0.1, 3, 0, 100_000, 100_000)
    votes = np.tile([5, 3, 2], (100_000, 1))
    said = mechanism.answer(votes, SeededEntropy(6))
    rng = np.random.default_rng(0)
    naive = (np.array([5, 3, 2]) + rng.normal(0, 3, (1_000_000, 3))).argmax(axis=1)
    for c in range(3):
        p = (naive == c).mean()
        assert abs((said == c).mean() - p) < 5 * math.sqrt(p * (1 - p) * (1e-5 + 1e-6))


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32))
def test_caps_are_never_exceeded_and_asking_stops_with_the_last_answer(asked, answered, seed):
    if answered > asked:
        asked, answered = answered, asked
    mechanism = PateAnswers(4, 8, 2, 2, 4, asked, answered)
    votes = np.random.default_rng(seed).multinomial(8, [0.4, 0.3, 0.2, 0.1], size=60)
    said = mechanism.answer(votes, SeededEntropy(seed))
    counted = mechanism.counts(said)
    assert counted[0] <= asked
    assert counted[1] <= answered
    assert mechanism.valid(said)
    stopped = np.flatnonzero(said == 5)
    if stopped.size:  # what was not asked comes last
        assert (said[stopped[0] :] == 5).all()
        assert counted[0] == asked or counted[1] == answered


def test_the_bound_is_a_bound():
    """Votes that differ by one teacher: likelihood ratios of everything the aggregator says never pass the certificate's δ(ε).

    400,000 seeded runs of three queries each. Picking the outcomes where P > e^ε Q by the numbers they are measured with would err
    upwards; so they are picked on runs of their own.
    """
    classes, runs = 3, 400_000
    mechanism = PateAnswers(classes, 9, 2.0, 1.5, 5, 3, 2)
    here = np.array([[5, 4, 0], [6, 2, 1], [4, 4, 1]])
    there = here + np.array([[-1, 1, 0], [-1, 1, 0], [-1, 0, 1]])
    base = classes + 2

    def outcomes(votes, seed):
        tall = PateAnswers(classes, 9, 2.0, 1.5, 5, 3 * runs, 3 * runs)
        said = tall.answer(np.tile(votes, (runs, 1)), SeededEntropy(seed)).reshape(runs, 3).astype(np.int64)
        # Two answers at most, as the small mechanism would have stopped.
        answered = np.cumsum(said < classes, axis=1) - (said < classes)
        said[answered >= 2] = classes + 1
        return np.bincount(said @ [base**2, base, 1], minlength=base**3) / runs

    for p_votes, q_votes in ((here, there), (there, here)):
        choose_p, choose_q = outcomes(p_votes, 1), outcomes(q_votes, 2)
        p, q = outcomes(p_votes, 3), outcomes(q_votes, 4)
        for epsilon in (0.0, 0.5, 1.0, 1.5, 2.0):
            event = choose_p > math.exp(epsilon) * choose_q
            measured = p[event].sum() - math.exp(epsilon) * q[event].sum()
            error = math.sqrt((p[event].sum() + math.exp(2 * epsilon) * q[event].sum()) / runs)
            assert measured <= gaussian_delta(math.sqrt(mechanism.certificate().gaussian), epsilon) + 3 * error
            if epsilon == 0.5:
                assert measured > 0.01  # the test sees something


def test_evidence_is_one_hot_or_a_public_confusion():
    sure, doubtful = PateAnswers(4, 8, 2, 2, 4, 9, 9), PateAnswers(4, 8, 2, 2, 4, 9, 9, accuracy=0.7)
    said = np.array([2, 4, 5], dtype=np.uint8)
    assert sure.evidence(said).tolist() == [[-math.inf, -math.inf, 0, -math.inf], [0] * 4, [0] * 4]
    np.testing.assert_allclose(np.exp(doubtful.evidence(said))[0], [0.1, 0.1, 0.7, 0.1], rtol=1e-6)
    assert sure.informative(said).tolist() == [True, False, False]
    for nothing in (sure.moments, sure.information):
        with pytest.raises(NoMomentsError, match="private"):
            nothing()


def test_ties_on_the_grid_fall_to_each_alike():
    """σ2 so small that 2 of 3 classes tie almost always: each is the answer half of the time, within 5 standard errors."""
    mechanism = PateAnswers(3, 8, 1, 0.1, 0, 20_000, 20_000)
    said = mechanism.answer(np.tile([4, 4, 0], (20_000, 1)), SeededEntropy(7))
    answered = said[said < 3]
    assert set(np.unique(answered)) == {0, 1}
    assert abs((answered == 0).mean() - 0.5) < 5 * 0.5 / math.sqrt(len(answered))


def test_description_round_trip():
    mechanism = PateAnswers(10, 200, 160.0, 20.0, 100.0, 2000, 500, 1e-6, 0.9)
    assert mechanism_from_json(json.loads(json.dumps(mechanism.to_json()))) == mechanism
    assert "200 teachers" in mechanism.describe()


GOOD = {
    "num_classes": 10,
    "teachers": 20,
    "sigma1": 5.0,
    "sigma2": 2.0,
    "threshold": 10.0,
    "max_asked": 50,
    "max_answered": 20,
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"threshold": 21.0}, "from 0 to the 20 teachers"),
        ({"threshold": float("nan")}, "threshold"),
        ({"sigma1": 0.0}, "sigma1"),
        ({"sigma2": -1.0}, "sigma2"),
        ({"sigma2": float("inf")}, "sigma2"),
        ({"teachers": 0}, "teachers"),
        ({"max_answered": 51}, "max-answered"),
        ({"max_answered": 0}, "max-answered"),
        ({"accuracy": 0.1}, "above chance"),
        ({"delta": 0.0}, "delta"),
    ],
)
def test_parameters_that_cannot_be(change, words):
    with pytest.raises(InputError, match=words):
        PateAnswers(**{**GOOD, **change})


@pytest.mark.parametrize(
    "votes",
    [np.zeros((3, 9), int), np.full((3, 10), 1), np.full((3, 10), 2.0), np.array([[30, -10] + [0] * 8])],
)
def test_votes_that_are_not_one_a_teacher(votes):
    with pytest.raises(InputError, match="votes"):
        PateAnswers(**GOOD).answer(votes, SecureEntropy())


@pytest.mark.parametrize(
    "change", [{"teachers": "20"}, {"teachers": True}, {"sigma1": None}, {"max_asked": 1.5}, {"delta": "x"}]
)
def test_descriptions_that_another_party_wrote(change):
    with pytest.raises(InputError):
        PateAnswers.from_parameters(10, {**PateAnswers(**GOOD).parameters(), **change})

"""PATE's answers: the aggregator does what the certificate says, and the certificate is a bound."""

import json
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labeldp import SecureEntropy, SeededEntropy
from labeldp.accounting.cost import Cost
from labeldp.accounting.gaussian import gaussian_delta, gaussian_epsilon, upper_tail
from labeldp.accounting.rounding import CONTEXT
from labeldp.errors import InputError, NoJudgeError
from labeldp.mechanisms import PateAnswers, judge_of, mechanism_from_json
from labeldp.mechanisms.noise import GridNoise
from labeldp.mechanisms.votes import WIDE, coin, coin_slack
from tests.mechanisms.test_noise import Fixed

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
    assert cost.slack_ratio < 1e-10
    assert cost.slack_mass < 1e-11


def test_certificates_add_up_query_by_query():
    one, many = (PateAnswers(10, 200, 160, 20, 100, n, n).certificate() for n in (1, 50))
    for a, b in zip(one.numbers(), many.numbers(), strict=True):
        assert b == pytest.approx(50 * a, rel=1e-12)


@pytest.mark.parametrize("sigma2", [0.5, 0.8, 3.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_one_answer_enumerated_from_the_samplers_integers(sigma2, delta):
    """Votes (1, 1) and (2, 0), or (2, 1) and (3, 0): the exact law of the answer, at its certificate. Clamping must be paid for."""
    noise = GridNoise(sigma2)
    ends = [(int(high) << 64) + int(low) for high, low in zip(*noise._ends, strict=True)]
    weights = np.diff(np.array([0, *ends, 1 << 128], dtype=object))
    above = np.concatenate([np.cumsum(weights[::-1])[::-1], [0]])

    def says_one(votes):
        """P[class 1 wins], over 2^257: strictly more counts twice, a tie once."""
        total = 0
        for k, weight in enumerate(weights):
            place = k + (votes[0] - votes[1]) * noise.per_unit
            more, equal = (above[min(max(p, 0), len(weights))] for p in (place + 1, place))
            total += weight * (more + equal)
        return Fraction(int(total), 1 << 257)

    for here, there in (((1, 1), (2, 0)), ((2, 1), (3, 0))):
        mechanism = PateAnswers(2, sum(here), 1e7, sigma2, 0, 1, 1, delta)
        epsilon = Fraction(math.exp(mechanism.guarantee().epsilon))
        p, q = says_one(here), says_one(there)
        for a, b in ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p)):
            assert a - epsilon * b <= Fraction(delta)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.floats(0, 1), st.floats(0.1, 50))
def test_every_coin_is_within_its_slack(teachers, share, sigma1):
    threshold = share * teachers
    eta, tau = coin_slack(teachers, threshold, sigma1)
    for most in range(teachers + 1):
        weight = coin(most, threshold, sigma1)
        z = (most - threshold) / sigma1
        for side, sign in ((weight, -1), (WIDE - weight, 1)):
            with localcontext(CONTEXT):
                mass = (
                    upper_tail(Decimal(sign) * (Decimal(most) - Decimal(threshold)) / Decimal(sigma1))
                    if abs(z) < 35
                    else Decimal(z * sign < 0)
                )
                if side == 1 << 64:  # lifted: never below its mass, and so rare that it is in τ
                    assert tau == 2.0**-64
                    assert side >= mass * WIDE * (1 - Decimal(eta))
                else:
                    assert abs(side / (mass * WIDE) - 1) <= Decimal(eta)


def test_many_questions_at_a_small_delta_still_fit_a_budget():
    """Every coin lifted: 50,000 of them give up 2^-48, and cost next to nothing beyond the Gaussian's own curve."""
    mechanism = PateAnswers(10, 1000, 40, 20, 300, 50_000, 500, 1e-9)
    exact = gaussian_epsilon(math.sqrt(50_000 / 40**2 + 2 * 500 / 20**2), 1e-9)
    assert exact <= mechanism.guarantee().epsilon <= exact * (1 + 1e-4)
    cost = mechanism.certificate()
    assert cost.within(Cost.gaussian_cap(mechanism.guarantee().epsilon * (1 + 2**-9), 1e-9))


def test_a_certificate_of_many_teachers_takes_no_time():
    assert PateAnswers(10, 65_536, 20_000, 8_000, 30_000, 1000, 500).guarantee().epsilon > 0


def test_a_word_that_leaves_the_coin_open_is_decided_by_the_next():
    mechanism = PateAnswers(3, 10, 4, 2, 6, 5, 5)
    weight = coin(7, 6, 4)
    high, low = weight >> 64, weight & ((1 << 64) - 1)
    for rest, passes in ((low - 1, True), (low, False)):
        assert mechanism._tossed(np.array([7]), Fixed(high, rest)).tolist() == [passes]


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
    with pytest.raises(NoJudgeError, match="private"):
        judge_of(sure, said)


def test_ties_on_the_grid_fall_to_each_alike():
    """Two classes with as many votes, on a grid of 64 a vote: each is the answer half of the time, within 5 standard errors."""
    mechanism = PateAnswers(3, 8, 1, 0.5, 0, 20_000, 20_000)
    said = mechanism.answer(np.tile([4, 4, 0], (20_000, 1)), SeededEntropy(7))
    answered = said[said < 3]
    assert (answered < 2).mean() > 0.999
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
        ({"sigma2": 0.4}, "sigma2"),
        ({"num_classes": 65_535}, "65,534 classes"),
        ({"sigma2": float("inf")}, "sigma2"),
        ({"teachers": 0}, "teachers"),
        ({"max_answered": 51}, "`max_answered`"),
        ({"max_answered": 0}, "`max_answered`"),
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

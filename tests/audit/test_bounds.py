"""One-run and repeated bounds against golden values, scipy, brute-force linear programs and exact enumeration."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import lil_matrix
from scipy.stats import beta, binom

from labeldp.audit.bounds import (
    Tail,
    chosen_alpha,
    clopper_pearson_high,
    clopper_pearson_low,
    one_run,
    one_run_exact,
    repeated_game,
    repeated_guess,
)
from labeldp.errors import InputError

METHODS = [one_run, one_run_exact]


def chance(epsilon, k):
    return 1 / (1 + (k - 1) * math.exp(-epsilon))


def published(v, r, m, k, delta, epsilon):
    """The p-value of Steinke et al. (2023), as it is written."""
    mass = [float(x) for x in binom.pmf(np.arange(r + 1), r, chance(epsilon, k))]
    return math.fsum(mass[v:]) + 2 * m * delta * max(math.fsum(mass[v - i : v]) / i for i in range(1, v + 1))


def exact(v, r, m, k, delta, epsilon):
    """The largest P[v or more right] that an (ε, δ)-DP mechanism allows (docs/proofs/audit.md)."""
    q = chance(epsilon, k)
    f = binom.sf(v - 1, r, q)
    return min(1.0, f + m * delta * f * (1 - f) / (v * binom.pmf(v, r, q)))


# --- binomial tails and limits ---


@pytest.mark.parametrize("r", [1, 2, 7, 100, 12345, 1_000_000])
@pytest.mark.parametrize("odds", [-9.0, -1.0, 0.0, 0.3, 4.0, 12.0])
def test_tails_are_good_to_5e_10(r, odds):
    q, spread = 1 / (1 + math.exp(-odds)), math.sqrt(r) * 0.5 / math.cosh(odds / 2)
    for z in (-6, -1, 0, 1, 3, 8):
        v = min(r, max(1, round(r * q + z * spread)))
        assert Tail(v, r).log_tail(odds) == pytest.approx(binom.logsf(v - 1, r, q), abs=5e-10)
        with mpmath.workdps(50):
            binomial = mpmath.loggamma(r + 1) - mpmath.loggamma(v + 1) - mpmath.loggamma(r - v + 1)
            mass = binomial - v * mpmath.log1p(mpmath.exp(-odds)) - (r - v) * mpmath.log1p(mpmath.exp(odds))
        assert Tail(v, r).log_mass(odds) == pytest.approx(float(mass), abs=5e-10)


@pytest.mark.parametrize("trials", [1, 2, 10, 137, 5000, 100_000])
@pytest.mark.parametrize("alpha", [0.5, 0.05, 1e-4])
def test_clopper_and_pearson(trials, alpha):
    for successes in {0, 1, trials // 3, trials - 1, trials}:
        low, high = clopper_pearson_low(successes, trials, alpha), clopper_pearson_high(successes, trials, alpha)
        expected = beta.ppf(alpha, successes, trials - successes + 1) if successes else 0.0
        assert low == pytest.approx(expected, rel=1e-8)
        assert low <= expected * (1 + 1e-13)
        expected = beta.ppf(1 - alpha, successes + 1, trials - successes) if successes < trials else 1.0
        assert high == pytest.approx(expected, rel=1e-8)
        assert high >= expected * (1 - 1e-13)


# --- one run: golden values and a naive reference ---


@pytest.mark.parametrize(
    ("correct", "guesses", "looks", "golden"),
    [(2807, 3376, 386, 1.13346), (4499, 4666, 374, 2.311945), (8223, 8233, 140, 4.395568)],
)
def test_golden_values_of_jax_privacy(correct, guesses, looks, golden):
    """From jax_privacy's auditing_test.py: 20,000 canaries, δ = 1e-6, α = 0.05 / number of thresholds."""
    found = one_run(correct, guesses, canaries=20_000, delta=1e-6, alpha=0.05 / looks)
    assert found == pytest.approx(golden, rel=1e-5)


@pytest.mark.parametrize(("candidates", "ceiling"), [(2, 5.81), (10, 8.01), (100, 10.40)])
def test_a_thousand_of_a_thousand(candidates, ceiling):
    found = one_run(1000, 1000, canaries=1000, candidates=candidates)
    assert found == pytest.approx(ceiling, abs=0.005)
    assert found == pytest.approx(-math.log(math.expm1(-math.log(0.05) / 1000)) + math.log(candidates - 1), rel=1e-9)


@pytest.mark.parametrize(("method", "p_value"), [(one_run, published), (one_run_exact, exact)])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-3])
@pytest.mark.parametrize(
    ("v", "r", "m", "k"),
    [(1, 1, 1, 50), (5, 6, 9, 10), (40, 50, 50, 2), (70, 100, 300, 10), (300, 300, 400, 2), (150, 1000, 1000, 100)],
)
def test_the_bound_is_where_the_p_value_crosses_alpha(method, p_value, delta, v, r, m, k):
    for alpha in (0.05, 0.002):
        found = method(v, r, canaries=m, candidates=k, delta=delta, alpha=alpha)
        if found > 0:
            assert p_value(v, r, m, k, delta, found) <= alpha
        assert p_value(v, r, m, k, delta, found + 1e-7) > alpha


def test_the_exact_term_is_never_worse_and_often_much_better():
    for v, r in ((2807, 3376), (4499, 4666), (8223, 8233)):
        setting = {"canaries": 20_000, "delta": 1e-6, "alpha": 1e-4}
        assert (
            one_run(v, r, **setting) + 0.25
            < one_run_exact(v, r, **setting)
            < one_run(v, r, canaries=20_000, alpha=1e-4)
        )


def test_few_or_no_right_guesses_prove_nothing():
    for method in METHODS:
        assert method(0, 0, canaries=10) == 0.0
        assert method(0, 10, canaries=10) == 0.0
        assert method(5, 10, canaries=10) == 0.0
        assert method(10, 10, canaries=10, delta=0.5) == 0.0


# --- validity ---


def worst_by_linear_program(m, k, r, v, epsilon, delta):
    """The largest P[v or more right] of *any* (ε, δ)-label-DP mechanism with exactly r guesses, found without theory."""
    secrets = list(itertools.product(range(k), repeat=m))
    answers = [t for t in itertools.product(range(-1, k), repeat=m) if sum(x >= 0 for x in t) == r]
    index, width = {s: i for i, s in enumerate(secrets)}, len(answers)
    pairs = [
        (index[s], index[(*s[:i], c, *s[i + 1 :])]) for s in secrets for i in range(m) for c in range(k) if c != s[i]
    ]
    size = len(secrets) * width
    excess = lil_matrix((len(pairs) * (width + 1), size + len(pairs) * width))
    for p, (a, b) in enumerate(pairs):
        for t in range(width):  # excess ≥ M_a(t) − e^ε M_b(t), and the excesses of a pair add up to δ at most
            excess[p * width + t, a * width + t] = 1
            excess[p * width + t, b * width + t] = -math.exp(epsilon)
            excess[p * width + t, size + p * width + t] = -1
            excess[len(pairs) * width + p, size + p * width + t] = 1
    limits = np.r_[np.zeros(len(pairs) * width), np.full(len(pairs), delta)]
    ones = lil_matrix((len(secrets), excess.shape[1]))
    gain = np.zeros(excess.shape[1])
    for s in range(len(secrets)):
        ones[s, s * width : (s + 1) * width] = 1
        for t in range(width):
            gain[s * width + t] = -(sum(x == y for x, y in zip(secrets[s], answers[t], strict=True)) >= v) / len(
                secrets
            )
    found = linprog(gain, excess.tocsr(), limits, ones.tocsr(), np.ones(len(secrets)), method="highs")
    return -found.fun


@pytest.mark.parametrize(
    ("m", "k", "r", "v"),
    [(2, 2, 1, 1), (2, 2, 2, 1), (2, 2, 2, 2), (3, 2, 2, 2), (2, 3, 1, 1), (2, 3, 2, 2), (2, 4, 2, 2)],
)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.01), (1.0, 0.05)])
def test_the_exact_p_value_is_the_worst_case(m, k, r, v, epsilon, delta):
    assert worst_by_linear_program(m, k, r, v, epsilon, delta) == pytest.approx(
        exact(v, r, m, k, delta, epsilon), abs=1e-7
    )


def extremal(r, m, k, epsilon, delta, v):
    """How many are right under the worst (ε, δ)-DP mechanism for "v or more": a binomial, raised from v on."""
    w, q = np.arange(r + 1), chance(epsilon, k)
    mass = binom.pmf(w, r, q)
    step = m * delta / (v * mass[v])
    raised = mass * (1 - step * binom.sf(v - 1, r, q) + step * (w >= v))
    raised = raised if raised.min() >= 0 else mass * (w >= v) / binom.sf(v - 1, r, q)
    odds = math.exp(epsilon) / (k - 1)
    excess = (w * raised)[1:] - odds * ((r - w) * raised)[:-1]  # m·(P[canary i right, w in all] − e^ε·P′[the same])
    assert np.maximum(0, excess).sum() <= m * delta * (1 + 1e-6) + 1e-12
    assert raised.sum() == pytest.approx(1)
    return raised


def threshold(method, r, epsilon, **setting):
    """The fewest right guesses that "prove" more than ε."""
    low, high = 0, r + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if method(middle, r, **setting) > epsilon else (middle, high)
    return high


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("k", [2, 10, 100])
@pytest.mark.parametrize("r", [12, 100, 1000])
def test_wrong_with_probability_alpha_at_most(method, k, r):
    """Exact, over the worst mechanisms there are: randomized response for δ = 0, a raised binomial for δ > 0."""
    for epsilon, delta, alpha, m in itertools.product((0.0, 1.0, 4.0), (0.0, 1e-5, 1e-4), (0.05, 0.004), (r, 3 * r)):
        v = threshold(method, r, epsilon, canaries=m, candidates=k, delta=delta, alpha=alpha)
        if v > r:
            continue
        q = chance(epsilon, k)
        laws = [binom.pmf(np.arange(r + 1), r, q)]
        if delta:
            laws.append(extremal(r, m, k, epsilon, delta, v))
            laws.append((1 - delta) * laws[0])  # everything revealed with probability δ
            laws[-1][r] += delta
            laws.append(binom.pmf(np.arange(r + 1), r, q + (1 - q) * delta))  # each canary revealed with probability δ
        for law in laws:
            assert law[v:].sum() <= alpha * (1 + 1e-9)


@pytest.mark.parametrize(("r", "m", "k", "v"), [(100, 100, 2, 80), (50, 400, 10, 20), (1000, 1000, 2, 750)])
def test_the_worst_mechanism_attains_the_exact_p_value(r, m, k, v):
    """So that a δ-term any smaller would be wrong, and the enumeration above would notice."""
    for delta in (1e-5, 1e-4, 1e-3):
        assert extremal(r, m, k, 1.0, delta, v)[v:].sum() == pytest.approx(exact(v, r, m, k, delta, 1.0), rel=1e-9)


def test_the_published_term_alone_fails_for_large_alpha():
    """A mechanism that says anything but the exact opposite of ten coins is (0, 1/1023)-DP and always has one guess right."""
    delta, alpha = 1 / 1023, 1 - 2**-11
    assert published(1, 10, 10, 2, delta, 0.0) < alpha
    assert one_run(1, 10, canaries=10, delta=delta, alpha=alpha) == 0.0


def test_a_number_of_guesses_chosen_afterwards_costs_delta():
    """P[right beyond q] adds up to mδ(1−q) at most, and a mechanism that reveals each canary with probability δ attains it."""
    assert chosen_alpha(0.05, canaries=1000, candidates=2, delta=1e-5) == pytest.approx(0.045)
    m, k, epsilon, delta = 50, 3, 1.0, 1e-3
    q = chance(epsilon, k)
    revealed = 1 - (1 - delta * (1 - q)) ** m  # some canary right that randomized response would have got wrong
    assert 0.97 * m * delta * (1 - q) < revealed < m * delta * (1 - 1 / k)


@pytest.mark.parametrize(
    ("k", "shares"),
    [(2, (0.88, 0.92, 0.92, 0.90, 0.71)), (10, (0.87, 0.95, 0.96, 0.96, 0.89)), (100, (0.62, 0.89, 0.95, 0.97, 0.96))],
)
def test_power(k, shares):
    """The mean bound from 1,000 guesses that are right with probability q, as a share of ε = 1, 2, 3, 4, 8."""
    for epsilon, share in zip((1.0, 2.0, 3.0, 4.0, 8.0), shares, strict=True):
        law = binom.pmf(np.arange(1001), 1000, chance(epsilon, k))
        likely = np.flatnonzero(law > 1e-6)
        mean = sum(law[v] * one_run(int(v), 1000, canaries=1000, candidates=k) for v in likely) / epsilon
        assert mean == pytest.approx(share, abs=0.01)


# --- repeated games ---


@pytest.mark.parametrize("delta", [0.0, 0.05])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.5])
def test_repeated_game_is_wrong_with_probability_alpha_at_most(epsilon, delta):
    """Exact, for attackers on the edge of what (ε, δ)-DP allows, in either direction."""
    n, alpha = 25, 0.1
    counts = np.arange(n + 1)
    too_large = np.array(
        [[repeated_game(t, n, f, n, delta=delta, alpha=alpha) > epsilon for f in counts] for t in counts]
    )
    assert too_large.any()
    for fpr in (0.001, 0.02, 0.1, 0.3, 0.6):
        tpr = min(1.0, math.exp(epsilon) * fpr + delta, 1 - (1 - fpr - delta) * math.exp(-epsilon))
        for a, b in ((tpr, fpr), (1 - fpr, 1 - tpr)):
            law = np.outer(binom.pmf(counts, n, a), binom.pmf(counts, n, b))
            assert law[too_large].sum() <= alpha


def test_repeated_game_takes_the_better_direction():
    low, high = beta.ppf(0.025, 60, 41), beta.ppf(0.975, 1, 100)
    assert repeated_game(60, 100, 0, 100) == pytest.approx(math.log(low / high), rel=1e-7)
    assert repeated_game(100, 100, 40, 100) == pytest.approx(math.log(low / high), rel=1e-7)
    assert repeated_game(60, 100, 0, 100, delta=0.1) == pytest.approx(math.log((low - 0.1) / high), rel=1e-7)
    assert repeated_game(5, 10, 5, 10) == 0.0


def test_repeated_guess_is_the_theorem_with_clopper_and_pearson():
    low = beta.ppf(0.05, 900, 101)
    assert repeated_guess(900, 1000) == pytest.approx(math.log(low / (1 - low)), rel=1e-8)
    assert repeated_guess(0, 0) == repeated_guess(0, 9) == repeated_guess(5, 10) == 0.0


# --- bad input ---


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"correct": 2.5}, "correct must be a whole number"),
        ({"correct": -1}, "must not be negative"),
        ({"correct": 11}, r"correct \(11\) cannot be more than guesses \(10\)"),
        ({"guesses": 30}, r"guesses \(30\) cannot be more than canaries \(20\)"),
        ({"alpha": 0.0}, "alpha is the accepted chance"),
        ({"alpha": 1.0}, "between 0 and 1"),
        ({"alpha": math.nan}, "between 0 and 1"),
        ({"candidates": 1}, "at least 2 candidate labels"),
        ({"delta": 1.0}, "delta must be at least 0 and below 1"),
        ({"delta": -1e-9}, "delta must be at least 0"),
    ],
)
def test_errors_teach(change, message):
    for method in METHODS:
        with pytest.raises(InputError, match=message):
            method(**{"correct": 9, "guesses": 10, "canaries": 20, **change})


def test_errors_of_the_others():
    with pytest.raises(InputError, match="both data sets"):
        repeated_game(0, 0, 1, 2)
    with pytest.raises(InputError, match="cannot be more than negatives"):
        repeated_game(1, 2, 3, 2)
    with pytest.raises(InputError, match="successes"):
        clopper_pearson_low(3, 2, 0.05)
    with pytest.raises(InputError, match="alpha"):
        repeated_guess(1, 2, alpha=5)

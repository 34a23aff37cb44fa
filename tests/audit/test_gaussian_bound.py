"""The Gaussian one-run bound: golden values, a linear program, exact enumeration, and what it gets wrong by design."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, norm

from labeldp.accounting.gaussian import gaussian_epsilon
from labeldp.audit.bounds import gaussian_one_run
from labeldp.errors import InputError


@pytest.mark.parametrize(
    ("correct", "guesses", "looks", "golden"),
    [(379, 406, 386, 2.164749), (934, 938, 374, 4.7218075), (5436, 5436, 140, 9.133752)],
)
def test_golden_values_of_jax_privacy(correct, guesses, looks, golden):
    """From jax_privacy's auditing_test.py (`one_fdp` …): 20,000 canaries, δ = 1e-6; the counts are those of its best threshold."""
    found = gaussian_one_run(correct, guesses, canaries=20_000, delta=1e-6, alpha=0.05 / looks)
    assert found.epsilon == pytest.approx(golden, rel=1e-5)
    assert found.epsilon == gaussian_epsilon(found.mu, 1e-6)


def most_likely(v, n, m, k, mu):
    """The largest P[v or more right] that the inequalities between R and H allow; tangents stand for the curve."""
    w = np.arange(n + 1)
    rows, limits = [], []
    for j in range(1, n + 1):
        right, wrong = w * (w >= j) / m, (n - w) * (w >= j - 1) / m / (k - 1)
        for z in np.linspace(-6, 6, 1200):  # Φ(Φ⁻¹(R) − μ) lies above its tangent at R = Φ(z)
            slope = math.exp(z * mu - mu * mu / 2)
            rows.append(slope * right - wrong)
            limits.append(slope * norm.cdf(z) - norm.cdf(z - mu))
    found = linprog(-1.0 * (w >= v), np.array(rows), np.array(limits), np.ones((1, n + 1)), [1], method="highs")
    return -found.fun


@pytest.mark.parametrize(("v", "n", "m", "k"), [(3, 3, 3, 2), (4, 5, 5, 2), (4, 4, 6, 3)])
@pytest.mark.parametrize("mu", [0.5, 1.5])
def test_going_down_with_as_little_as_possible_is_the_best(v, n, m, k, mu):
    """The recursion finds what a linear program finds: at that α, μ is just not rejected."""
    alpha = most_likely(v, n, m, k, mu)
    found = gaussian_one_run(v, n, canaries=m, candidates=k, delta=1e-5, alpha=alpha)
    assert found.mu == pytest.approx(mu, abs=2e-3)


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("n", [20, 80])
def test_two_candidates_are_wrong_with_probability_alpha_at_most(mu, n):
    """Exact: against Gaussian noise each of n guesses is right with probability Φ(μ/2), independently."""
    for alpha in (0.05, 0.3):
        mus = [gaussian_one_run(v, n, canaries=n, delta=1e-5, alpha=alpha).mu for v in range(n + 1)]
        assert mus == sorted(mus)
        assert binom.pmf(np.arange(n + 1), n, norm.cdf(mu / 2))[np.array(mus) > mu].sum() <= alpha


def test_the_surest_are_wrong_with_probability_alpha_at_most():
    """2,000 seeded audits, K one-hot coordinates in Gaussian noise, the surest fifth guessed; pass mark α + 3 standard errors."""
    rng, trials, m, k, n, alpha = np.random.default_rng(5), 2000, 100, 4, 20, 0.2
    sigma = 0.7
    noisy = rng.normal(scale=sigma, size=(trials, m, k))
    noisy[:, :, 0] += 1
    best = np.sort(noisy, axis=2)
    surest = np.argsort(best[:, :, -2] - best[:, :, -1], axis=1)[:, :n]
    right = np.take_along_axis(noisy.argmax(axis=2) == 0, surest, axis=1).sum(axis=1)
    mus = np.array([gaussian_one_run(v, n, canaries=m, candidates=k, delta=1e-5, alpha=alpha).mu for v in range(n + 1)])
    wrong = (mus[right] > math.sqrt(2) / sigma).mean()
    assert wrong <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / trials)
    assert mus[right].mean() > 0.3 * math.sqrt(2) / sigma


def test_it_is_false_of_randomized_response():
    """953 of 1,000 right is what randomized response of ε = 3 gives: "proven" is an ε that the mechanism does not have."""
    found = gaussian_one_run(953, 1000, canaries=1000, delta=1e-5)
    assert found.epsilon == pytest.approx(5.196, abs=1e-3)
    # μ itself is right: randomized response of ε = 3 is μ-Gaussian-DP from 2Φ⁻¹(e³/(1 + e³)) on.
    assert found.mu < 2 * norm.ppf(1 / (1 + math.exp(-3)))


def test_nothing_is_proven_by_guessing():
    assert gaussian_one_run(0, 10, canaries=10, delta=1e-5) == (0.0, 0.0)
    assert gaussian_one_run(52, 100, canaries=100, delta=1e-5) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delta": 0.0}, "only at a δ between 0 and 1"),
        ({"candidates": 1}, "at least 2 candidate labels"),
        ({"correct": 11}, "cannot be more than guesses"),
        ({"canaries": 9}, "cannot be more than canaries"),
        ({"correct": 1.0}, "whole number"),
        ({"alpha": 2}, "alpha"),
    ],
)
def test_errors_teach(change, message):
    with pytest.raises(InputError, match=message):
        gaussian_one_run(**{"correct": 9, "guesses": 10, "canaries": 20, "delta": 1e-5, **change})

"""The fit: against scikit-learn's where there is no noise, its gradient, its shrinkage, its calibration."""

import math

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.linear_model import LogisticRegression

from labeldp.entropy import SeededEntropy
from labeldp.errors import InputError
from labeldp.private import PrivateLabels
from labeldp.statistics import fit
from labeldp.statistics.fit import MomentModel, fit_moments, log_partition, prior_of
from labeldp.statistics.moment_noise import MomentNoise, exact_moments
from labeldp.statistics.whitening import Preprocessing


def problem(n=3000, d=6, classes=2, seed=0, strength=1.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.5
    w = rng.normal(size=(d, classes)) * strength
    logits = x @ w + np.linspace(-0.5, 0.5, classes)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    made = Preprocessing.of(x, power=0.5, clip_quantile=0.95, knots=0)
    return x, y, p, made, made.apply(x)


def fitted(q, y, made, classes, epsilon=None, seed=0, **options):
    dimensions = made.dimensions
    if epsilon is None:
        noise = MomentNoise(
            made.radius / 16, made.radius, dimensions, classes
        )  # as little as there can be, and none is added
        return fit_moments(q, exact_moments(q, PrivateLabels(y, classes), noise), noise, made.variances, **options)
    noise = MomentNoise.calibrated(
        epsilon=epsilon, delta=1e-5, radius=made.radius, dimensions=dimensions, num_classes=classes
    )
    released = exact_moments(q, PrivateLabels(y, classes), noise) + noise.sample(SeededEntropy(seed))
    return fit_moments(q, released, noise, made.variances, **options)


@pytest.mark.parametrize("classes", [2, 4])
def test_without_noise_it_is_logistic_regression(classes):
    """Scikit-learn's optimum on the same whole numbers, whose penalty is as weak; probabilities before they are moderated."""
    _, y, _, made, q = problem(n=20_000, classes=classes)
    model = fitted(q, y, made, classes, tolerance=1e-3)
    z = q / made.radius
    reference = LogisticRegression(C=1e4, fit_intercept=False, tol=1e-8, max_iter=2000).fit(z, y).predict_proba(z)
    mean, _ = model.scores(q)
    _, p = fit._log_partition(mean)
    found = np.append(1 - p, p, axis=1) if classes == 2 else p
    assert np.abs(found - reference).max() < 0.01
    assert np.abs(model.probabilities(q) - reference).max() < 0.015
    assert model.converged


@pytest.mark.parametrize("columns", [1, 3])
def test_the_gradient_of_the_log_partition(columns):
    q = np.random.default_rng(0).integers(-3000, 3000, (40, 4)).astype(np.int16)
    start = np.random.default_rng(1).normal(size=4 * columns)

    def value(theta):
        return log_partition(q, 4096, theta.reshape(4, columns))[0]

    def gradient(theta):
        return log_partition(q, 4096, theta.reshape(4, columns))[1].ravel()

    assert check_grad(value, gradient, start, epsilon=1e-2) < 1e-2 * np.linalg.norm(gradient(start))


def test_the_fisher_diagonal_is_the_curvature():
    q = np.random.default_rng(0).integers(-3000, 3000, (200, 3)).astype(np.int16)
    w = np.array([[0.3], [-0.2], [0.5]])
    _, _, fisher = log_partition(q, 4096, w)
    for j in range(3):
        step = np.zeros((3, 1))
        step[j] = 0.01
        ahead, behind = (log_partition(q, 4096, w + sign * step)[1][j, 0] for sign in (1, -1))
        assert fisher[j, 0] == pytest.approx((ahead - behind) / 0.02, rel=1e-2)


def test_the_prior_is_found_where_the_likelihood_is_largest():
    """Residuals that were drawn from a known prior lead back to it: 400 numbers, within a factor of 1.4."""
    rng = np.random.default_rng(0)
    axes, f = np.linspace(4, 0.1, 400), np.full((400, 1), 50.0)
    square = axes / axes.sum()
    tau = 2.0 * (axes / axes.mean()) / float((axes / axes.mean()) @ square)
    residual = rng.normal(size=(400, 1)) * np.sqrt(f[:, 0] ** 2 * tau + f[:, 0] + 30.0)[:, None]
    prior = prior_of(residual, f, 30.0, axes, square)
    assert 1 / 1.4 < prior.logit_variance / 2.0 < 1.4
    assert 0.75 <= prior.power <= 1.25


def test_less_noise_is_better_and_no_noise_tells_all():
    _, y, p, made, q = problem(n=8000)
    truth = p[:, 1]
    errors = [
        np.mean([np.abs(fitted(q, y, made, 2, e, seed).probabilities(q)[:, 1] - truth).mean() for seed in range(3)])
        for e in (0.02, 0.2, 2.0)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.03


@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_predictions_are_calibrated(epsilon):
    """Over draws of weights and noise, the mean log loss is at most that of the class shares (and hardly above the best scaling)."""
    losses, shares = [], []
    for seed in range(8):
        _, y, _, made, q = problem(n=1500, seed=seed, strength=0.7)
        said = np.clip(fitted(q, y, made, 2, epsilon, seed).probabilities(q)[:, 1], 1e-9, 1 - 1e-9)
        losses.append(-np.mean(np.where(y == 1, np.log(said), np.log(1 - said))))
        share = y.mean()
        shares.append(-share * math.log(share) - (1 - share) * math.log(1 - share))
    assert np.mean(losses) < np.mean(shares) + 0.02


def test_every_noisy_statistic_has_a_fit():
    """However absurd: the ridge keeps the objective bounded, and probabilities are some."""
    _, _, _, made, q = problem(n=50, classes=5)
    noise = MomentNoise(1e8, made.radius, made.dimensions, 5)
    model = fit_moments(q, noise.sample(SeededEntropy(0)), noise, made.variances)
    p = model.probabilities(q)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(model.shares.sum(), 1, atol=1e-5)


def test_standard_errors_are_those_of_fits_from_fresh_noise():
    """Spread of 30 fits from fresh noise (labels fixed) is below the stated errors, which hold sampling too; above half of the noise's."""
    _, y, _, made, q = problem(n=5000)
    every = [fitted(q, y, made, 2, 0.1, seed) for seed in range(30)]
    spread = np.std([one.weights[:-1, 0] for one in every], axis=0)
    stated = np.mean([one.standard_errors[:-1, 0] for one in every], axis=0)
    assert 0.5 < np.mean(spread / stated) < 1.5


def test_more_rows_than_a_first_fit_takes(monkeypatch):
    _, y, _, made, q = problem(n=4000, classes=3)
    whole = fitted(q, y, made, 3, 1.0, tolerance=1e-3)
    monkeypatch.setattr(fit, "_FIRST", 500)
    monkeypatch.setattr(fit, "_KEPT", 1)
    some = fitted(q, y, made, 3, 1.0, tolerance=1e-3)
    assert some.posterior.ndim == 2
    assert np.abs(some.scores(q)[0] - whole.scores(q)[0]).mean() < 0.1


def test_bytes_go_there_and_back():
    _, y, _, made, q = problem(n=300, classes=3)
    model = fitted(q, y, made, 3, 1.0)
    again = MomentModel.from_bytes(model.to_bytes())
    np.testing.assert_array_equal(again.probabilities(q), model.probabilities(q))
    assert (again.prior, again.radius, again.iterations) == (model.prior, model.radius, model.iterations)
    for bad in (b"", b"PK", model.to_bytes()[:-40], model.to_bytes()[100:]):
        with pytest.raises(InputError):
            MomentModel.from_bytes(bad)


def test_what_does_not_fit():
    _, y, _, made, q = problem(n=100)
    model = fitted(q, y, made, 2, 1.0)
    with pytest.raises(InputError, match="7 columns"):
        model.probabilities(q[:, :3])
    noise = MomentNoise(1e5, made.radius, made.dimensions, 2)
    with pytest.raises(InputError):
        fit_moments(q[:, :2], noise.sample(SeededEntropy(0)), noise, made.variances)
    with pytest.raises(InputError):
        fit_moments(q, noise.sample(SeededEntropy(0)), noise, made.variances[:2])

"""What every mechanism owes: one suite over all of them."""

import dataclasses
import json

import numpy as np
import pytest

from labeldp import PrivateLabels, SecureEntropy, SeededEntropy
from labeldp.errors import InputError
from labeldp.mechanisms import BY_NAME, NoPrivacy, mechanism_from_json
from labeldp.mechanisms.plan import NAMES, calibrate

from .channels import as_observations, calibrated, channel

ALL = [(name, c) for name in NAMES for c in (2, 3, 10, 100, 300)]


def labels(num_classes, rows=20_000, seed=0):
    y = np.random.default_rng(seed).integers(0, num_classes, rows)
    return y, PrivateLabels(y, num_classes)


@pytest.mark.parametrize(("name", "num_classes"), ALL)
def test_shapes_and_types(name, num_classes):
    mechanism = calibrated(name, 2.0, num_classes)
    y, private = labels(num_classes, 1000)
    observations = mechanism.observe_uncharged(private, SecureEntropy())
    assert observations.shape == ((1000,) if mechanism.one_class else (1000, mechanism.observation_bytes))
    assert observations.nbytes == 1000 * mechanism.observation_bytes
    assert mechanism.valid(observations)
    evidence = mechanism.evidence(observations)
    assert evidence.shape == (1000, num_classes)
    assert evidence.dtype == np.float32
    assert np.isfinite(evidence).all()
    statistic = mechanism.statistic(observations, y)
    assert statistic.shape == (1000,)


@pytest.mark.parametrize(("name", "num_classes"), ALL)
def test_observations_carry_the_stated_information(name, num_classes):
    """Mean of log posterior(truth) + log C under a uniform prior, against information(). False alarm: 6e-5 each."""
    mechanism = calibrated(name, 2.0, num_classes)
    y, private = labels(num_classes)
    evidence = mechanism.evidence(mechanism.observe_uncharged(private, SecureEntropy())).astype(np.float64)
    gained = evidence[np.arange(len(y)), y] - np.log(np.mean(np.exp(evidence), axis=1))
    assert abs(gained.mean() - mechanism.information()) < 4 * gained.std() / len(y) ** 0.5


@pytest.mark.parametrize(("name", "num_classes"), ALL)
def test_the_law_is_that_of_the_statistic(name, num_classes):
    """At the true class and at another, 5 standard errors. False alarm: 1e-6 each."""
    mechanism = calibrated(name, 1.0, num_classes)
    y, private = labels(num_classes)
    observations = mechanism.observe_uncharged(private, SecureEntropy())
    law = mechanism.law()
    other = (y + 1) % num_classes
    for classes, mean, variance in ((y, law.mean_true, law.variance_true),
                                    (other, law.mean_other, law.variance_other)):  # fmt: skip
        seen = mechanism.statistic(observations, classes)
        assert abs(seen.mean() - mean) < 5 * (variance / len(y)) ** 0.5
        spread = (seen - mean) ** 2
        assert abs(spread.mean() - variance) < 5 * spread.std() / len(y) ** 0.5 + 1e-3 * variance
    assert law.mean_true > law.mean_other


@pytest.mark.parametrize("name", ["response", "subset", "unary"])
@pytest.mark.parametrize("num_classes", [2, 3, 6])
def test_evidence_is_the_log_likelihood_up_to_a_constant(name, num_classes):
    mechanism = calibrated(name, 1.7, num_classes)
    table = channel(mechanism)
    evidence = mechanism.evidence(as_observations(mechanism, list(table)))
    for row, probabilities in zip(evidence, table.values(), strict=True):
        exact = np.log([float(p) for p in probabilities])
        np.testing.assert_allclose(row - row[0], exact - exact[0], atol=1e-6)


def test_laplace_evidence_is_the_papers_formula():
    mechanism = calibrated("laplace", 2.0, 10)
    _, private = labels(10, 5000)
    observations = mechanism.observe_uncharged(private, SecureEntropy())
    o = mechanism.values(observations).astype(np.float64)
    formula = (np.abs(o) - np.abs(o - 1)) / mechanism.scale
    np.testing.assert_allclose(mechanism.evidence(observations), formula, atol=2e-4)


def test_gaussian_evidence_is_the_papers_formula():
    """o_c/σ² up to a constant: divided by σ², not by σ."""
    mechanism = calibrated("gaussian", 2.0, 10)
    _, private = labels(10, 5000)
    observations = mechanism.observe_uncharged(private, SecureEntropy())
    formula = (mechanism.values(observations).astype(np.float64) - 0.5) / mechanism.sigma**2
    inner = (observations > 0) & (observations < 255)
    np.testing.assert_allclose(mechanism.evidence(observations)[inner], formula[inner], atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_observations_other_seed_others(name):
    mechanism = calibrated(name, 1.0, 10)
    _, private = labels(10, 2000)
    first, again, other = (mechanism.observe_uncharged(private, SeededEntropy(s)) for s in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("name", NAMES)
def test_secure_draws_differ(name):
    mechanism = calibrated(name, 1.0, 10)
    _, private = labels(10, 2000)
    assert (
        mechanism.observe_uncharged(private, SecureEntropy()) != mechanism.observe_uncharged(private, SecureEntropy())
    ).any()


# Beside those that need more than an ε: teachers, a prior for each row, candidates.
@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in ("pate", "prior", "selected")])
def test_description_round_trip(name):
    mechanism = calibrate(name, epsilon=1.5, num_classes=10)
    assert mechanism_from_json(json.loads(json.dumps(mechanism.to_json()))) == mechanism
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.num_classes = 3


@pytest.mark.parametrize(
    "data",
    [
        None, {}, {"name": "x", "num_classes": 10, "parameters": {}}, {"name": "response", "num_classes": 10},
        {"name": "response", "num_classes": 10, "parameters": {"other": "0"}},
        {"name": "response", "num_classes": 10, "parameters": {"other": str(2**63)}},
        {"name": "response", "num_classes": "10", "parameters": {"other": "5"}},
        {"name": "subset", "num_classes": 10, "parameters": {"size": 10, "holds": str(2**63)}},
        {"name": "subset", "num_classes": 10, "parameters": {"size": 3, "holds": "7"}},
        {"name": "subset", "num_classes": 10, "parameters": {"size": 3, "holds": "seven"}},
        {"name": "unary", "num_classes": 10, "parameters": {"keep": "1"}},
        {"name": "laplace", "num_classes": 10, "parameters": {"scale": 1e-9}},
        {"name": "laplace", "num_classes": 10, "parameters": {"scale": float("nan")}},
        {"name": "laplace", "num_classes": 10, "parameters": {"scale": "2"}},
        {"name": "gaussian", "num_classes": 10, "parameters": {"sigma": float("inf"), "delta": 1e-5}},
        {"name": "gaussian", "num_classes": 10, "parameters": {"sigma": 1.0, "delta": 0}},
        {"name": "none", "num_classes": 10**9, "parameters": {}},
    ],
)  # fmt: skip
def test_descriptions_that_cannot_be_are_refused(data):
    with pytest.raises(InputError):
        mechanism_from_json(data)


def test_no_privacy_hands_out_the_labels():
    y, private = labels(10, 100)
    mechanism = NoPrivacy(10)
    observations = mechanism.observe_uncharged(private, SecureEntropy())
    assert (observations == y).all()
    evidence = mechanism.evidence(observations)
    assert (evidence.argmax(axis=1) == y).all()
    assert sorted(set(evidence.ravel())) == [-np.inf, 0.0]
    assert mechanism.information() == pytest.approx(np.log(10))


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_the_statistic_is_sharper_than_the_clipped_value(name):
    """Its standard error for an accuracy of 1/2 is at most that of clip(o, 0, 1) and of o itself; rounding it to levels costs 0.2%."""
    mechanism = calibrated(name, 1.0, 10)
    p = mechanism._probabilities()
    value = mechanism.values(np.arange(256, dtype=np.uint8)[:, None])[:, 0].astype(np.float64)

    def error(statistic):
        mixed = (p + p[::-1]) / 2
        return np.sqrt(mixed @ statistic**2 - (mixed @ statistic) ** 2) / (p[::-1] @ statistic - p @ statistic)

    posterior, rounded = p[::-1] / (p + p[::-1]), mechanism._cell_levels()
    assert error(posterior) <= min(error(np.clip(value, 0, 1)), error(value)) * (1 + 1e-9)
    assert error(posterior) <= error(rounded) <= error(posterior) * 1.002

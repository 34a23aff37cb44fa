"""Class shares, held-out loss and calibration, against a naive reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.errors import InputError
from labeldp.estimators import likelihood
from labeldp.mechanisms import Laplace, NoPrivacy, SubsetSelection
from tests.estimators.releases import released, table


@given(st.integers(2, 6), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_the_loss_and_its_gradient(classes, seed):
    generator = np.random.default_rng(seed)
    logits, evidence = generator.normal(size=(2, 4, classes)) * 3
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    each, error = likelihood.loss_and_error(logits, evidence)
    np.testing.assert_allclose(each, -np.log((p * np.exp(evidence)).sum(axis=1)))
    for c in range(classes):
        step = np.eye(classes)[c] * 1e-5
        slope = (likelihood.loss(logits + step, evidence) - likelihood.loss(logits - step, evidence)) / 2e-5
        np.testing.assert_allclose(error[:, c], slope, atol=1e-8)


def test_a_class_that_is_ruled_out():
    evidence = np.array([[0.0, -np.inf]])
    each, error = likelihood.loss_and_error(np.zeros((1, 2)), evidence)
    np.testing.assert_allclose(each, np.log(2))
    np.testing.assert_allclose(error, [[-0.5, 0.5]])


@pytest.mark.parametrize("kind", ["response", "subset", "laplace", "none"])
def test_shares_and_what_a_release_tells(kind):
    y = np.random.default_rng(0).choice(4, size=40_000, p=[0.5, 0.3, 0.15, 0.05])
    mechanism = {
        "response": None,
        "subset": SubsetSelection.calibrated(epsilon=2.0, num_classes=4),
        "laplace": Laplace.calibrated(epsilon=4.0, num_classes=4),
        "none": NoPrivacy(4),
    }[kind]
    release = released(y, 2.0, 4, mechanism=mechanism)
    start = likelihood.start_of(release.evidence, np.arange(len(y)), 4)
    np.testing.assert_allclose(start.shares, [0.5, 0.3, 0.15, 0.05], atol=0.025)  # 3.5 standard errors and more
    assert start.nats == pytest.approx(release.mechanism.information(start.shares), rel=0.03)
    assert (start.dulling >= 0).all()


def test_dulling_of_two_class_response_is_its_formula():
    release = released(np.arange(20_000) % 5 == 0, 1.0)
    start = likelihood.start_of(release.evidence, np.arange(20_000), 2)
    np.testing.assert_allclose(start.dulling, np.e / (np.e - 1) ** 2, rtol=0.01)


def test_calibration_finds_a_slope_that_was_lost():
    x, _ = table(20_000)
    y = (x[:, 0] * 2 - 1 + np.random.default_rng(1).logistic(size=len(x)) > 0).astype(int)
    release = released(y, 2.0)
    scores = likelihood.as_logits(x[:, 0] * 2 - 1) / 2
    logits = scores - scores.mean(axis=1, keepdims=True)
    found = likelihood.calibrate(logits, release.evidence, np.arange(len(y)))
    assert found.slope == pytest.approx(2, abs=0.25)
    assert np.abs(found.bias).max() < 0.15
    few = likelihood.calibrate(logits[:4], release.evidence, np.arange(4))
    assert 0.7 < few.slope < 1.5  # four rows say next to nothing


def test_folds():
    found = likelihood.folds(103, 5, seed=1)
    assert set(np.bincount(found)) == {20, 21}
    with pytest.raises(InputError, match="too few"):
        likelihood.folds(9, 5, seed=0)
    with pytest.raises(InputError, match="2 to 20 folds"):
        likelihood.folds(100, 1, seed=0)

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from labeldp import NoPrivacy, PrivateLabels, SecureEntropy
from labeldp.errors import InputError
from labeldp.evaluation.indicators import Indicators
from labeldp.evaluation.proper import LEAST_PROBABILITY, compare, log_likelihoods, proper_ratio, released_likelihoods
from labeldp.mechanisms.plan import NAMES, calibrate


def population(classes, rows, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), rows)
    return (p.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1), p


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_scikit_learn_agrees_on_true_labels(classes):
    labels, p = population(classes, 300)
    found = Indicators.of(NoPrivacy(classes), labels.astype(np.uint8))
    assert proper_ratio("log_loss", found, p).top == pytest.approx(log_loss(labels, p))
    brier = (
        brier_score_loss(labels, p[:, 1])
        if classes == 2
        else ((p - np.eye(classes)[labels]) ** 2).sum(axis=1).mean()  # scikit-learn has it since 1.7
    )
    assert proper_ratio("brier", found, p).top == pytest.approx(brier)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("classes", [2, 5])
def test_unbiased(name, classes):
    """100,000 rows: each within 5 standard errors of what true labels say, false alarm below 1e-6."""
    labels, p = population(classes, 100_000)
    mechanism = calibrate(name, epsilon=2.0, num_classes=classes)
    released = mechanism.observe_uncharged(PrivateLabels(labels, classes), SecureEntropy())
    for metric in ("log_loss", "brier"):
        found = proper_ratio(metric, Indicators.of(mechanism, released), p)
        true = proper_ratio(metric, Indicators.of(NoPrivacy(classes), labels.astype(np.uint8)), p)
        assert abs(found.top - true.top) < 5 * found.standard_error(0.0)


def test_a_sure_mistake_is_finite():
    p = np.array([[1.0, 0.0], [0.0, 1.0]])
    found = Indicators.of(NoPrivacy(2), np.array([1, 1], dtype=np.uint8))
    assert proper_ratio("log_loss", found, p).top == pytest.approx(-np.log(LEAST_PROBABILITY) / 2)


def test_the_likelihood_is_as_written():
    labels, p = population(4, 50)
    evidence = np.random.default_rng(1).normal(size=(50, 4))
    assert log_likelihoods(evidence, p) == pytest.approx(np.log((p * np.exp(evidence)).sum(axis=1)))
    mechanism = NoPrivacy(4)
    assert -released_likelihoods(mechanism, labels.astype(np.uint8), p).mean() == pytest.approx(log_loss(labels, p))
    with pytest.raises(InputError, match="one column a class"):
        log_likelihoods(evidence, p[:, :3])


def test_a_comparison_is_paired():
    rng = np.random.default_rng(2)
    common = rng.normal(0, 10, 1000)
    a, b = common + rng.normal(0.1, 0.1, 1000), common
    difference, error = compare(a, b)
    assert difference == pytest.approx(0.1, abs=0.02)
    assert error == pytest.approx((a - b).std(ddof=1) / np.sqrt(1000))
    for wrong in (b[:-1], b[:, None]):
        with pytest.raises(InputError, match="same rows"):
            compare(a, wrong)

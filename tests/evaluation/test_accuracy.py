import math
from functools import lru_cache

import numpy as np
import pytest

from labeldp import NoPrivacy, PrivateLabels, RandomizedResponse, SecureEntropy
from labeldp.errors import InputError
from labeldp.evaluation.accuracy import accuracy_text, estimate_accuracy
from labeldp.mechanisms.plan import NAMES, calibrate


@lru_cache
def calibrated(name, epsilon, classes):
    return NoPrivacy(classes) if name == "none" else calibrate(name, epsilon=epsilon, num_classes=classes)


def held_out(name, classes, accuracy, rows, rng, epsilon=1.0):
    """Observations, and predictions that are right with probability `accuracy`, with class-dependent errors."""
    mechanism = calibrated(name, epsilon, classes)
    labels = rng.integers(0, classes, rows)
    right = rng.random(rows) < accuracy
    predictions = np.where(right, labels, (labels + 1 + labels % (classes - 1)) % classes)
    observations = mechanism.observe_uncharged(PrivateLabels(labels, classes), SecureEntropy())
    return mechanism, observations, predictions, float((predictions == labels).mean())


@pytest.mark.parametrize("name", [*NAMES, "none"])
@pytest.mark.parametrize(("classes", "accuracy"), [(2, 0.9), (10, 0.97)])
def test_the_interval_covers(name, classes, accuracy):
    """From real observations; test_limits.py enumerates it. Of 100 intervals at most 18 miss: false alarm below 2e-6 each."""
    rng, missed = np.random.default_rng(7), 0
    for _ in range(100):
        mechanism, observations, predictions, _ = held_out(name, classes, accuracy, 100, rng, epsilon=4.0)
        low, high = estimate_accuracy(mechanism, observations, predictions).interval()
        missed += not low <= accuracy <= high
    assert missed <= 18


@pytest.mark.parametrize(
    ("unbiased", "interval", "text"),
    [
        (0.9731, (0.94207, 0.99003), "97.31% (95%: 94.20% to 99.01%)"),
        (1.1146, (0.85209, 1.0), "at least 85.20% (95%; at most 100%)"),
        (-0.02, (0.0, 0.03101), "at most 3.11% (95%; at least 0%)"),
        (1.0, (0.9, 1.0), "100.00% (95%: 90.00% to 100.00%)"),
        (1.2, None, "100.00%"),
    ],
)
def test_an_impossible_accuracy_is_never_said(unbiased, interval, text):
    """Its limit is; ends are rounded outwards."""
    assert accuracy_text(unbiased, interval) == text


def test_an_estimate_above_1_is_said_as_a_limit():
    """40 of 40 rows are as predicted, though the mechanism keeps 73% of labels: unbiased that comes to 158%."""
    mechanism = RandomizedResponse.calibrated(epsilon=1.0, num_classes=2)
    same = np.zeros(40, dtype=np.uint8)
    estimate = estimate_accuracy(mechanism, same, same.astype(int))
    assert estimate.unbiased == pytest.approx(1.582, abs=1e-3)
    assert estimate.accuracy == 1
    low, high = estimate.interval()
    assert (high, low) == (
        1.0,
        pytest.approx(0.597, abs=0.05),
    )  # as if 29 of 40, which all right would lead one to expect
    assert str(estimate) == f"at least {math.floor(1e4 * low) / 1e4:.2%} (95%; at most 100%)"
    with pytest.raises(InputError, match="confidence"):
        estimate.interval(95)


@pytest.mark.parametrize("name", [*NAMES, "none"])
def test_unbiased(name):
    mechanism, observations, predictions, accuracy = held_out(name, 10, 0.8, 200_000, np.random.default_rng(1), 2.0)
    result = estimate_accuracy(mechanism, observations, predictions)
    assert abs(result.unbiased - accuracy) < 5 * result.standard_error + 1e-12
    assert result.standard_error < 0.05


def test_memorised_rows_score_nonsense():
    """Why training rows must not be used: predictions that follow the noise "score" far above 1."""
    rng = np.random.default_rng(2)
    mechanism = calibrate("subset", epsilon=1.0, num_classes=10)
    observations = mechanism.observe_uncharged(PrivateLabels(rng.integers(0, 10, 5000), 10), SecureEntropy())
    memorised = mechanism.evidence(observations).argmax(axis=1)
    with pytest.raises(InputError, match=r"come to 27[0-9]%.*were these rows trained on"):
        estimate_accuracy(mechanism, observations, memorised)


def test_intervals_are_cut_to_what_can_be():
    mechanism, observations, predictions, _ = held_out("response", 2, 1.0, 50, np.random.default_rng(3), 0.5)
    low, high = estimate_accuracy(mechanism, observations, predictions).interval()
    assert 0 <= low <= high <= 1


def test_bad_input():
    mechanism, observations, predictions, _ = held_out("response", 10, 0.5, 20, np.random.default_rng(4))
    for wrong, message in ((predictions[:-1], "19 predictions"), (predictions + 10, "class numbers")):
        with pytest.raises(InputError, match=message):
            estimate_accuracy(mechanism, observations, wrong)
    for wrong in (predictions.astype(float), predictions[:, None]):
        with pytest.raises(InputError, match="one class number a row"):
            estimate_accuracy(mechanism, observations, wrong)
    with pytest.raises(InputError, match="say nothing"):
        estimate_accuracy(RandomizedResponse(2, 2**63), observations % 2, predictions % 2)
    with pytest.raises(InputError, match="two held-out"):
        estimate_accuracy(mechanism, observations[:1], predictions[:1])


def test_canaries_are_taken_out():
    """Planted labels are right by chance, 1 in C; the interval is the seen one, moved in the same way."""
    mechanism = NoPrivacy(4)
    truth = np.arange(1000) % 4
    predictions = np.where(np.arange(1000) < 900, truth, (truth + 1) % 4)
    seen = estimate_accuracy(mechanism, truth.astype(np.uint8), predictions)
    assert seen.accuracy == pytest.approx(0.9)
    clean = seen.without_canaries(0.1, 4)
    assert clean.accuracy == pytest.approx((0.9 - 0.025) / 0.9)
    assert clean.standard_error == pytest.approx(seen.standard_error / 0.9)
    assert clean.interval() == pytest.approx([(end - 0.025) / 0.9 for end in seen.interval()])
    assert seen.without_canaries(0.0, 4).interval() == pytest.approx(seen.interval())
    with pytest.raises(InputError, match="share of canaries"):
        seen.without_canaries(1.0, 4)

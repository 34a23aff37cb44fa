from functools import lru_cache

import numpy as np
import pytest

from labeldp import NoPrivacy, PrivateLabels, RandomizedResponse, SecureEntropy, SeededEntropy
from labeldp.errors import InputError
from labeldp.evaluation import estimate_accuracy
from labeldp.mechanisms.plan import NAMES, calibrate


@lru_cache
def calibrated(name, epsilon, classes):
    return calibrate(name, epsilon=epsilon, num_classes=classes)


def held_out(name, classes, accuracy, rows, rng, epsilon=1.0, entropy=None):
    """Observations, and predictions that are right with probability `accuracy`, with class-dependent errors."""
    mechanism = calibrated(name, epsilon, classes)
    labels = rng.integers(0, classes, rows)
    right = rng.random(rows) < accuracy
    predictions = np.where(right, labels, (labels + 1 + labels % (classes - 1)) % classes)
    observations = mechanism.observe_uncharged(PrivateLabels(labels, classes), entropy or SecureEntropy())
    return mechanism, observations, predictions, float((predictions == labels).mean())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("classes", "accuracy"), [(2, 0.9), (10, 0.6), (10, 0.97), (100, 0.3)])
def test_the_interval_covers(name, classes, accuracy):
    """At least 93% of 1,000 intervals of 95% hold the true accuracy; seeded, so that it is the same every time."""
    rng, entropy, covered = np.random.default_rng(7), SeededEntropy(7), 0
    for _ in range(1000):
        mechanism, observations, predictions, _ = held_out(name, classes, accuracy, 300, rng, entropy=entropy)
        low, high = estimate_accuracy(mechanism, observations, predictions).interval()
        covered += low <= accuracy <= high
    assert covered / 1000 >= 0.93


@pytest.mark.parametrize("name", [*NAMES, "none"])
def test_unbiased(name):
    mechanism, observations, predictions, accuracy = held_out(name, 10, 0.8, 200_000, np.random.default_rng(1), 2.0)
    result = estimate_accuracy(mechanism, observations, predictions)
    assert abs(result.accuracy - accuracy) < 5 * result.standard_error + 1e-12
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

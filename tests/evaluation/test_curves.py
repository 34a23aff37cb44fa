import json

import numpy as np
import pytest

from labeldp import NoPrivacy, PrivateLabels, SecureEntropy
from labeldp.errors import InputError
from labeldp.evaluation.curves import BINS, THRESHOLDS, estimate_curves
from labeldp.mechanisms.plan import calibrate


def population(rows, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 1.5, rows)
    if ties:
        p = np.round(p, 1)
    return (rng.random(rows) < p).astype(np.int64), np.stack((1 - p, p), axis=1)


@pytest.mark.parametrize("ties", [False, True])
def test_true_labels_give_the_plain_counts(ties):
    labels, p = population(1000, ties=ties)
    found = estimate_curves(NoPrivacy(2), labels.astype(np.uint8), p)
    assert len(found.points) == THRESHOLDS if not ties else len(found.points) <= 11
    assert sum(one.rows for one in found.calibration) == 1000
    for point in found.points:
        called = p[:, 1] >= point.threshold
        assert point.called == pytest.approx(called.mean())
        assert point.true_positive_rate == pytest.approx(called[labels == 1].mean())
        assert point.false_positive_rate == pytest.approx(called[labels == 0].mean())
        assert point.precision == pytest.approx(labels[called].mean())
        assert point.lift == pytest.approx(labels[called].mean() / labels.mean())
        for value, (low, high) in (
            (point.true_positive_rate, point.true_positive_rate_95), (point.false_positive_rate, point.false_positive_rate_95),
            (point.precision, point.precision_95), (point.lift, point.lift_95),
        ):  # fmt: skip
            assert low - 1e-6 <= value <= high + 1e-6


@pytest.mark.parametrize(("name", "epsilon"), [("response", 1.0), ("laplace", 2.0)])
def test_calibration_is_covered(name, epsilon):
    """A calibrated model, 5 × 10 bins with exact limits: at most 10 of 50 miss, false alarm below 1e-4."""
    missed = 0
    for seed in range(5):
        labels, p = population(500, seed)
        mechanism = calibrate(name, epsilon=epsilon, num_classes=2)
        observed = mechanism.observe_uncharged(PrivateLabels(labels, 2), SecureEntropy())
        found = estimate_curves(mechanism, observed, p)
        assert len(found.calibration) == BINS
        missed += sum(not one.observed_95[0] <= one.predicted <= one.observed_95[1] for one in found.calibration)
    assert missed <= 10


def test_as_a_file():
    labels, p = population(100)
    mechanism = calibrate("response", epsilon=0.5, num_classes=2)
    observed = mechanism.observe_uncharged(PrivateLabels(labels, 2), SecureEntropy())
    written = json.dumps(estimate_curves(mechanism, observed, p, canary_share=0.1).to_json(), allow_nan=False)
    assert len(json.loads(written)["points"]) <= 50


def test_of_several_classes_one_is_named():
    p = np.full((30, 3), 1 / 3)
    with pytest.raises(InputError, match="say which one"):
        estimate_curves(NoPrivacy(3), np.zeros(30, dtype=np.uint8), p)
    assert estimate_curves(NoPrivacy(3), np.zeros(30, dtype=np.uint8), p, positive=2).positive == 2

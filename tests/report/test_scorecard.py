"""Class by class: the errors of what is right when said, and of what is found, are right."""

import numpy as np
import pytest

from labeldp import SecureEntropy, SubsetSelection
from labeldp.evaluation.confusion import estimate_confusion
from labeldp.files.summary import StatedConfusion
from labeldp.private import PrivateLabels
from labeldp.report.scorecard import class_by_class


@pytest.mark.parametrize(("epsilon", "rows", "right"), [(2, 2000, 0.9), (4, 300, 0.8), (8, 300, 0.9)])
def test_errors_of_precision_and_recall(epsilon, rows, right):
    """Over 200 draws of rows and noise, at most 9% of what is shown is off by two errors (5% expected; draws share classes)."""
    mechanism = SubsetSelection.calibrated(epsilon=epsilon, num_classes=5)
    rng = np.random.default_rng(0)
    truth = rng.choice(5, size=100_000, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    said = np.where(rng.random(len(truth)) < right, truth, rng.integers(0, 5, len(truth)))
    off, shown = {"right": 0, "found": 0}, {"right": 0, "found": 0}
    for seed in range(200):
        chosen = np.random.default_rng(seed).integers(0, len(truth), rows)
        observations = mechanism.observe_uncharged(PrivateLabels(truth[chosen], 5), SecureEntropy())
        found = estimate_confusion(mechanism, observations, said[chosen])
        called = (found.called / rows).tolist()
        confusion = StatedConfusion(found.shares.tolist(), found.standard_errors.tolist(), called)
        for c, one in enumerate(class_by_class(confusion, tuple("abcde"))):
            exact = {"right": (truth[said == c] == c).mean(), "found": (said[truth == c] == c).mean()}
            for name, value in exact.items():
                known = getattr(one, name)
                if known is not None:
                    shown[name] += 1
                    off[name] += abs(min(1, max(0, known[0])) - value) > 2 * known[1]
    assert shown["found"] > 100
    assert all(off[name] / shown[name] < 0.09 for name in off), (off, shown)

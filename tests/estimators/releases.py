"""Releases in memory, with seeded noise."""

import numpy as np

from labeldp import PrivateLabels, SeededEntropy
from labeldp.mechanisms import RandomizedResponse
from labeldp.release.release import Release


def released(y, epsilon=1.0, classes=2, seed=0, mechanism=None):
    mechanism = mechanism or RandomizedResponse.calibrated(epsilon=epsilon, num_classes=classes)
    observed = mechanism.observe_uncharged(PrivateLabels(y, classes), SeededEntropy(seed))
    header = {"rows": len(y), "data_set": "test", "first_row": 0, "ids": None, "insecure": "seeded"}
    return Release(header, mechanism, None, observed, f"{mechanism} {seed} {len(y)}")


def table(rows=3000, classes=2, seed=0, columns=5):
    """Features, and labels that depend on the first columns."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, columns)).astype(np.float32)
    scores = np.stack([2 * x[:, c % columns] - c for c in range(classes)], axis=1)
    return x, (scores + generator.gumbel(size=scores.shape)).argmax(axis=1)

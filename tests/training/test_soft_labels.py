"""Uninformed post-processing: what the paper compares with. Soft labels are a function of the release alone."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from labeldp import (
    Gaussian,
    Laplace,
    Ledger,
    RandomizedResponse,
    Release,
    SeededEntropy,
    SubsetSelection,
    UnaryEncoding,
    denoise,
)
from labeldp.errors import InputError
from labeldp.training.loss import SoftLabelLoss
from tests.release.test_make import Y, run

MECHANISMS = [
    RandomizedResponse.calibrated(epsilon=1.0, num_classes=10),
    SubsetSelection.calibrated(epsilon=1.0, num_classes=10, size=3),
    UnaryEncoding.calibrated(epsilon=1.0, num_classes=10),
    Laplace.calibrated(epsilon=1.0, num_classes=10),
    Gaussian.calibrated(epsilon=1.0, delta=1e-5, num_classes=10),
]


@pytest.fixture(params=MECHANISMS, ids=lambda m: m.name)
def release(request, tmp_path):
    ledger = Ledger(tmp_path / "l")
    return Release.load(run(ledger, mechanism=request.param, entropy=SeededEntropy(0)).path)


@pytest.mark.parametrize("way", ["min-projection", "min-max", "softmax", "argmax"])
def test_soft_labels_are_distributions(release, way):
    soft = release.soft_labels(slice(None), way)
    assert soft.dtype == np.float32
    np.testing.assert_allclose(soft.sum(axis=1), 1, atol=1e-4)
    assert (soft >= 0).all()
    rows = [5, 3, 3]
    np.testing.assert_array_equal(release.soft_labels(rows, way), soft[rows])


def test_as_it_is_means_the_observed_label_or_the_noisy_vector(release):
    plain = release.soft_labels(slice(None), "none")
    name = release.mechanism.name
    if name == "response":
        np.testing.assert_array_equal(plain, np.eye(10, dtype=np.float32)[release.observations])
    elif name == "subset":
        bits = np.unpackbits(release.observations, axis=1, count=10, bitorder="little")
        np.testing.assert_allclose(plain, bits / 3, rtol=1e-6)
    elif name in ("laplace", "gaussian"):
        assert plain.min() < 0
        # Noise of mean zero on the one-hot label; the grid's ends and cell middles cost a little.
        error = plain.mean(axis=0) - np.bincount(Y, minlength=10) / len(Y)
        assert np.abs(error).max() < 6 * plain.std() / np.sqrt(len(Y))
    else:
        np.testing.assert_allclose(plain.sum(axis=1), 1, atol=1e-6)


def test_projection_is_the_papers(release):
    soft = release.soft_labels(slice(0, 50), "min-projection")
    values = release.mechanism.values(release.observations[:50])
    np.testing.assert_allclose(soft, denoise.min_projection(values.astype(np.float64)), atol=1e-5)


def test_unknown_ways(release):
    with pytest.raises(InputError, match="min-projection"):
        release.soft_labels([0], "bayes")


def test_loss_is_cross_entropy():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(6, 10, generator=generator, requires_grad=True)
    target = torch.softmax(torch.randn(6, 10, generator=generator), dim=1)
    loss = SoftLabelLoss()(logits, target.numpy())
    expected = functional.cross_entropy(logits, target, reduction="sum")
    torch.testing.assert_close(loss, expected)
    with pytest.raises(ValueError, match="one shape"):
        SoftLabelLoss()(logits, target[:, :9])

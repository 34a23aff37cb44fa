"""What is taken for what, and how common classes are, from released labels: unbiased, with errors that are right."""

import numpy as np
import pytest

from labeldp import Gaussian, Laplace, NoPrivacy, RandomizedResponse, SecureEntropy, SubsetSelection, UnaryEncoding
from labeldp.errors import InputError
from labeldp.evaluation.confusion import estimate_class_shares, estimate_confusion
from labeldp.private import PrivateLabels

MECHANISMS = [
    RandomizedResponse.calibrated(epsilon=1.5, num_classes=4),
    SubsetSelection.calibrated(epsilon=1.5, num_classes=4),
    UnaryEncoding.calibrated(epsilon=1.5, num_classes=4),
    Laplace.calibrated(epsilon=2, num_classes=4),
    Gaussian.calibrated(epsilon=4, delta=1e-5, num_classes=4),
]


def example(rows, seed=0):
    """Labels, and a model that is right most of the time and takes 1 for 2."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(4, size=rows, p=[0.5, 0.25, 0.2, 0.05])
    said = np.where(rng.random(rows) < 0.7, truth, np.where(truth == 1, 2, rng.integers(0, 3, rows)))
    return truth, said


def table(truth, said):
    counts = np.zeros((4, 4))
    np.add.at(counts, (truth, said), 1)
    return counts / len(truth)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
def test_unbiased_with_errors_that_are_right(mechanism):
    truth, said = example(2000)
    exact = table(truth, said)
    found = [
        estimate_confusion(mechanism, mechanism.observe_uncharged(PrivateLabels(truth, 4), SecureEntropy()), said)
        for _ in range(100)
    ]
    shares = np.array([one.shares for one in found])
    z = (shares.mean(axis=0) - exact) / (shares.std(axis=0) / 10 + 1e-12)
    # 12 cells (class 3 is never said of others): the largest of 16 means is beyond 6 standard errors with probability below 1e-7.
    assert np.abs(z[:, found[0].called > 0]).max() < 6


@pytest.mark.parametrize(
    "mechanism", [SubsetSelection.calibrated(epsilon=e, num_classes=4) for e in (1, 2, 4, 8)], ids=["1", "2", "4", "8"]
)
@pytest.mark.parametrize("rows", [300, 1000])
def test_standard_errors_are_of_noise_and_rows_alike(mechanism, rows):
    """Over 300 draws of rows and noise, the estimates spread as stated; nearly empty cells a little less."""
    truth, said = example(200_000)
    exact = table(truth, said)
    found = []
    for seed in range(300):
        chosen = np.random.default_rng(seed).integers(0, len(truth), rows)
        labels = PrivateLabels(truth[chosen], 4)
        found.append(estimate_confusion(mechanism, mechanism.observe_uncharged(labels, SecureEntropy()), said[chosen]))
    z = np.array(
        [(one.shares - exact) / np.where(one.standard_errors > 0, one.standard_errors, np.inf) for one in found]
    )
    # Of 16 cells in 300 draws, which share rows: at most 8% are off by two errors (4.6% expected, one cell's share varies by 1.2%).
    off = (np.abs(z) > 2).mean(axis=0)
    assert off.max() < 0.12
    assert off.mean() < 0.06
    spread = z.std(axis=0)[exact > 0.05]
    assert (
        spread < 1.25
    ).all()  # a standard deviation of 300 draws is within 4% of its own, of cells that are not rare
    assert (spread > 0.75).all()


def test_without_noise_it_is_exact():
    truth, said = example(500)
    mechanism = NoPrivacy(4)
    found = estimate_confusion(mechanism, mechanism.observe_uncharged(PrivateLabels(truth, 4), SecureEntropy()), said)
    np.testing.assert_allclose(found.shares, table(truth, said), atol=1e-12)
    np.testing.assert_array_equal(found.called, np.bincount(said, minlength=4))
    assert found.shares.sum() == pytest.approx(1)


def test_canaries_are_taken_out():
    """A tenth of the labels drawn uniformly: what is left is the others' table."""
    truth, said = example(200_000)
    rng = np.random.default_rng(1)
    planted = rng.random(len(truth)) < 0.1
    seen = np.where(planted, rng.integers(0, 4, len(truth)), truth)
    mechanism = NoPrivacy(4)
    observations = mechanism.observe_uncharged(PrivateLabels(seen, 4), SecureEntropy())
    found = estimate_confusion(mechanism, observations, said).without_canaries(0.1)
    np.testing.assert_allclose(found.shares, table(truth, said), atol=0.006)  # seeded; standard errors are below 0.0012
    with pytest.raises(InputError, match="share of canaries"):
        found.without_canaries(1.0)


def test_a_class_that_is_never_said_has_an_empty_column():
    mechanism = MECHANISMS[0]
    observations = mechanism.observe_uncharged(PrivateLabels(np.arange(400) % 4, 4), SecureEntropy())
    found = estimate_confusion(mechanism, observations, np.zeros(400, int))
    assert found.called.tolist() == [400, 0, 0, 0]
    assert not found.shares[:, 1:].any()
    assert not found.standard_errors[:, 1:].any()
    assert (found.standard_errors[:, 0] > 0).all()
    assert found.to_json()["called"] == [400, 0, 0, 0]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
def test_class_shares(mechanism):
    truth, _ = example(20_000)
    shares = estimate_class_shares(mechanism, mechanism.observe_uncharged(PrivateLabels(truth, 4), SecureEntropy()))
    for c, share in enumerate(shares):  # 20 looks at 6 standard errors: a false alarm below 1e-7
        assert abs(share.unbiased - (truth == c).mean()) < 6 * share.standard_error
        low, high = share.interval()
        assert low <= share.accuracy <= high

"""A confusion matrix with noise: what one label moves, that it is unbiased, and what is refused of somebody's file."""

import itertools
import math

import numpy as np
import pytest

from labeldp.entropy import SeededEntropy
from labeldp.errors import FileFormatError, InputError
from labeldp.private import PrivateLabels
from labeldp.release.sealed import read_sealed, write_sealed
from labeldp.statistics import NoisyConfusion
from labeldp.statistics.arrays import array_rows, make_from_arrays
from labeldp.statistics.confusion_file import ConfusionGathering, ConfusionPlan
from labeldp.statistics.noise import GeometricNoise
from labeldp.statistics.scoring import confusion_order

CLASSES, ROWS = 4, 900


def public(seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(CLASSES), ROWS)
    return p, np.array([rng.choice(CLASSES, p=one) for one in p])


def released(folder, epsilon=1.0, **changes):
    p, y = public()
    source, rows = array_rows(y, ROWS, CLASSES, [f"u{i}" for i in range(ROWS)], None, None, False, "d")
    order = confusion_order(source, "d", p, rows, epsilon=epsilon, **changes)
    return make_from_arrays(order, folder / "l.ledger", None, None)


class Silent:
    """No noise, to see what is counted."""

    secure = False

    def bytes(self, count):
        return b"\xff" * count


def counted(labels, said):
    plan = ConfusionPlan(np.bincount(said, minlength=3), GeometricNoise(1))
    gathering = ConfusionGathering(plan, said)
    gathering.add(PrivateLabels(labels, 3), np.arange(len(labels)))
    return gathering.finish(Silent())["count"]


def test_one_label_moves_two_counts_by_one():
    """Over every pair of neighbours of three rows."""
    said = np.array([0, 2, 1])
    for labels in itertools.product(range(3), repeat=3):
        for row, other in itertools.product(range(3), range(3)):
            moved = counted(labels, said) - counted([*labels[:row], other, *labels[row + 1 :]], said)
            assert np.abs(moved).sum() == (0 if labels[row] == other else 2)
            assert np.abs(moved).max() <= 1


def test_the_certificate_and_the_truth(tmp_path):
    """At ε = 16 the noise is 0 but for one count in 1,500 each: within a few counts of the truth."""
    found = NoisyConfusion.load(released(tmp_path, 16.0))
    assert 16 * (1 - 1e-6) < found.guarantee.epsilon <= 16
    p, y = public()
    true = np.zeros((CLASSES, CLASSES))
    np.add.at(true, (y, p.argmax(axis=1)), 1 / ROWS)
    confusion = found.confusion()
    np.testing.assert_allclose(confusion.shares, true, atol=3 / ROWS)
    np.testing.assert_array_equal(confusion.called, np.bincount(p.argmax(axis=1)))
    np.testing.assert_allclose(confusion.shares.sum(axis=0), confusion.called / ROWS)


def test_it_is_unbiased_and_its_errors_are_right():
    """2,000 draws of noise alone: means within six standard errors, deviations within a tenth. False alarm below 1 in 10⁶."""
    p, y = public()
    said = p.argmax(axis=1)
    plan = ConfusionPlan(np.bincount(said, minlength=CLASSES), GeometricNoise.calibrated(epsilon=0.5, moved=2))
    gathering = ConfusionGathering(plan, said)
    gathering.add(PrivateLabels(y, CLASSES), np.arange(ROWS))
    entropy = SeededEntropy(3)
    drawn = np.stack([gathering.finish(entropy)["count"] for _ in range(2000)]).reshape(-1, CLASSES, CLASSES)
    moved = drawn + ((plan.called - drawn.sum(axis=1)) / CLASSES)[:, None, :]
    true = np.zeros((CLASSES, CLASSES))
    np.add.at(true, (y, said), 1)
    deviation = math.sqrt(plan.noise.variance * (1 - 1 / CLASSES))
    assert np.abs(moved.mean(axis=0) - true).max() < 6 * deviation / math.sqrt(2000)
    np.testing.assert_allclose(moved.std(axis=0), deviation, rtol=0.15)


@pytest.mark.parametrize(
    ("name", "change"),
    [("count", np.nan), ("count", 1e300), ("called", -1), ("true", 3), ("said", 2)],
)
def test_somebodys_numbers_are_refused(tmp_path, name, change):
    sealed = read_sealed(released(tmp_path))
    sealed.arrays[name][1] = change
    with (tmp_path / "forged.parquet").open("wb") as file:
        write_sealed(file, sealed.header, sealed.arrays)
    with pytest.raises(FileFormatError):
        NoisyConfusion.load(tmp_path / "forged.parquet")


def test_too_many_classes():
    with pytest.raises(InputError, match="2 to 1,000 classes"):
        ConfusionPlan(np.zeros(1001, dtype=np.int64), GeometricNoise(1 << 63))

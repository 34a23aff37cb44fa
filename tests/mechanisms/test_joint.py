"""Several releases read as one: every row keeps its own mechanism's evidence, and the dearest certificate covers all."""

import numpy as np
import pytest

from labeldp import Gaussian, Laplace, RandomizedResponse, SeededEntropy, SubsetSelection, UnaryEncoding
from labeldp.errors import InputError
from labeldp.mechanisms import PateAnswers
from labeldp.mechanisms.joint import Joint
from labeldp.private import PrivateLabels

CLASSES = 300  # response then takes two bytes
PARTS = (
    SubsetSelection.calibrated(epsilon=1.0, num_classes=CLASSES),
    RandomizedResponse.calibrated(epsilon=3.0, num_classes=CLASSES),
    Laplace.calibrated(epsilon=2.0, num_classes=CLASSES),
    UnaryEncoding.calibrated(epsilon=0.5, num_classes=CLASSES),
)


def drawn(part, rows=50, seed=0):
    labels = PrivateLabels(np.random.default_rng(seed).integers(0, part.num_classes, rows), part.num_classes)
    return part.observe_uncharged(labels, SeededEntropy(seed))


def packed(joint, parts=PARTS):
    own = [drawn(part, seed=i) for i, part in enumerate(parts)]
    return own, np.concatenate([joint.packed(i, observations) for i, observations in enumerate(own)])


@pytest.mark.parametrize("what", ["evidence", "values", "informative"])
def test_each_row_says_what_its_own_mechanism_says(what):
    joint = Joint(CLASSES, PARTS)
    own, together = packed(joint)
    expected = np.concatenate([getattr(part, what)(seen) for part, seen in zip(PARTS, own, strict=True)])
    order = np.random.default_rng(1).permutation(len(together))
    np.testing.assert_array_equal(getattr(joint, what)(together[order]), expected[order])
    assert joint.valid(together)


def test_the_certificate_is_the_dearest_part_not_the_sum():
    joint = Joint(CLASSES, PARTS)
    assert joint.certificate().pure == max(part.certificate().pure for part in PARTS)
    assert joint.guarantee().epsilon == PARTS[1].guarantee().epsilon
    noisy = Gaussian.calibrated(epsilon=1.0, delta=1e-6, num_classes=10)
    pure = RandomizedResponse.calibrated(epsilon=2.0, num_classes=10)
    both = Joint(10, (noisy, pure)).guarantee()
    assert (both.epsilon, both.delta) == (pure.guarantee().epsilon, 1e-6)


def test_what_cannot_be_joined():
    with pytest.raises(InputError, match="numbers of classes"):
        Joint(10, (PARTS[0],))
    with pytest.raises(InputError, match="from 1 to 255"):
        Joint(CLASSES, ())
    answers = PateAnswers(
        num_classes=10, teachers=10, max_asked=5, max_answered=5, sigma1=9.0, sigma2=9.0, threshold=5.0, delta=1e-5
    )
    with pytest.raises(InputError, match="PATE"):
        Joint(10, (answers,))


def test_damage_is_seen():
    joint = Joint(CLASSES, PARTS)
    _, together = packed(joint)
    together[3, 0] = len(PARTS)
    assert not joint.valid(together)

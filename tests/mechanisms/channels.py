"""Channels written out naively from a mechanism's public fields: p(observation | label) as exact fractions.

Nothing here calls the code under test beyond reading the integers; the naive form is the reference.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb, prod

import numpy as np

from labeldp.mechanisms import Gaussian, Laplace, Mechanism, RandomizedResponse, SubsetSelection, UnaryEncoding

WHOLE = 2**64
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
CLASSES = (2, 3, 10, 100)


def calibrated(name: str, epsilon: float, num_classes: int) -> Mechanism:
    types = {"response": RandomizedResponse, "subset": SubsetSelection, "unary": UnaryEncoding,
             "laplace": Laplace, "gaussian": Gaussian}  # fmt: skip
    return types[name].calibrated(epsilon=epsilon, num_classes=num_classes)


def weights(mechanism: Mechanism) -> tuple[int, ...]:
    """A coordinatewise mechanism's integers at a class that is not the true one."""
    if isinstance(mechanism, UnaryEncoding):
        return (mechanism.keep, WHOLE - mechanism.keep)
    return mechanism._table().weights


def channel(mechanism: Mechanism) -> dict[bytes, list[Fraction]]:
    """For every observation (as bytes) its probability under each label. For small C, and few cells."""
    classes = range(mechanism.num_classes)
    if isinstance(mechanism, RandomizedResponse):
        true = WHOLE - (mechanism.num_classes - 1) * mechanism.other
        return {bytes([o]): [Fraction(true if o == y else mechanism.other, WHOLE) for y in classes] for o in classes}
    if isinstance(mechanism, SubsetSelection):
        n, k = mechanism.num_classes, mechanism.size
        hit = Fraction(mechanism.holds, WHOLE) / comb(n - 1, k - 1)
        miss = Fraction(WHOLE - mechanism.holds, WHOLE) / comb(n - 1, k)
        return {pack([c in s for c in classes]): [hit if y in s else miss for y in classes]
                for s in itertools.combinations(classes, k)}  # fmt: skip
    w = weights(mechanism)
    table: dict[bytes, list[Fraction]] = {}
    for cells in itertools.product(range(len(w)), repeat=mechanism.num_classes):
        key = pack([bool(c) for c in cells]) if isinstance(mechanism, UnaryEncoding) else bytes(cells)
        table[key] = [
            Fraction(prod(w[-1 - c] if i == y else w[c] for i, c in enumerate(cells)), WHOLE**mechanism.num_classes)
            for y in classes
        ]
    return table


def pack(bits: list[bool]) -> bytes:
    return np.packbits(np.array(bits, dtype=np.uint8), bitorder="little").tobytes()


def as_observations(mechanism: Mechanism, keys: list[bytes]) -> np.ndarray:
    rows = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), -1)
    return rows[:, 0] if mechanism.one_class else rows

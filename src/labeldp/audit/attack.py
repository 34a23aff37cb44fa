"""Attacks: a guess for each canary, and how sure it is. They see what a recipient sees, never what was planted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.release.release import Release

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Guesses:
    """For each canary: which of its candidates, and how sure. Zero: all candidates are equal, and the attack abstains."""

    choice: Numbers
    sureness: Floats


class Attack(Protocol):
    """What an attacker knows, as a score for each class of each canary."""

    @property
    def name(self) -> str:
        """What a result calls it."""

    def scores(self, rows: Numbers) -> Floats:
        """One row for each canary, one column a class; higher means more likely planted. `rows` are its places in what is seen."""


def guess(attack: Attack, rows: Numbers, candidates: Numbers) -> Guesses:
    """The candidate with the highest score s; sure by its log-odds, s − log Σ exp(others), above those of chance.

    Where scores are log-likelihoods, as the evidence of a release is, these are the odds that the guess is right. Of equal scores (a
    k-subset names k labels) the lowest label is taken: a rule that depends on what was planted in no way, however candidates are listed.
    """
    order = np.argsort(candidates, axis=1)
    scores = np.take_along_axis(attack.scores(rows), np.take_along_axis(candidates, order, axis=1), axis=1)
    best = scores.argmax(axis=1)[:, None]
    top = np.take_along_axis(scores, best, axis=1)
    with np.errstate(invalid="ignore"):
        behind = np.nan_to_num(scores - top, nan=0.0)  # −∞ − −∞: all candidates are impossible, none more than another
    tied = (behind == 0).all(axis=1)
    np.put_along_axis(behind, best, -np.inf, axis=1)
    highest = behind.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        others = highest[:, 0] + np.log(np.exp(behind - highest).sum(axis=1))
    sureness = np.nan_to_num(np.log(candidates.shape[1] - 1) - others, nan=np.inf, posinf=np.finfo(np.float64).max)
    sureness = np.where(tied, 0.0, sureness.clip(0.0, np.finfo(np.float64).max))
    return Guesses(np.take_along_axis(order, best, axis=1)[:, 0].astype(np.int64), sureness)


@dataclass(frozen=True)
class ModelAttack:
    """Sees the model's probabilities: a memorised label is a probable one."""

    probabilities: Floats
    name: str = "model"

    def scores(self, rows: Numbers) -> Floats:
        """Log-probabilities."""
        return _log(self.probabilities[rows])


@dataclass(frozen=True)
class CalibratedAttack:
    """Sees the model, and what a model that never saw this row's label would say: what is *more* probable was memorised.

    `reference` are another model's probabilities for the same rows (trained on released or public labels, else the result is for
    the owner only), or a public model of P(label | features).
    """

    probabilities: Floats
    reference: Floats
    name: str = "calibrated"

    def __post_init__(self) -> None:
        if self.reference.shape != self.probabilities.shape:
            raise InputError(
                f"the reference has shape {self.reference.shape}, the probabilities have {self.probabilities.shape}."
            )

    def scores(self, rows: Numbers) -> Floats:
        """The log-ratio of model and reference."""
        return _log(self.probabilities[rows]) - _log(self.reference[rows])


@dataclass(frozen=True)
class NeighbourAttack:
    """Sees model and features: what the model says here beyond what it says at the nearest other rows."""

    probabilities: Floats
    features: npt.NDArray[np.float32]
    neighbours: int = 10
    name: str = "neighbours"

    def __post_init__(self) -> None:
        if len(self.features) != len(self.probabilities):
            raise InputError(
                f"there are {len(self.features):,} rows of features for {len(self.probabilities):,} of probabilities."
            )
        if not 1 <= self.neighbours < len(self.features):
            raise InputError(f"a row has from 1 to {len(self.features) - 1:,} neighbours; got {self.neighbours}.")

    def scores(self, rows: Numbers) -> Floats:
        """The log-ratio of the model's probabilities here and their mean over the neighbours."""
        flat = self.features.reshape(len(self.features), -1).astype(np.float32)
        flat = (flat - flat.mean(axis=0)) / np.maximum(flat.std(axis=0), 1e-6)
        squares = np.einsum("ij,ij->i", flat, flat)
        around = np.empty((len(rows), self.probabilities.shape[1]))
        step = max(1, (1 << 25) // len(flat))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            distance = squares - 2 * (flat[part] @ flat.T)
            distance[np.arange(len(part)), part] = np.inf
            nearest = np.argpartition(distance, self.neighbours - 1, axis=1)[:, : self.neighbours]
            around[start : start + step] = self.probabilities[nearest].mean(axis=1)
        return _log(self.probabilities[rows]) - _log(around)


@dataclass(frozen=True)
class ReleaseAttack:
    """Sees the release itself, which is what the certificate promises against. Evidence is the likelihood ratio, so no attack that
    sees the release (or anything computed from it, such as the model) can do better.
    """

    release: Release
    name: str = "release"

    def scores(self, rows: Numbers) -> Floats:
        """The evidence at these positions of the release; zero where one is −1: that row was not released."""
        evidence = np.zeros((len(rows), self.release.mechanism.num_classes))
        released = rows >= 0
        evidence[released] = self.release.evidence(rows[released])
        return evidence


def _log(probabilities: Floats) -> Floats:
    """With a floor far below what any model in float32 can say, so that two impossible labels tie."""
    return np.asarray(np.log(np.maximum(probabilities, 1e-30)), dtype=np.float64)

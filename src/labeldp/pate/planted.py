"""Canaries for PATE's experiments on bundled data sets: planted in the material, looked for in the release and in the first student."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.audit.canaries import Canaries
from labeldp.audit.measure import audit
from labeldp.entropy import SecureEntropy
from labeldp.errors import InputError
from labeldp.private import PrivateLabels
from labeldp.release.core import Release
from labeldp.release.place import place_file

if TYPE_CHECKING:
    from labeldp.training.device import Machine

SECRET, PROBABILITIES = "planted/canaries.npz", "probabilities.npy"  # apart from votes, which are .npz too
_VOTES = "votes.npz"


def planted(owner: Path, labels: PrivateLabels, dataset: str, count: int, candidates: int) -> Canaries:
    """The canaries of a run, as its private folder keeps them; a new run's are drawn, and kept once it begins."""
    secret = owner / SECRET
    if not secret.exists():
        if (owner / _VOTES).exists():
            raise InputError(
                f"{owner.parent} holds a run without canaries, and its teachers have voted; choose another `out`."
            )
        drawn = Canaries.draw(
            count, rows=len(labels), num_classes=labels.num_classes, candidates=candidates, entropy=SecureEntropy()
        )
        return drawn.planted_in(dataset, len(labels))
    found = Canaries.load(secret)
    if found.candidates.shape != (count, candidates) or found.data_rows != len(labels):
        raise InputError(
            f"{owner.parent} holds a run with other canaries ({len(found):,} of {found.candidates.shape[1]} candidates); "
            "choose another `out`."
        )
    return found


def keep(owner: Path, canaries: Canaries | None) -> None:
    """Before any teacher sees their labels."""
    if canaries is not None and not (owner / SECRET).exists():
        (owner / SECRET).parent.mkdir(exist_ok=True)
        canaries.save(owner / SECRET)


def audited(
    canaries: Canaries, answers: Release, student: Path, features: Any, machine: Machine | None, model: str
) -> dict[str, Any]:
    """Two attackers, who share the 5%: one sees a student's probabilities, one the answers. As `train --canaries` has it.

    Only few canaries' rows are asked about, and an answer is that of many teachers: little should be found.
    """
    from labeldp.training.finished import predict

    path = student / PROBABILITIES
    if not path.exists():
        probabilities = predict(student, features, machine, model)
        place_file(path, lambda file: np.save(file, probabilities))
    found = audit(np.load(path, allow_pickle=False), canaries, release=answers, from_release=True)
    return {attack: result.to_json() for attack, result in found.each().items()}

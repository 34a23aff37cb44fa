"""Experiments on bundled data sets: release and train in one go, with a ledger of the run's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.accounting.ledger import Ledger
from labeldp.audit.canaries import Canaries
from labeldp.data.bundled import load
from labeldp.entropy import Entropy, SecureEntropy, SeededEntropy
from labeldp.errors import InputError
from labeldp.mechanisms import NoPrivacy
from labeldp.mechanisms.plan import calibrate, recommend
from labeldp.private import PrivateLabels
from labeldp.release import Release
from labeldp.release.classes import Classes
from labeldp.release.make import make_release
from labeldp.release.source import ArraySource
from labeldp.training.distributed import ALONE, World
from labeldp.training.folder import RunFolder
from labeldp.training.job import holding_out

SECRET, LEDGER, RELEASED, PROBABILITIES = "canaries.npz", "labels.ledger", "released.parquet", "probabilities.npy"


@dataclass(frozen=True)
class Planting:
    """Canaries for an experiment, among the rows that will be trained on."""

    count: int
    candidates: int
    holdout: float
    seed: int

    def kept(self, run: Path, labels: PrivateLabels, dataset: str) -> Canaries:
        """Canaries for these labels, drawn once: they are kept in the run directory, and found there when the run is resumed."""
        secret = run / SECRET
        _, trained = holding_out(len(labels), self.holdout, self.seed)
        if not 1 <= self.count <= len(trained):
            raise InputError(
                f"--canaries is from 1 to the number of rows that are trained on, {len(trained):,}; got {self.count:,}."
            )
        if secret.exists():
            canaries = Canaries.load(secret)
        elif (run / LEDGER).exists():
            raise InputError(
                f"{run} holds a run without canaries, and its labels are released already; choose another --out."
            )
        else:
            canaries = Canaries.draw(
                self.count,
                rows=trained,
                num_classes=labels.num_classes,
                candidates=self.candidates,
                entropy=SecureEntropy(),
            ).planted_in(dataset, len(labels))
            canaries.save(secret)
        if canaries.candidates.shape != (self.count, self.candidates) or not np.isin(canaries.rows, trained).all():
            raise InputError(
                f"{run} holds a run with other canaries ({len(canaries):,} of {canaries.candidates.shape[1]} candidates, among other rows, "
                "perhaps); choose another --out."
            )
        return canaries


@dataclass(frozen=True)
class Planted:
    """Canaries that were drawn before, for an experiment of several runs."""

    canaries: Canaries

    def kept(self, run: Path, labels: PrivateLabels, dataset: str) -> Canaries:
        """The canaries, which are kept in the run directory too."""
        if not (run / SECRET).exists():
            self.canaries.save(run / SECRET)
        return self.canaries


Test = tuple[npt.NDArray[Any], npt.NDArray[np.int64]]


def released(
    dataset: str, data: Path | None, run: Path, mechanism: str | None, epsilon: float | None, delta: float | None, seed: int | None,
    world: World = ALONE, canaries: Planting | Planted | None = None,
) -> tuple[Release, npt.NDArray[Any], Test]:  # fmt: skip
    """The data set's labels through a mechanism, its features, and its public test set. The labels go no further.

    Release and ledger lie in the run directory: resuming, or training from it again, costs nothing. Among several processes the
    first releases and charges, once; the others read the file.
    """
    bundle = load(dataset, data)
    classes = bundle.labels.num_classes
    if mechanism != NoPrivacy.name and epsilon is None:
        raise InputError("--epsilon is missing; a typical value is 1 to 8. (--mechanism none trains without privacy.)")
    if mechanism is None:
        chosen = recommend(epsilon or 0.0, classes, delta=delta)
    else:
        chosen = calibrate(mechanism, epsilon=epsilon or 0.0, num_classes=classes, delta=delta)
    file = run / RELEASED
    if world.first:
        entropy: Entropy = SecureEntropy() if seed is None else SeededEntropy(seed)
        RunFolder(run).make()
        # Rows of a bundled data set go by number, and a ledger of one run has no other to confuse them with.
        if canaries is None and (run / SECRET).exists():
            raise InputError(f"{run} holds a run with canaries: say --canaries as before, or choose another --out.")
        found = None if canaries is None else canaries.kept(run, bundle.labels, dataset)
        labels = bundle.labels if found is None else found.plant(bundle.labels)
        source = ArraySource(
            labels, Classes(classes, bundle.label_names), planting=found.planting if found is not None else None
        )
        ledger = Ledger(run / LEDGER)
        make_release(source, chosen, data_set=dataset, ledger=ledger, entropy=entropy, out=file)
    world.wait()
    if not file.exists():
        raise InputError(f"{file} is not here: --out must be a directory that all machines share.")
    return Release.load(file), bundle.features, (bundle.test_features, bundle.test_labels)

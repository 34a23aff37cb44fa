"""Experiments on bundled data sets: release and train in one go, with a ledger of the run's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.accounting.ledger import Ledger
from labeldp.audit.canaries import Canaries
from labeldp.audit.measure import audit
from labeldp.data.bundled import Bundled, load
from labeldp.entropy import SecureEntropy, SeededEntropy, noise
from labeldp.errors import InputError, RefusedError
from labeldp.files.predictions import read_predictions, write_predictions
from labeldp.files.run import RunFolder
from labeldp.machine import ALONE, World, explained_model
from labeldp.mechanisms import Mechanism, NoPrivacy, RowMechanism
from labeldp.mechanisms.plan import NAMES, calibrate, recommend
from labeldp.private import PrivateLabels
from labeldp.release import Release
from labeldp.release.classes import Classes
from labeldp.release.make import Made, make_release
from labeldp.release.order import Order
from labeldp.release.source import ArraySource
from labeldp.runs.job import Job, Rows
from labeldp.runs.run import open_run

_REHEARSED = 64  # rows that show whether a model of the user's own trains


@dataclass(frozen=True)
class CanaryPlan:
    """Canaries for an experiment, among the rows that will be trained on."""

    count: int
    candidates: int
    trained_on: Callable[[int], Rows]  # from the number of rows: which of them will be

    def keep_in(self, run: Path, labels: PrivateLabels, dataset: str) -> Canaries:
        """Canaries for these labels, drawn once: they are kept in the run directory, and found there when the run is resumed."""
        secret = RunFolder(run).canaries
        trained = self.trained_on(len(labels))
        if not 1 <= self.count <= len(trained):
            raise InputError(
                f"`canaries` is from 1 to the number of rows that are trained on, {len(trained):,}; got {self.count:,}."
            )
        if secret.exists():
            canaries = Canaries.load(secret)
        elif RunFolder(run).ledger.exists():
            raise InputError(
                f"{run} holds a run without canaries, and its labels are released already; choose another `out`."
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
                "perhaps); choose another `out`."
            )
        return canaries


@dataclass(frozen=True)
class DrawnCanaries:
    """Canaries that were drawn before, for an experiment of several runs."""

    canaries: Canaries

    def keep_in(self, run: Path, labels: PrivateLabels, dataset: str) -> Canaries:
        """The canaries, which are kept in the run directory too."""
        secret = RunFolder(run).canaries
        if not secret.exists():
            self.canaries.save(secret)
        return self.canaries


Test = tuple[npt.NDArray[Any], npt.NDArray[np.int64]]
Paid = Callable[[Made], object]  # told of a release, once it is charged


def release_bundled(
    dataset: str, data: Path | None, run: Path, mechanism: str | None, epsilon: float | None, delta: float | None, seed: int | None,
    world: World = ALONE, canaries: CanaryPlan | DrawnCanaries | None = None, make_job: Callable[[Release, Any], Job] | None = None,
    paid: Paid = lambda made: None,
) -> tuple[Release, npt.NDArray[Any], Test]:  # fmt: skip
    """The data set's labels through a mechanism, its features, and its public test set. The labels go no further.

    Release and ledger lie in the run directory: resuming, or training from it again, costs nothing. Among several processes the
    first releases and charges, once; the others read the file. The training that `make_job` makes is rehearsed before.
    """
    bundle = load(dataset, data)
    chosen = chosen_mechanism(mechanism, epsilon, bundle.labels.num_classes, delta)
    file, ledger = RunFolder(run).released, RunFolder(run).ledger
    if world.first:
        if make_job is not None and not file.exists():
            rehearse(chosen, bundle.features, bundle.label_names, make_job, world.size)
        source = owners_source(bundle, run, canaries)
        try:
            paid(make_release(Order(source, chosen, dataset), ledger=Ledger(ledger), entropy=noise(seed), out=file))
        except RefusedError:
            raise InputError(
                f"{run} holds an experiment with another mechanism, ε or seed of its noise; choose another `out`."
            ) from None
    return shared_release(file, world), bundle.features, (bundle.test_features, bundle.test_labels)


def rehearse(
    mechanism: Mechanism,
    features: npt.NDArray[Any],
    label_names: tuple[str, ...] | None,
    make_job: Callable[[Release, Any], Job],
    processes: int = 1,
) -> None:
    """Whatever can be known to fail without a label fails before one is paid for: a job of these rows, with labels that are made up; its
    model is built, and one of the user's own is trained, for an epoch of a few rows."""

    def job(count: int) -> Job:
        made_up = PrivateLabels(np.arange(count) % mechanism.num_classes, mechanism.num_classes)
        assert isinstance(mechanism, RowMechanism | NoPrivacy)
        drawn = mechanism.observe_uncharged(made_up, SeededEntropy(0))
        names = None if label_names is None else list(label_names)
        header = {"ids": None, "first_row": 0, "label": None, "label_names": names}
        return make_job(Release(header, mechanism, None, drawn, "rehearsal"), features[:count])

    whole = job(len(features))
    split = whole.split()
    if not whole.by_steps:
        return
    from labeldp.runs.networks import fitted, trainer_of
    from labeldp.training.recipe import Recipe

    with explained_model(whole.model):
        trainer_of(whole).step_rows(split.train, whole.known, processes)
    if ":" in whole.model:
        few = job(min(_REHEARSED, len(features)))
        assert isinstance(few.recipe, Recipe)
        short = replace(few.recipe, epochs=1)
        fitted(replace(few, recipe=short, holdout=0.0, select="last", patience=None))


def chosen_mechanism(name: str | None, epsilon: float | None, classes: int, delta: float | None = None) -> Mechanism:
    """The named mechanism at ε, or the most informative one."""
    if name == NoPrivacy.name:
        return NoPrivacy(classes)
    if epsilon is None:
        raise InputError(
            "`epsilon` is missing; a typical value is 1 to 8. (`mechanism='none'` trains without privacy.)"
        )
    if name is None:
        return recommend(epsilon, classes, delta=delta)
    if name not in NAMES:
        raise InputError(f"unknown mechanism {name!r}; choose one of {', '.join(NAMES)}, none, moments or histogram.")
    return calibrate(name, epsilon=epsilon, num_classes=classes, delta=delta)


def owners_source(
    bundle: Bundled, run: Path, canaries: CanaryPlan | DrawnCanaries | None, *, by_id: bool = False
) -> ArraySource:
    """The owner's side of an experiment: labels, canaries planted among them, in a run directory of its own.

    A ledger of one run has no other rows to confuse them with: they go by number, also where the number serves as id.
    """
    folder = RunFolder(run)
    folder.make()
    if folder.config.exists() and not folder.ledger.exists():
        raise InputError(f"{run} holds a run that is no experiment; choose another `out`.")
    if canaries is None and RunFolder(run).canaries.exists():
        raise InputError(f"{run} holds a run with canaries: say `canaries` as before, or choose another `out`.")
    found = None if canaries is None else canaries.keep_in(run, bundle.labels, bundle.name)
    labels = bundle.labels if found is None else found.plant(bundle.labels)
    return ArraySource(
        labels,
        Classes(labels.num_classes, bundle.label_names),
        np.arange(len(labels)) if by_id else None,
        planting=found.planting if found is not None else None,
    )


def shared_release(file: Path, world: World) -> Release:
    """What the first process has released, for all of them."""
    world.wait()
    if not file.exists():
        raise InputError(f"{file} is not here: `out` must be a directory that all machines share.")
    return Release.load(file)


# ----------------------------------------------------------------
# Audit a run in whose labels canaries were planted: certificate beside measurement, in its summary.


def audit_run(folder: Path, job: Job) -> dict[str, Any]:
    """Two attackers, who share the 5%: one sees the model's probabilities, one the release itself.

    The probabilities of all rows are kept, so that `labeldp audit` can look again, or draw.
    """
    run = RunFolder(folder)
    canaries = Canaries.load(run.canaries)
    if job.release.header["ids"] is not None:  # in an experiment, row numbers serve as ids
        canaries = replace(canaries, ids=canaries.rows)
    probabilities = write_probabilities(folder, job)
    summary = run.summed_up()
    assert summary is not None
    found = audit(probabilities, canaries, release=job.release, from_release=True)
    summary["audit"] = {attack: result.to_json() for attack, result in found.each().items()}
    run.write_summary("training", summary)
    return summary


def write_probabilities(folder: Path, job: Job) -> npt.NDArray[np.float32]:
    """The finished model's probabilities for all rows, written once."""
    path = RunFolder(folder).predictions
    if not path.exists():
        predicted, _ = open_run(folder, job.machine, job.model)
        probabilities = predicted(job.features)
        if job.release.header["ids"] is not None:
            probabilities = probabilities[np.argsort(job.release.ids)]  # from the release's order to the data set's
        write_predictions(path, np.arange(len(probabilities)), probabilities)
    return np.asarray(read_predictions(path).values, dtype=np.float32)

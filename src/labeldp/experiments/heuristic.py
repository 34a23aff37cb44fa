"""The heuristic check of the paper's appendix: does planting 1,000 canaries at once measure what 10 times 100 do?

The paper's interval takes the guesses about one model's canaries for independent. With 10 models of 100 canaries each (disjoint
plantings of the same canaries) there is less to be dependent; if both ways give about the same interval, the heuristic did little harm.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from labeldp.audit.canaries import Canaries
from labeldp.audit.measure import audit_paper
from labeldp.audit.result import AuditResult
from labeldp.data.bundled import load
from labeldp.entropy import SecureEntropy
from labeldp.errors import InputError
from labeldp.experiments.experiment import DrawnCanaries, release_bundled, write_probabilities
from labeldp.files.run import RunFolder
from labeldp.runs.job import Job, holding_out
from labeldp.runs.run import train
from labeldp.training.recipe import changed, default_recipe

Floats = npt.NDArray[np.float32]

HOLDOUT = 0.1


@dataclass(frozen=True)
class Check:
    """A bundled data set, a channel for its labels, and a training; `canaries` in all, planted at once or in `plantings` parts."""

    dataset: str
    epsilon: float | None
    mechanism: str | None = None
    delta: float | None = None
    model: str = "linear"
    epochs: int | None = None
    canaries: int = 1000
    plantings: int = 10
    seed: int = 0
    data: str | None = None

    def __post_init__(self) -> None:
        if not 2 <= self.plantings <= self.canaries:
            raise InputError(f"`plantings` is from 2 to the number of canaries, {self.canaries}; got {self.plantings}.")


_Job = tuple[Check, Path, int | None]


@dataclass(frozen=True)
class Comparison:
    """The paper's interval from one model with all canaries, and from several that share them."""

    together: AuditResult
    apart: AuditResult
    accuracy_together: float
    accuracy_apart: tuple[float, ...]  # on the public test set, each model's

    def overlap(self) -> bool:
        """Whether the two intervals have a value in common."""
        ends = [
            (r.epsilon_low, np.inf if r.epsilon_high is None else r.epsilon_high) for r in (self.together, self.apart)
        ]
        return bool(max(low for low, _ in ends) <= min(high for _, high in ends))

    def to_json(self) -> dict[str, Any]:
        """Both results and all accuracies, never rounded."""
        return {
            "together": self.together.to_json(),
            "apart": self.apart.to_json(),
            "overlap": self.overlap(),
            "accuracy_together": self.accuracy_together,
            "accuracy_apart": list(self.accuracy_apart),
        }


def compare(
    check: Check, folder: Path, *, processes: int = 2, progress: Callable[[int, int], None] = lambda done, of: None
) -> Comparison:
    """Train 1 + `plantings` models under `folder` and compare. Interrupted, the same call goes on; what is trained is not trained again.

    `progress` is told, after each model, how many of how many there are.
    Each model's labels pass through the mechanism anew: for public benchmark data. Of one's own labels that would be so many releases.
    """
    run = RunFolder(folder)
    with run.locked():
        run.match({"check": asdict(check)})
        run.note_start()
        canaries = _canaries(check, run.canaries)
        parts = [_part(canaries, check, k) for k in range(check.plantings)]
        jobs = [(check, folder, k) for k in (None, *range(check.plantings))]
        done: list[tuple[Floats, float]] = []
        for one in _each(jobs, processes):
            done.append(one)
            progress(len(done), len(jobs))
        said, accuracies = zip(*done, strict=True)
        result = Comparison(
            _interval(said[:1], [canaries]), _interval(said[1:], parts), accuracies[0], tuple(accuracies[1:])
        )
        run.write_summary("heuristic", result.to_json())
    return result


def _each(jobs: Iterable[_Job], processes: int) -> Iterator[tuple[Floats, float]]:
    if processes <= 1:
        yield from map(_train, jobs)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(_train, jobs)


def _interval(said: Sequence[Floats], planted: Sequence[Canaries]) -> AuditResult:
    """The paper's, over several models' canaries laid end to end."""
    true = np.concatenate([part.true for part in planted if part.true is not None])
    return audit_paper(np.concatenate(said), true, np.concatenate([part.planted for part in planted]))


def _canaries(check: Check, secret: Path) -> Canaries:
    if secret.exists():
        return Canaries.load(secret)
    labels = load(check.dataset, Path(check.data) if check.data is not None else None).labels
    _, rows = holding_out(len(labels), HOLDOUT, check.seed)
    if check.canaries > len(rows):
        raise InputError(
            f"`canaries` is at most the number of rows that are trained on, {len(rows):,}; got {check.canaries:,}."
        )
    canaries = Canaries.draw_wrong(check.canaries, labels=[labels], rows=rows, entropy=SecureEntropy())
    canaries = canaries.planted_in(check.dataset, len(labels))
    canaries.save(secret)
    return canaries


def _part(canaries: Canaries, check: Check, k: int | None) -> Canaries:
    """All of them, or those that the k-th of the models apart has."""
    return canaries if k is None else canaries.part(np.arange(k, len(canaries), check.plantings))


def _train(job: _Job) -> tuple[Floats, float]:
    """One model: its confidences on its canaries, and its accuracy on the public test set.

    A worker reads the canaries from the owner's file: they know true labels, and are not sent.
    """
    check, whole, k = job
    canaries = _part(Canaries.load(RunFolder(whole).canaries), check, k)
    folder = RunFolder(whole).planting(k).path
    torch.set_num_threads(1)
    data = Path(check.data) if check.data is not None else None
    release, features, test = release_bundled(
        check.dataset, data, folder, check.mechanism, check.epsilon, check.delta, None, canaries=DrawnCanaries(canaries)
    )
    recipe = changed(default_recipe(check.model, release.mechanism.num_classes), epochs=check.epochs, seed=check.seed)
    training = Job(release, features, check.model, recipe, HOLDOUT)
    summary = train(training, folder, public_test=test)
    return write_probabilities(folder, training)[canaries.rows], float(summary["accuracy_test"])

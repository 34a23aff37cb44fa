"""Models of tables, without torch: boosted trees, and the linear model by its exact solver. What they choose (rounds, penalty), they
choose by the held-out likelihood of their own training rows; rows that report are not among those."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.estimators.boosted import BoostedTrees, BoostingRecipe, fit_boosted
from labeldp.estimators.linear import LinearModel, LinearRecipe, fit_linear_path
from labeldp.files.atomic import place_file
from labeldp.files.run import RunFolder
from labeldp.files.summary import Config
from labeldp.machine import Machine, World
from labeldp.runs.job import Job, Learned, Probabilities, Rows, RowSplit, Watch

TableModel = BoostedTrees | LinearModel
_KINDS: dict[str, type[TableModel]] = {"lightgbm": BoostedTrees, "linear": LinearModel}


def learn(job: Job, run: RunFolder, split: RowSplit, watch: Watch, world: World) -> Learned | None:
    """Fit at once: it takes seconds, and interrupted it begins anew. Of several processes the first does it."""
    if not watch.begin() or not world.first:
        return None
    run.resume(0)
    watch.note_start()
    start = time.perf_counter()

    def note(metrics: dict[str, Any]) -> None:
        run.add(metrics)
        watch.progress(metrics)

    model = _fit(job, split.train, note)
    seconds = time.perf_counter() - start
    place_file(run.fitted, lambda file: file.write(model.to_bytes()))
    return Learned(
        lambda features: model.probabilities(_flat(features)), epochs=model.passes, epoch_selected=None, train_flop=model.flop, seconds=seconds, dtype="float32", device="cpu",
        threads=1,
    )  # fmt: skip


def fitted(job: Job) -> Probabilities:
    """Fitted in memory, on the job's training rows; nothing is written."""
    model = _fit(job, job.split().train, lambda metrics: None)
    return lambda features: model.probabilities(_flat(features))


def _fit(job: Job, rows: Rows, note: Any) -> TableModel:
    x, recipe = _flat(job.features[rows]), job.recipe
    if isinstance(recipe, BoostingRecipe):
        codes = tuple(job.columns.index(name) for name in job.categorical)
        return fit_boosted(x, rows, job.release, recipe, categorical=codes, progress=note)
    assert isinstance(recipe, LinearRecipe)
    return fit_linear_path(x, rows, job.release.evidence, job.release.mechanism.num_classes, recipe, progress=note)


def reopened(run: RunFolder, config: Config, machine: Machine, model: str | None) -> Probabilities:
    """A run's model, ready to predict."""
    if config.model not in _KINDS:
        raise InputError(f"{run.path} has a table's model, and says that it is {config.model!r}: it is damaged.")
    try:
        content = run.fitted.read_bytes()
    except OSError:
        raise InputError(f"{run.fitted} is missing, or cannot be read.") from None
    found = _KINDS[config.model].from_bytes(content)
    return lambda features: found.probabilities(_flat(features))


def _flat(features: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(features.reshape(len(features), -1), dtype=np.float32)

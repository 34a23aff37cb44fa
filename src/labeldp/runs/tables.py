"""Models of tables, without torch: boosted trees, and the linear model by its exact solver. What they choose (rounds, penalty), they
choose by the held-out likelihood of their own training rows; rows that report are not among those."""

from __future__ import annotations

import os
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
from labeldp.machine import Machine, World, explained_memory
from labeldp.runs.job import Job, Learned, Probabilities, Rows, RowSplit, Watch
from labeldp.statistics.histogram_file import SharesFromHistogram
from labeldp.statistics.moments_file import LinearFromMoments

TableModel = BoostedTrees | LinearModel
_KINDS: dict[str, type[TableModel | LinearFromMoments | SharesFromHistogram]] = {
    "lightgbm": BoostedTrees,
    "linear": LinearModel,
    "moments": LinearFromMoments,
    "histogram": SharesFromHistogram,
}


def learn(job: Job, run: RunFolder, split: RowSplit, watch: Watch, world: World) -> Learned | None:
    """Fit at once: it takes seconds, and interrupted it begins anew. Of several processes the first does it."""
    if not watch.begin() or not world.first:
        return None
    run.resume(0)
    watch.note_start()
    start = time.perf_counter()
    with explained_memory("boosted trees need the features twice, and 16 bytes a row and class."):
        model = _fit(job, split.train)
    seconds = time.perf_counter() - start
    for metrics in _history(model):
        run.add(metrics)
    place_file(run.fitted, lambda file: file.write(model.to_bytes()))
    passes = model.rounds if isinstance(model, BoostedTrees) else model.iterations
    return Learned(
        lambda features: model.probabilities(_flat(features)), epochs=passes, epoch_selected=None, train_flop=0, seconds=seconds,
        dtype="float32", device="cpu", threads=job.machine.threads or os.cpu_count() or 1,
    )  # fmt: skip


def fitted(job: Job) -> Probabilities:
    """Fitted in memory, on the job's training rows; nothing is written."""
    model = _fit(job, job.split().train)
    return lambda features: model.probabilities(_flat(features))


def _fit(job: Job, rows: Rows) -> TableModel:
    x, recipe = _flat(job.features[rows]), job.recipe
    if isinstance(recipe, BoostingRecipe):
        codes = tuple(job.columns.index(name) for name in job.categorical)
        return fit_boosted(x, rows, job.release, recipe, categorical=codes, threads=job.machine.threads)
    assert isinstance(recipe, LinearRecipe)
    return fit_linear_path(
        x, rows, job.release.evidence, job.release.mechanism.num_classes, recipe, public=_flat(job.features)
    )


def _history(model: TableModel) -> list[dict[str, Any]]:
    """By what it was chosen: the held-out likelihood after each round, or at each strength of the penalty."""
    losses = model.history if isinstance(model, BoostedTrees) else [point.loss for point in model.path]
    return [{"epoch": number, "likelihood_selecting": -loss} for number, loss in enumerate(losses, 1)]


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

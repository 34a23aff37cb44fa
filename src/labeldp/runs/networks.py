"""Models that are trained by gradient steps, in torch: epoch by epoch, each kept; the best one by likelihood, where one is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from labeldp import models
from labeldp.errors import InputError
from labeldp.evaluation.proper import compare, log_likelihoods
from labeldp.files.run import RunFolder
from labeldp.files.schema import SchemaError, decode
from labeldp.files.summary import Config
from labeldp.machine import ALONE, Machine, World, explained_memory, explained_model
from labeldp.runs.job import Job, Learned, Probabilities, Rows, RowSplit, Training, Watch
from labeldp.training.fixmatch import FixMatchTrainer
from labeldp.training.recipe import Recipe
from labeldp.training.trainer import Trainer


def learn(job: Training, run: RunFolder, split: RowSplit, watch: Watch, world: World) -> Learned | None:
    """Train, or go on; the last epoch's model, or the chosen one's. Of several processes only the first has it."""
    recipe = job.recipe
    assert isinstance(recipe, Recipe)
    remedy = (
        f"a smaller `batch_size` (it is {recipe.batch_size}) or a larger `accumulate` ({recipe.accumulate}) needs less."
    )
    with explained_memory(remedy):
        with explained_model(job.model):
            trainer = trainer_of(job, world)
        features = torch.from_numpy(np.ascontiguousarray(job.features))
        if not watch.begin():
            return None
        if run.checkpoint.exists():
            trainer.load(run.checkpoint)
        else:
            _prepare(trainer, job, features)
        # Only once all have read this checkpoint may the first write the next; and all must have read the same.
        if world.told(trainer.epoch) != trainer.epoch:
            raise InputError(
                f"{run.path} is not the same for all processes: `out` must be a directory that all machines share."
            )
        world.wait()
        if world.first:
            watch.note_start()
        history = run.resume(trainer.epoch) if world.first else []
        # Rows that chose a recipe choose no epoch, unless that was asked for.
        choice = _Choice(job, run, split.select if job.select == "best" else split.select[:0], history)
        fit = trainer.fit(features, split.train, job.known, watch.on_step)
        while trainer.epoch < recipe.epochs and not world.told(choice.out_of_patience()):
            with explained_model(job.model):
                metrics = next(fit)
            if world.first:
                choice.keep(trainer, features, metrics)
                watch.progress(metrics)
        if not world.first:
            return None
        last = trainer.epoch
        if run.selected.exists():
            trainer.load(run.selected)
    return Learned(
        _probabilities(trainer), epochs=last, epoch_selected=trainer.epoch if job.select == "best" else None,
        train_flop=trainer.flop * last // max(trainer.epoch, 1), seconds=sum(metrics.get("seconds", 0.0) for metrics in history),
        dtype=str(trainer.dtype).removeprefix("torch."), device=str(trainer.device), threads=torch.get_num_threads(),
    )  # fmt: skip


def fitted(job: Job) -> Probabilities:
    """Trained in memory, on the job's training rows; nothing is written."""
    features = torch.from_numpy(np.ascontiguousarray(job.features))
    with explained_model(job.model):
        trainer = trainer_of(job)
        _prepare(trainer, job, features)
        for _ in trainer.fit(features, job.split().train, job.known):
            pass
    return _probabilities(trainer)


def _prepare(trainer: Trainer, job: Training, features: torch.Tensor) -> None:
    """What public features alone can tell a model before it is trained."""
    trainer.prepare(features)
    if job.start is not None:
        job.start.into(trainer)


def flop_an_epoch(job: Job) -> int:
    """What one pass over the job's training rows takes."""
    with explained_model(job.model):
        trainer = trainer_of(job)
        return trainer.epoch_flop(torch.from_numpy(np.ascontiguousarray(job.features)), job.split().train)


def trainer_of(job: Training, world: World = ALONE) -> Trainer:
    """A fresh model, initialised from the seed."""
    recipe = job.recipe
    assert isinstance(recipe, Recipe)
    return fresh_trainer(job.model, job.features.shape[1:], job.num_classes, recipe, job.machine, world)


def fresh_trainer(
    model: str, shape: tuple[int, ...], classes: int, recipe: Recipe, machine: Machine, world: World = ALONE
) -> Trainer:
    """The same of a training of which no row is known yet."""
    torch.manual_seed(recipe.seed)
    built = models.build(model, shape, classes)
    device, dtype = machine.chosen(images=len(shape) == 3)
    made = FixMatchTrainer if recipe.unlabelled else Trainer
    return made(built, recipe, device, dtype, world, machine.compile)


def reopened(run: RunFolder, config: Config, machine: Machine, model: str | None) -> Probabilities:
    """A run's model, ready to predict.

    A model of your own (`package.module:Class`) must be named again: a run directory may come from somebody else, and nothing that
    it names is imported on its word alone.
    """
    try:
        recipe = decode(Recipe, config.recipe, "recipe")
    except SchemaError as error:
        raise InputError(f"{run.config} is not of a run of `labeldp train`, or damaged: {error}") from None
    name, shape = config.model, config.feature_shape
    if name not in models.NAMES and name != model:
        raise InputError(
            f"this run's model is {name}, which is code: name it yourself if you trust it (`model={name!r}`)."
        )
    device, dtype = machine.chosen(images=len(shape) == 3)
    built = models.build(name, shape, config.num_classes)
    try:
        trainer = Trainer(built, recipe, device, dtype)
    except (ValueError, TypeError):
        raise InputError(f"{run.path} has a recipe that no training can have: its config.json is damaged.") from None
    trainer.load(run.final)
    return _probabilities(trainer)


def _probabilities(trainer: Trainer) -> Probabilities:
    def probabilities(features: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        with explained_memory("predict fewer rows at a time."):
            return trainer.probabilities(torch.from_numpy(np.ascontiguousarray(features)))

    return probabilities


class _Choice:
    """The epochs so far, of which the best is kept: the one under whose predictions what was released of the selecting rows is likeliest.

    Corrected accuracy would be nearly blind where one class is common. The likelihood needs no mechanism that judges: evidence will do.
    """

    def __init__(self, job: Training, run: RunFolder, rows: Rows, history: list[dict[str, Any]]) -> None:
        self.job, self.run, self.rows, self.history = job, run, rows, history
        self._best_yet: npt.NDArray[np.float64] | None = None

    def keep(self, trainer: Trainer, features: torch.Tensor, metrics: dict[str, Any]) -> None:
        """Note the epoch that has just ended, and its model. Killed in between, the epoch is done again."""
        self.history.append(metrics)
        chosen = False
        if len(self.rows):
            probabilities = trainer.probabilities(features[torch.from_numpy(self.rows)])
            found = log_likelihoods(self.job.evidence(self.rows), probabilities)
            metrics["likelihood_selecting"] = float(found.mean())
            chosen = self._best() == len(self.history) - 1
            if self._best_yet is not None:  # paired: the same rows, epoch against epoch
                gain, error = compare(found, self._best_yet)
                metrics |= {"gain_selecting": gain, "gain_error_selecting": error}
            self._best_yet = found if chosen else self._best_yet
        self.run.add({name: value for name, value in metrics.items() if name != "seconds" or self.job.timed})
        if chosen:
            trainer.save(self.run.selected)
        trainer.save(self.run.checkpoint)

    def out_of_patience(self) -> bool:
        """Whether the last so many epochs brought nothing."""
        patience = self.job.patience
        return patience is not None and bool(self.history) and len(self.history) - 1 - self._best() >= patience

    def _best(self) -> int:
        """The first of the best epochs. What runs of earlier versions noted is an accuracy: gone on with, they are judged by it no more."""
        return int(np.argmax([metrics.get("likelihood_selecting", -np.inf) for metrics in self.history]))

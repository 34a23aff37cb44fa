"""A student: a network that learns, from the images themselves, what a model of one statistic says of them.

An encoder, which saw no label, makes rows of numbers of public images; a model is fitted to the statistic of these rows; its probabilities
for the same images are the student's soft labels, and the encoder's network is where it begins. All of it is post-processing of one
statistic, and costs nothing beyond that.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labeldp.data.features import Features
from labeldp.errors import InputError
from labeldp.files.run import RunFolder
from labeldp.machine import ALONE, Machine, World
from labeldp.runs.job import Learned, Probabilities, Rows, RowSplit, Watch
from labeldp.runs.moments import begin, config_of, found_before, summary_of
from labeldp.runs.pretrained import Pretrained
from labeldp.runs.run import Progress, PublicTest
from labeldp.statistics.reading import Fittable, Fitted

if TYPE_CHECKING:
    from labeldp.features.encoder import Encoder
    from labeldp.training.recipe import Recipe
    from labeldp.training.trainer import Steps


@dataclass(frozen=True)
class StudentJob:
    """A network to train on what a statistic says of these images: a `Training`.

    images   those whose features the statistic is of, in any order
    encoder  what made these features, and whose network is the start
    encoded  what it makes of the images, where that is known already
    """

    moments: Fittable
    images: Features
    encoder: Encoder
    start: Pretrained
    recipe: Recipe
    machine: Machine = field(default_factory=Machine)
    encoded: npt.NDArray[np.float32] | None = field(default=None, repr=False)

    # All rows are trained on, to the last epoch: one statistic has no rows to choose by. It may follow work on private labels on the same
    # machine, and how long that took is nobody's business.
    select = "last"
    patience = None
    timed = False

    def __post_init__(self) -> None:
        check_images(self.images.values)
        self.start.check_network(self.start.model, tuple(self.images.values.shape[1:]))
        if (self.recipe.denoise, self.recipe.prior) != ("bayes", "none") or self.recipe.unlabelled:
            raise InputError("a student learns soft labels as they are: no `prior`, `denoise` or FixMatch.")

    @property
    def features(self) -> npt.NDArray[Any]:
        """The images."""
        return self.images.values

    @property
    def model(self) -> str:
        """The encoder's network, with a head of its own."""
        return self.start.model

    @property
    def num_classes(self) -> int:
        """The statistic's."""
        return self.moments.statistic.num_classes

    def rows_of(self, images: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The encoder's numbers of any images, with columns as the statistic has them."""
        return self._ordered(self.encoder.transform(np.ascontiguousarray(images)))

    def _ordered(self, encoded: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        from labeldp.features.encoder import column_names

        named = Features(encoded, np.arange(len(encoded)), column_names(encoded.shape[1]))
        return named.ordered(self.moments.statistic.columns)

    @cached_property
    def _rows(self) -> npt.NDArray[Any]:
        return self.rows_of(self.features) if self.encoded is None else self._ordered(self.encoded)

    @cached_property
    def fitted(self) -> Fitted:
        """The statistic's own model; refused, if it is of other features."""
        return self.moments.fit_ready(self.moments.made_ready(self._rows))

    @cached_property
    def soft_labels(self) -> npt.NDArray[np.float32]:
        """p(class | x) of every image, by the statistic's own model."""
        return self.fitted.probabilities(self._rows)

    def evidence(self, rows: Rows) -> npt.NDArray[np.float32]:
        """log p: with no prior, the posterior of this evidence is the soft label, and the loss cross-entropy against it."""
        with np.errstate(divide="ignore"):  # log 0 is −∞: such a class weighs nothing
            return np.log(self.soft_labels[rows])

    known = evidence

    def config(self) -> dict[str, Any]:
        """What makes this run this run."""
        config = config_of(self.moments, self.features)
        return {**config, "model": self.model, "recipe": self.recipe.to_json(), "start": self.start.digest}


def train_student(
    job: StudentJob,
    folder: Path,
    *,
    path: Path | None = None,
    public_test: PublicTest | None = None,
    progress: Progress = lambda metrics: None,
    on_step: Steps = lambda step, of: None,
    world: World = ALONE,
) -> dict[str, Any]:
    """Train (or go on training) in `folder`; return the summary. `path` is where the statistic is; test labels must be public."""
    from labeldp.runs.networks import learn

    run, everything = RunFolder(folder), np.arange(len(job.features))
    done: dict[str, Any] | None = None
    if not run.summary.exists():
        _ = job.soft_labels  # other features are refused before a run is begun

    def begin_or_find() -> bool:
        nonlocal done
        if world.first:
            run.match(job.config())
        world.wait()
        done = found_before(run, job.moments)
        return done is None

    def note_start() -> None:
        begin(run, job.moments, job.images, path, dated=job.timed)

    def untimed(metrics: dict[str, Any]) -> None:
        progress({name: value for name, value in metrics.items() if name != "seconds"})

    with run.locked() if world.first else nullcontext():
        nobody = everything[:0]
        watch = Watch(begin_or_find, note_start, untimed, on_step)
        learned = learn(job, run, RowSplit(everything, nobody, nobody), watch, world)
        if not world.first:
            return {}
        if done is not None:
            return done
        assert learned is not None
        summary = {
            **summary_of(job.moments, job.fitted),
            **_took(learned),
            "model": job.model,
            "start_flop": job.encoder.flop,
            "processes": world.size,
        }
        if public_test is not None:
            summary |= _tested(job, learned.probabilities, public_test)
    run.write_summary("training", summary)
    return summary


def _took(learned: Learned) -> dict[str, Any]:
    return {
        "epochs": learned.epochs,
        "train_flop": learned.train_flop,
        "seconds": None,
        "dtype": learned.dtype,
        "device": learned.device,
        "threads": learned.threads,
    }


def _tested(job: StudentJob, student: Probabilities, public_test: PublicTest) -> dict[str, Any]:
    """The student's accuracy, and beside it that of the model which it learned from."""
    images, labels = public_test
    right, fitted = (
        predicted.argmax(axis=1) == labels
        for predicted in (student(images), job.fitted.probabilities(job.rows_of(images)))
    )
    return {
        "accuracy_test": float(right.mean()),
        "accuracy_test_fitted": float(fitted.mean()),
        "rows_tested": len(right),
    }


def check_images(values: npt.NDArray[Any]) -> None:
    """A student begins as a network of images; anything else is refused."""
    if values.ndim != 4 or values.dtype != np.uint8:
        raise InputError(
            "a student learns from images of bytes, (n, channels, height, width), and begins with their encoder; these features are "
            "rows of numbers. Leave out `start`: a linear model of them is fitted at once."
        )


def epochs_for(flop: float, model: str, images: npt.NDArray[Any], num_classes: int) -> int:
    """So many whole epochs of these images as the budget pays for, one at least."""
    import torch

    from labeldp.runs.networks import fresh_trainer
    from labeldp.training.recipe import student_recipe

    trainer = fresh_trainer(
        model, images.shape[1:], num_classes, student_recipe(num_classes), Machine("cpu", "float32")
    )
    an_epoch = len(images) * trainer.training_flop(torch.from_numpy(np.ascontiguousarray(images[:2])))
    return max(1, round(flop / an_epoch))

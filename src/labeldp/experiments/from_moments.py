"""One statistic of a bundled data set's labels, and all that follows from it: the linear model; of images a student, too.

Of images, an encoder is learned first, without a label; the statistic is of what it makes of them. Small ε under central trust: far fewer
numbers leave the owner than there are rows, so that each has little noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.accounting.ledger import Ledger
from labeldp.data.bundled import Bundled, load
from labeldp.data.features import Features, features_digest
from labeldp.entropy import noise
from labeldp.errors import InputError, RefusedError
from labeldp.experiments.experiment import Paid, owners_source
from labeldp.features.contrastive import flop_an_epoch
from labeldp.features.encoder import Encoder, EncoderRecipe, learned_encoder
from labeldp.files.atomic import place_file
from labeldp.files.run import RunFolder
from labeldp.machine import Machine
from labeldp.models.fast import WIDTHS
from labeldp.release.make import make_release
from labeldp.release.source import Source
from labeldp.runs.moments import train_moments
from labeldp.runs.networks import fresh_trainer
from labeldp.runs.pretrained import Pretrained
from labeldp.runs.run import Progress
from labeldp.runs.student import StudentJob, epochs_for, train_student
from labeldp.statistics.histogram_file import HistogramPlan, histogram_order
from labeldp.statistics.moments_file import MomentsPlan, moments_order
from labeldp.statistics.reading import load_fittable
from labeldp.statistics.statistic import PublicRows, StatisticOrder
from labeldp.training.recipe import Recipe, changed
from labeldp.training.trainer import Steps

NAMES = (MomentsPlan.name, HistogramPlan.name)
_DELTA = 1e-5
_SHARE = 0.8  # of the FLOP is the encoder's


@dataclass(frozen=True)
class ImageLearning:
    """How an encoder and a student learn; only what is not the usual.

    start    an encoder's directory, in place of learning one
    model    the network of both
    flop     of both together, a given encoder's too: four fifths for the encoder, the rest for the student
    epochs   of the student, instead
    recipe   of the student, from the numbers of classes and of rows
    seed     of the encoder
    """

    recipe: Callable[[int, int], Recipe]
    start: Path | None = None
    model: str | None = None
    flop: float | None = None
    epochs: int | None = None
    seed: int = 0
    machine: Machine = field(default_factory=Machine)


@dataclass(frozen=True)
class MomentsExperiment:
    """Both parties in one process: `statistic` is moments (Gaussian noise, a δ) or a histogram (a pure ε)."""

    folder: Path
    dataset: str
    data: Path | None
    statistic: str
    epsilon: float
    delta: float | None
    insecure_seed: int | None
    learning: ImageLearning
    paid: Paid = lambda made: None

    def __post_init__(self) -> None:
        if self.statistic == HistogramPlan.name and self.delta is not None:
            raise InputError("a histogram is at a pure ε: leave out `delta`, or take `mechanism='moments'`.")
        if self.statistic == MomentsPlan.name and self.delta == 0:
            raise InputError(
                "moments have Gaussian noise, and a δ above 0; `mechanism='histogram'` is without one, and tells less."
            )

    def run(
        self,
        progress: Progress = lambda metrics: None,
        on_step: Steps = lambda step, of: None,
        on_begin: Callable[[int], None] = lambda epochs: None,
        on_encoder: Progress = lambda metrics: None,
    ) -> dict[str, Any]:
        """All of it; the summary. Asked again, it goes on, and what is released stays so.

        `on_encoder` is told of each epoch of the encoder, `progress` of the student's, and `on_begin` how many of either follow.
        """
        bundle = load(self.dataset, self.data)
        if RunFolder(self.folder).released.exists():  # said now, and not once an encoder is learned
            raise self._another()
        source = owners_source(bundle, self.folder, None)
        features = Features(bundle.features, np.arange(len(bundle.features)))
        public_test = bundle.test_features, bundle.test_labels
        if bundle.features.ndim != 4:
            path = self._release(source, bundle.features)
            moments = load_fittable(path)
            return train_moments(moments, features, self.folder, path=path, public_test=public_test, timed=False)
        place = self._encoder(bundle.features, on_begin, on_encoder)
        encoder, start = Encoder.load(place), Pretrained.of(place)
        recipe = self._recipe(bundle, start)
        self._rehearse(bundle, start, recipe)
        encoded = self._encoded(bundle.features, encoder, start)
        path = self._release(source, encoded)
        on_begin(recipe.epochs)
        job = StudentJob(
            load_fittable(path), features, encoder, start, recipe, self.learning.machine, encoded=encoded
        )  # fmt: skip
        return train_student(
            job, self.folder, path=path, public_test=public_test, progress=progress, on_step=on_step
        )  # fmt: skip

    # ── without a label ──

    def _encoder(self, images: npt.NDArray[np.uint8], on_begin: Callable[[int], None], told: Progress) -> Path:
        """Where the encoder is: given, or learned in the run directory."""
        learning = self.learning
        if learning.start is not None:
            return learning.start
        model = learning.model or "fast"
        if model not in WIDTHS:
            raise InputError(f"an encoder, and so its student, is one of {', '.join(WIDTHS)}; not {model!r}.")
        epochs = EncoderRecipe("contrastive").epochs
        if learning.flop is not None:
            epochs = max(1, round(_SHARE * learning.flop / flop_an_epoch(images, model)))
        wanted = EncoderRecipe("contrastive", epochs, model, learning.seed)
        place = RunFolder(self.folder).features.path
        on_begin(epochs)
        learned_encoder(
            images, place, wanted, device=learning.machine.device,
            on_epoch=lambda epoch, loss: told({"epoch": epoch, "loss": loss}),
        )  # fmt: skip
        return place

    def _recipe(self, bundle: Bundled, start: Pretrained) -> Recipe:
        """The student's, for as long as there is time."""
        learning, classes = self.learning, bundle.labels.num_classes
        start.check_network(learning.model or start.model, tuple(bundle.features.shape[1:]))
        epochs = learning.epochs
        if epochs is None and learning.flop is not None:
            rest = learning.flop - start.encoder.flop
            epochs = epochs_for(rest, start.model, bundle.features, classes)
        return changed(learning.recipe(classes, len(bundle.features)), epochs=epochs)

    def _rehearse(self, bundle: Bundled, start: Pretrained, recipe: Recipe) -> None:
        """Whatever can be known to fail without a label fails before one is paid for."""
        if not RunFolder(self.folder).statistic.exists():
            images, classes = bundle.features, bundle.labels.num_classes
            trainer = fresh_trainer(start.model, images.shape[1:], classes, recipe, self.learning.machine)
            trainer.step_rows(np.arange(len(images)), lambda rows: np.zeros((len(rows), classes), np.float32))

    def _encoded(self, images: npt.NDArray[np.uint8], encoder: Encoder, start: Pretrained) -> npt.NDArray[np.float32]:
        """Kept, bit by bit: with other last bits, as other threads make them, it would be another request to the ledger."""
        place = RunFolder(self.folder).features
        with place.locked():
            if self.learning.start is not None:
                place.match({"images": features_digest(images), "start": start.digest})
            if not place.rows.exists():
                encoded = encoder.transform(images)
                place_file(place.rows, lambda file: np.save(file, encoded))
            return np.asarray(np.load(place.rows, allow_pickle=False), dtype=np.float32)

    # ── the owner's side ──

    def _release(self, source: Source, x: npt.NDArray[Any]) -> Path:
        """The one statistic, charged in the run's own ledger; asked for again it is found. The labels go no further."""
        run = RunFolder(self.folder)
        try:
            made = make_release(
                self._order(source, x), ledger=Ledger(run.ledger), entropy=noise(self.insecure_seed), out=run.statistic
            )
        except RefusedError:
            raise self._another() from None
        self.paid(made)
        return run.statistic

    def _another(self) -> InputError:
        return InputError(
            f"{self.folder} holds an experiment with another mechanism, ε or seed of its noise; choose another `out`."
        )

    def _order(self, source: Source, x: npt.NDArray[Any]) -> StatisticOrder:
        rows, flat = PublicRows.of(len(x), None), x.reshape(len(x), -1)
        if self.statistic == HistogramPlan.name:
            return histogram_order(source, self.dataset, flat, rows, epsilon=self.epsilon)
        delta = _DELTA if self.delta is None else self.delta
        return moments_order(source, self.dataset, flat, rows, epsilon=self.epsilon, delta=delta)

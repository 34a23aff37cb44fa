"""Where a training begins: at random, with a network that learned from images alone, or with that of an earlier stage."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labeldp.errors import InputError
from labeldp.files.run import FeaturesFolder, RunFolder

if TYPE_CHECKING:
    from labeldp.features.contrastive import ContrastiveFeaturizer
    from labeldp.runs.job import Job
    from labeldp.training.trainer import Trainer


@dataclass(frozen=True)
class Pretrained:
    """The network of an encoder, which has seen no label."""

    encoder: ContrastiveFeaturizer
    digest: str

    @classmethod
    def of(cls, folder: Path) -> Pretrained:
        """From an encoder's directory, learned there by contrast."""
        from labeldp.features.contrastive import ContrastiveFeaturizer

        path = FeaturesFolder(folder).contrast
        if not path.is_file():
            where = "encoder/" if folder.exists() else folder  # what is there already is something else, and stays
            raise InputError(
                f"{folder} {'is no' if folder.exists() else 'does not exist, and is no'} encoder to start from: `labeldp features images/ "
                f"--learn contrastive --encoder {where} --out x.parquet` learns one."
            )
        return cls(ContrastiveFeaturizer.load(path), hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest())

    @property
    def model(self) -> str:
        """What it is a network of."""
        return self.encoder.model

    @property
    def flop(self) -> int:
        """What learning from images took."""
        return self.encoder.flop

    def check(self, job: Job) -> None:
        """Whether this training can begin with it."""
        self.check_network(job.model, tuple(job.features.shape[1:]))

    def check_network(self, model: str, shape: tuple[int, ...]) -> None:
        """Refused unless the model to be trained is of the same kind, for images of the same shape."""
        if model != self.model:
            raise InputError(
                f"the start is a network {self.model!r}, and {model!r} is to be trained: leave out `model`, or `start`."
            )
        if shape != self.encoder.shape:
            raise InputError(f"the start was learned from images of shape {self.encoder.shape}; these have {shape}.")

    def into(self, trainer: Trainer) -> None:
        """Its weights, and how it saw images; the head stays as it was drawn."""
        state = {
            name: value for name, value in self.encoder.network.state_dict().items() if not name.startswith("head")
        }
        trainer.model.load_state_dict(state, strict=False)
        trainer.mean, trainer.scale = self.encoder.mean, self.encoder.scale


@dataclass(frozen=True)
class EarlierStage:
    """The network of a stage that is finished. It has learned from released labels: whatever it has learned from must be behind what is
    trained on now, or the certificate would not count it; and rows that judge must have been held out there too."""

    run: RunFolder
    digest: str

    @classmethod
    def of(cls, folder: Path) -> EarlierStage:
        """From its run directory."""
        run = RunFolder(folder)
        digest = run.digest()
        if digest is None or run.fitted.exists() or run.read_training() is None:
            raise InputError(f"{folder} holds no finished training by gradient steps, whose weights could be a start.")
        return cls(run, digest)

    @property
    def flop(self) -> float:
        """What learning from images took, if it began with that; its own training is counted where it was."""
        summary = self.run.read_training()
        return 0.0 if summary is None else summary.start_flop

    def check(self, job: Job) -> None:
        """Refused unless it is the same network, of releases that are among these, which held out the rows that judge."""
        config, summary = self.run.read_config(), self.run.read_training()
        assert summary is not None
        shape = tuple(job.features.shape[1:])
        if (config.model, config.feature_shape, config.num_classes) != (
            job.model, shape, job.release.mechanism.num_classes,
        ):  # fmt: skip
            raise InputError(
                f"the earlier stage trained a network {config.model!r} for features of shape {config.feature_shape} and "
                f"{config.num_classes} classes; it is no start for {job.model!r} with {shape} and {job.release.mechanism.num_classes}."
            )
        if not set(summary.behind) <= set(job.release.behind):
            raise InputError(
                "the earlier stage learned from a release that is not among these: what it cost would be missing in the certificate."
            )
        if not job.holdout and job.fold is None and job.folds is None:
            return  # nobody judges
        there = summary.judge, config.seed, config.holdout, config.select
        if (job.fold, job.folds) != (None, None) or there != (
            job.judge(), job.recipe.seed, job.holdout, job.select,
        ):  # fmt: skip
            raise InputError(
                f"the earlier stage was trained with `seed={config.seed}`, `holdout={config.holdout:g}`, `select={config.select!r}`, and "
                "held out rows of the release that it named first: say the same here. Others would judge a model that they shaped. "
                "(`holdout=0` trains on all rows, and estimates no accuracy.)"
            )

    def into(self, trainer: Trainer) -> None:
        """All its weights, and how it saw images."""
        trainer.begin_with(self.run.final)

"""Where a training begins: at random, or with a network that learned from images alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labeldp.errors import InputError
from labeldp.files.run import FeaturesFolder

if TYPE_CHECKING:
    from labeldp.features.contrastive import ContrastiveFeaturizer
    from labeldp.training.trainer import Trainer


@dataclass(frozen=True)
class Pretrained:
    """The network of an encoder. Only such a one: a network that had learned from labels, of whatever release, might have learned from
    the rows that are held out to judge."""

    encoder: ContrastiveFeaturizer
    digest: str

    @classmethod
    def of(cls, folder: Path) -> Pretrained:
        """From an encoder's directory, learned there by contrast."""
        from labeldp.features.contrastive import ContrastiveFeaturizer

        path = FeaturesFolder(folder).contrast
        if not path.is_file():
            raise InputError(
                f"{folder} is no encoder to start from: `labeldp features images/ --learn contrastive --encoder {folder}` learns one."
            )
        return cls(ContrastiveFeaturizer.load(path), hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest())

    @property
    def model(self) -> str:
        """What it is a network of."""
        return self.encoder.model

    def check(self, model: str, shape: tuple[int, ...]) -> None:
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

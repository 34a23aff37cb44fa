"""An encoder: what turns images into rows of numbers, learned from public images once and kept in a directory.

    patches      how much of which patch is where, beside it the same of an image's neighbours: a minute
    contrastive  a network that tells views of an image from those of others: as long as one likes; also the start of a training
    both         patches and contrast, joined with their neighbours'

No label is used, so it costs no privacy, and serves any release of those images' labels. New images get their rows from the same files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.data.features import features_digest
from labeldp.errors import InputError
from labeldp.features.contrastive import ContrastiveFeaturizer, learn_contrastive
from labeldp.features.frozen import Featurizer, learn_features
from labeldp.features.neighbours import Neighbours, learn_neighbours
from labeldp.files.atomic import place_file
from labeldp.files.run import FeaturesFolder
from labeldp.statistics.fit import stored_arrays

Floats = npt.NDArray[np.float32]
COLUMN = "feature"  # and its number: what a column of an encoder's file is called
WAYS = ("patches", "contrastive", "both")
_Told = Callable[[int, float], None]


@dataclass(frozen=True)
class EncoderRecipe:
    """How an encoder is learned: the way, and of contrast the epochs, the network and its seed."""

    way: str
    epochs: int = 6
    model: str = "fast"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.way not in WAYS:
            raise InputError(f"an encoder learns {', '.join(WAYS[:-1])} or {WAYS[-1]}; got {self.way!r}.")


@dataclass(frozen=True)
class Encoder:
    """Images of bytes to rows of numbers, each from its own image; `patches`, `contrast`, or both and what joins them."""

    patches: Featurizer | None
    contrast: ContrastiveFeaturizer | None = None
    neighbours: Neighbours | None = None

    @classmethod
    def learn(
        cls, images: npt.NDArray[np.uint8], learning: EncoderRecipe, *, device: str = "cpu", checkpoint: Path | None = None,
        on_epoch: _Told = lambda epoch, loss: None,
    ) -> Encoder:  # fmt: skip
        """From public images. With a `checkpoint` file, interrupted contrastive learning goes on."""
        patches = contrast = None
        if learning.way != "contrastive":
            # A small set cannot tell so many filters apart.
            patches = learn_features(images, filters=min(512, len(images)), width=min(512, 2 * (len(images) // 2)))
        if learning.way != "patches":
            contrast = learn_contrastive(
                images, epochs=learning.epochs, model=learning.model, seed=learning.seed, device=device, checkpoint=checkpoint,
                on_epoch=on_epoch,
            )  # fmt: skip
        if patches is None or contrast is None:
            return cls(patches, contrast)
        return cls(patches, contrast, learn_neighbours(patches.own(images), contrast.transform(images)))

    @property
    def flop(self) -> int:
        """Of learning it; of patches none are counted."""
        return 0 if self.contrast is None else self.contrast.flop

    def transform(self, images: npt.NDArray[np.uint8]) -> Floats:
        """Each row depends on its own image, and on what was learned."""
        if self.contrast is None:
            assert self.patches is not None
            return self.patches.transform(images)
        if self.patches is None or self.neighbours is None:
            return self.contrast.transform(images)
        return self.neighbours.transform(self.patches.own(images), self.contrast.transform(images))

    # ── files ──

    def save(self, folder: Path) -> None:
        """Into files of their own. That of contrast is last: with it, all are there."""
        place = FeaturesFolder(folder)
        if self.patches is not None:
            self.patches.save(place.patches)
        if self.neighbours is not None:
            arrays = {name: value.numpy() for name, value in vars(self.neighbours).items()}
            place_file(place.neighbours, lambda file: np.savez(file, **arrays))
        if self.contrast is not None:
            self.contrast.save(place.contrast)

    @classmethod
    def load(cls, folder: Path) -> Encoder:
        """As saved."""
        import torch

        place = FeaturesFolder(folder)
        patches = Featurizer.load(place.patches) if place.patches.exists() else None
        contrast = ContrastiveFeaturizer.load(place.contrast) if place.contrast.exists() else None
        if patches is None and contrast is None:
            raise InputError(f"{folder} holds no encoder: nothing was learned there, or not to its end.")
        if patches is None or contrast is None:
            return cls(patches, contrast)
        try:
            arrays = stored_arrays(place.neighbours.read_bytes())
            beside = Neighbours(**{name: torch.from_numpy(value) for name, value in arrays.items()})
        except Exception:  # whatever NumPy says of a damaged archive
            raise InputError(f"{place.neighbours} is missing or damaged; learn the encoder again.") from None
        return cls(patches, contrast, beside)


def column_names(width: int) -> tuple[str, ...]:
    """What so many numbers of a row are called in a file of them."""
    return tuple(f"{COLUMN} {number}" for number in range(width))


def learned_encoder(
    images: npt.NDArray[Any], folder: Path, learning: EncoderRecipe, *, device: str = "cpu", on_epoch: _Told = lambda epoch, loss: None,
    named: str = "out",
) -> Encoder:  # fmt: skip
    """The encoder of these images in `folder`: learned, gone on with, or found there. Other images or another way are refused.
    `named` is the argument that chose the folder."""
    _check_bytes(images)
    run = FeaturesFolder(folder)
    with run.locked():
        run.match({"images": features_digest(images), **asdict(learning)}, named=named)
        done = run.contrast if learning.way != "patches" else run.patches
        if not done.exists():
            Encoder.learn(images, learning, device=device, checkpoint=run.contrastive, on_epoch=on_epoch).save(folder)
    return Encoder.load(folder)


def frozen_features(
    images: npt.NDArray[Any], test: npt.NDArray[Any] | None, folder: Path, contrastive: int = 0,
    on_epoch: _Told = lambda epoch, loss: None,
) -> tuple[Floats, Floats | None]:  # fmt: skip
    """Features of a run's images, and of its test images: patches, and with so many epochs of contrast both. From `folder` if they are
    there already."""
    _check_bytes(images)
    run = FeaturesFolder(folder)
    with run.locked():
        about = {"images": features_digest(images), "test": features_digest(test) if test is not None else None}
        run.match(about | ({"contrastive": contrastive} if contrastive else {}))
        if not run.rows.exists():
            learning = EncoderRecipe("both", contrastive) if contrastive else EncoderRecipe("patches")
            learned = Encoder.learn(images, learning, checkpoint=run.contrastive, on_epoch=on_epoch)
            learned.save(folder)
            if test is not None:
                _save(run.test, learned.transform(test))
            _save(run.rows, learned.transform(images))
        found = np.load(run.rows)
        return found, np.load(run.test) if test is not None else None


def _check_bytes(images: npt.NDArray[Any]) -> None:
    if images.ndim != 4 or images.dtype != np.uint8:
        raise InputError(
            f"features are learned from images of bytes; these have shape {images.shape} of {images.dtype}."
        )


def _save(path: Path, values: Floats) -> None:
    place_file(path, lambda file: np.save(file, values))

"""Frozen features of a run: learned from its public images once, and kept beside them.

Patches alone, or patches and contrast together; either way each row has its neighbours' mean beside its own. New images get theirs from
the same files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.features.contrastive import ContrastiveFeaturizer, learn_contrastive
from labeldp.features.learned import Featurizer, learn_features
from labeldp.features.neighbours import Neighbours, learn_neighbours
from labeldp.files.atomic import place_file
from labeldp.training.folder import RunFolder
from labeldp.training.job import features_digest

Floats = npt.NDArray[np.float32]

PATCHES, CONTRAST, BESIDE = "patches.safetensors", "contrast.safetensors", "neighbours.npz"


@dataclass(frozen=True)
class FrozenFeatures:
    """What turns images into rows of numbers."""

    patches: Featurizer
    contrast: ContrastiveFeaturizer | None = None
    neighbours: Neighbours | None = None

    @classmethod
    def learn(
        cls, images: npt.NDArray[np.uint8], contrastive: int = 0, *, checkpoint: Path | None = None,
        on_epoch: Callable[[int, float], None] = lambda epoch, loss: None,
    ) -> FrozenFeatures:  # fmt: skip
        """From public images; with so many epochs of contrastive learning, both kinds."""
        # A small set cannot tell so many filters apart.
        patches = learn_features(images, filters=min(512, len(images)), width=min(512, 2 * (len(images) // 2)))
        if not contrastive:
            return cls(patches)
        contrast = learn_contrastive(images, epochs=contrastive, checkpoint=checkpoint, on_epoch=on_epoch)
        return cls(patches, contrast, learn_neighbours(patches.own(images), contrast.transform(images)))

    def transform(self, images: npt.NDArray[np.uint8]) -> Floats:
        """Each row depends on its own image, and on what was learned."""
        if self.contrast is None or self.neighbours is None:
            return self.patches.transform(images)
        return self.neighbours.transform(self.patches.own(images), self.contrast.transform(images))

    def save(self, folder: Path) -> None:
        """Into files of their own."""
        self.patches.save(folder / PATCHES)
        if self.contrast is not None and self.neighbours is not None:
            self.contrast.save(folder / CONTRAST)
            arrays = {name: value.numpy() for name, value in vars(self.neighbours).items()}
            place_file(folder / BESIDE, lambda file: np.savez(file, **arrays))

    @classmethod
    def load(cls, folder: Path) -> FrozenFeatures:
        """As saved."""
        import torch

        if not (folder / PATCHES).exists():
            raise InputError(f"{folder.parent} learned no features: its students take features as they are.")
        patches = Featurizer.load(folder / PATCHES)
        if not (folder / CONTRAST).exists():
            return cls(patches)
        with np.load(folder / BESIDE, allow_pickle=False) as file:
            beside = Neighbours(**{name: torch.from_numpy(file[name]) for name in file.files})
        return cls(patches, ContrastiveFeaturizer.load(folder / CONTRAST), beside)


def frozen_features(
    images: npt.NDArray[Any], test: npt.NDArray[Any] | None, folder: Path, contrastive: int = 0,
    on_epoch: Callable[[int, float], None] = lambda epoch, loss: None,
) -> tuple[Floats, Floats | None]:  # fmt: skip
    """Features of the images, and of the test images; from `folder` if they are there already."""
    if images.ndim != 4 or images.dtype != np.uint8:
        raise InputError(
            f"features are learned from images of bytes; these have shape {images.shape} of {images.dtype}."
        )
    run = RunFolder(folder)
    with run.locked():
        about = {"images": features_digest(images), "test": features_digest(test) if test is not None else None}
        run.match(about | ({"contrastive": contrastive} if contrastive else {}))
        if not (folder / "features.npy").exists():
            learned = FrozenFeatures.learn(
                images, contrastive, checkpoint=folder / "contrastive.checkpoint", on_epoch=on_epoch
            )
            learned.save(folder)
            if test is not None:
                _save(folder / "test.npy", learned.transform(test))
            _save(folder / "features.npy", learned.transform(images))
        found = np.load(folder / "features.npy")
        return found, np.load(folder / "test.npy") if test is not None else None


def _save(path: Path, values: Floats) -> None:
    place_file(path, lambda file: np.save(file, values))

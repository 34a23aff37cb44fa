"""Frozen features of a run: learned from its public images once, and kept beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.release.place import place_file
from labeldp.training.folder import RunFolder
from labeldp.training.job import features_digest

FEATURIZER = "featurizer.safetensors"  # for new images: Featurizer.load(…).transform(images)


def frozen_features(
    images: npt.NDArray[Any], test: npt.NDArray[Any] | None, folder: Path
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None]:
    """Features of the images, and of the test images; from `folder` if they are there already."""
    from labeldp.pate.features import learn_features

    if images.ndim != 4 or images.dtype != np.uint8:
        raise InputError(
            f"features are learned from images of bytes; these have shape {images.shape} of {images.dtype}."
        )
    run = RunFolder(folder)
    with run.locked():
        run.match({"images": features_digest(images), "test": features_digest(test) if test is not None else None})
        if not (folder / "features.npy").exists():
            # A small set cannot tell so many filters apart.
            featurizer = learn_features(images, filters=min(512, len(images)), width=min(512, 2 * (len(images) // 2)))
            featurizer.save(folder / FEATURIZER)
            if test is not None:
                _save(folder / "test.npy", featurizer.transform(test))
            _save(folder / "features.npy", featurizer.transform(images))
        found = np.load(folder / "features.npy")
        return found, np.load(folder / "test.npy") if test is not None else None


def _save(path: Path, values: npt.NDArray[np.float32]) -> None:
    place_file(path, lambda file: np.save(file, values))

"""Frozen features of patches, learned from the public images alone: they use no label, so they cost no privacy.

How much of which patch is where in an image (`patches.py`), standardised and rotated to the leading principal axes; beside that, the
mean over each image's neighbours (`neighbours.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labeldp.errors import FileFormatError, InputError
from labeldp.features.neighbours import BANK, Neighbours, learn_neighbours
from labeldp.features.patches import REGIONS, Patches, check_images, learn_patches
from labeldp.files.atomic import place_file
from labeldp.machine import choose_dtype, encode

PATCH = 6  # pixels a side
_AXES_SAMPLE = 10_000
_BATCH = 16  # images whose responses stay in the processor's cache


@dataclass(frozen=True)
class Featurizer:
    """Images (n, channels, height, width) of bytes to rows of `width` numbers. Frozen, public, deterministic."""

    patches: Patches
    mean: Tensor
    axes: Tensor  # (9·K, width / 2), over the spread of each of the 9·K
    neighbours: Neighbours
    shape: tuple[int, int, int]
    dtype: torch.dtype

    @property
    def width(self) -> int:
        """Numbers a row."""
        return 2 * self.axes.shape[1]

    @torch.no_grad()
    def transform(self, images: npt.NDArray[np.uint8], *, batch: int = 2000) -> npt.NDArray[np.float32]:
        """Features of any images of the shape that was learned from; each depends on its own image only. `batch` bounds memory."""
        check_images(images, self.shape)
        features = np.empty((len(images), self.width), np.float32)
        for start in range(0, len(images), batch):
            features[start : start + batch] = self.neighbours.transform(self.own(images[start : start + batch]))
        return features

    @torch.no_grad()
    def own(self, images: npt.NDArray[np.uint8], *, batch: int = 2000) -> npt.NDArray[np.float32]:
        """The images' own features, half the width, without their neighbours': to put beside other kinds (`learn_neighbours`)."""
        check_images(images, self.shape)
        return _rotated(self.patches, images, self.mean, self.axes, self.dtype, batch)

    # ── files ──

    def save(self, path: Path) -> None:
        """Write as safetensors, placed in one step. Nothing in such a file is executed."""
        about = {
            "kind": "labeldp-features-1",
            "shape": ",".join(map(str, self.shape)),
            "size": str(self.patches.size),
            "dtype": str(self.dtype).removeprefix("torch."),
        }
        content = encode(self._tensors(), about)
        place_file(path, lambda file: file.write(content))

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {"weights": self.patches.weights, "offset": self.patches.offset, "mean": self.mean, "axes": self.axes}
        return tensors | {f"neighbours.{name}": value for name, value in vars(self.neighbours).items()}

    @classmethod
    def load(cls, path: Path) -> Featurizer:
        """As saved. Where it was saved with bfloat16 and the machine has none, float32 computes the same to two digits."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata()
                t = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if about["kind"] != "labeldp-features-1":
                raise KeyError
            channels, height, width = map(int, about["shape"].split(","))
            saved, here = getattr(torch, about["dtype"]), choose_dtype(torch.device("cpu"))
            dtype = torch.float32 if here == torch.float32 else saved
            patches = Patches(t["weights"], t["offset"], int(about["size"]))
            neighbours = Neighbours(*(t[f"neighbours.{field.name}"] for field in fields(Neighbours)))
            return cls(patches, t["mean"], t["axes"], neighbours, (channels, height, width), dtype)
        except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError):
            raise FileFormatError(f"{path} is not a file of frozen features.") from None


@torch.no_grad()
def learn_features(
    images: npt.NDArray[np.uint8], *, seed: int = 0, filters: int = 512, width: int = 512, bank: int = BANK
) -> Featurizer:
    """Learn from public images: `filters` patches, `width` numbers a row, neighbours among `bank` of the images."""
    check_images(images)
    _check_sizes(images, filters, width, bank)
    generator = torch.Generator().manual_seed(seed)
    dtype = choose_dtype(torch.device("cpu"))
    patches = learn_patches(images, filters, PATCH, generator)
    chosen = images[torch.randperm(len(images), generator=generator)[:bank].sort().values.numpy()]
    sample = _pooled(patches, chosen[:_AXES_SAMPLE], dtype)
    mean, spread = sample.mean(dim=0), sample.std(dim=0).clamp_min(1e-6)
    axes = _principal((sample - mean) / spread, width // 2, generator) / spread[:, None]
    del sample
    own = _rotated(patches, chosen, mean, axes, dtype)
    neighbours = learn_neighbours(own, bank=bank)
    _, channels, height, across = images.shape
    return Featurizer(patches, mean, axes, neighbours, (channels, height, across), dtype)


def _rotated(
    patches: Patches, images: npt.NDArray[np.uint8], mean: Tensor, axes: Tensor, dtype: torch.dtype, batch: int = 2000
) -> npt.NDArray[np.float32]:
    rotated = np.empty((len(images), axes.shape[1]), np.float32)
    for start in range(0, len(images), batch):
        rotated[start : start + batch] = (_pooled(patches, images[start : start + batch], dtype) - mean) @ axes
    return rotated


def _pooled(patches: Patches, images: npt.NDArray[np.uint8], dtype: torch.dtype) -> Tensor:
    pooled = torch.empty(len(images), REGIONS * REGIONS * len(patches.weights))
    for start in range(0, len(images), _BATCH):
        x = torch.from_numpy(images[start : start + _BATCH]).float() / 255
        pooled[start : start + len(x)] = patches.pooled(x, dtype)
    return pooled


def _principal(x: Tensor, width: int, generator: torch.Generator) -> Tensor:
    """Leading principal axes (columns) of centred rows, by subspace iteration (Halko et al. 2011)."""
    basis = torch.randn(x.shape[1], min(width + 32, x.shape[1]), generator=generator)
    for _ in range(4):
        basis, _ = torch.linalg.qr(x.T @ (x @ basis))
    inside = x @ basis
    _, vectors = torch.linalg.eigh(inside.T @ inside)
    axes: Tensor = (basis @ vectors).flip(1)[:, :width].contiguous()
    return axes


def _check_sizes(images: npt.NDArray[np.uint8], filters: int, width: int, bank: int) -> None:
    n, channels, height, across = images.shape
    least = PATCH + REGIONS - 1
    if channels < 1 or min(height, across) < least:
        raise InputError(
            f"images must have {least}×{least} pixels or more for patches of {PATCH}×{PATCH}; got {height}×{across}."
        )
    if filters < 2 or width < 2 or width % 2:
        raise InputError(f"filters must be 2 or more and width an even number; got {filters} and {width}.")
    if n < filters or bank < filters:
        raise InputError(
            f"{filters:,} filters need as many images or more; got {min(n, bank):,}. Fewer filters do for a small set: filters=32."
        )
    if width // 2 > min(n, REGIONS * REGIONS * filters):
        raise InputError(
            f"{n:,} images and {filters:,} filters give at most {2 * min(n, 9 * filters):,} features; width is {width:,}."
        )

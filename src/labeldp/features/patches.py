"""Patches: what an image is made of. A dictionary of whitened patches, and how much of each entry is where in an image.

Coates, Lee and Ng 2011; Coates and Ng 2012: take random patches p, remove their mean, divide by their spread s, whiten (ZCA), and
find K unit vectors d by spherical k-means. A patch's response to entry d, and the feature, its mean over each of 3×3 regions, are

    r_d(p) = d·Z((p − mean p)/s − m),      f = mean over the region of max(0, r_d(p) − α)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from labeldp.errors import InputError

REGIONS = 3  # a side
_ALPHA = 0.25
_SMALLEST_SPREAD = 10 / 255**2  # a variance: of flat patches only noise would be left
_WHITENING_FLOOR = 0.1
_SAMPLE = 200_000
_PER_IMAGE = 50
_ROUNDS = 8
_CHUNK = 20_000


@dataclass(frozen=True)
class Patches:
    """Linear filters that give the responses: `weights` (K, channels × size × size), and what is taken off, `offset` (K,)."""

    weights: Tensor
    offset: Tensor
    size: int

    def pooled(self, images: Tensor, dtype: torch.dtype) -> Tensor:
        """Features (n, 9·K) of a small batch of images with values from 0 to 1."""
        count = self.weights.shape[1]
        x = images - 0.5  # nearer to 0, the variance below cancels less
        first = functional.avg_pool2d(x.mean(dim=1, keepdim=True), self.size, 1)
        second = functional.avg_pool2d((x * x).mean(dim=1, keepdim=True), self.size, 1)
        variance = (second - first * first).clamp_min(0) * count / (count - 1)
        columns = functional.unfold(x, self.size).sub_(first.flatten(2))
        columns *= torch.rsqrt(variance + _SMALLEST_SPREAD).flatten(2)
        columns = columns.to(dtype).transpose(1, 2).reshape(-1, count)
        responses = torch.addmm(-(self.offset + _ALPHA).to(dtype), columns, self.weights.T.to(dtype)).relu_()
        regions = _regions(first.shape[2], first.shape[3]).to(dtype)
        return (regions @ responses.reshape(len(x), regions.shape[1], -1)).float().flatten(1)


def learn_patches(images: npt.NDArray[np.uint8], filters: int, size: int, generator: torch.Generator) -> Patches:
    """A dictionary of `filters` patches of size × size pixels."""
    patches = _normalised(_sample(images, size, generator))
    mean = patches.mean(dim=0)
    values, vectors = torch.linalg.eigh((patches - mean).T @ (patches - mean) / len(patches))
    whitening = vectors @ torch.diag((values.clamp_min(0) + _WHITENING_FLOOR).rsqrt()) @ vectors.T
    weights = _spherical_means((patches - mean) @ whitening, filters, generator) @ whitening
    return Patches(weights, weights @ mean, size)


def _sample(images: npt.NDArray[np.uint8], size: int, generator: torch.Generator) -> Tensor:
    n, channels, height, width = images.shape
    taken = (min(_SAMPLE, _PER_IMAGE * n), 1, 1, 1)
    which = torch.randint(0, n, taken, generator=generator)
    down = torch.randint(0, height - size + 1, taken, generator=generator)
    right = torch.randint(0, width - size + 1, taken, generator=generator)
    side = torch.arange(size)
    colour = torch.arange(channels)[None, :, None, None]
    patches = torch.from_numpy(images)[which, colour, down + side[:, None], right + side]
    return patches.flatten(1).float() / 255


def _normalised(patches: Tensor) -> Tensor:
    centred = patches - patches.mean(dim=1, keepdim=True)
    return centred * torch.rsqrt(centred.var(dim=1, keepdim=True) + _SMALLEST_SPREAD)


def _spherical_means(points: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Unit vectors d that maximise Σ max over d of (d·z)²: assign each point, add up with its response as weight, normalise."""
    means = functional.normalize(points[torch.randperm(len(points), generator=generator)[:count]])
    for _ in range(_ROUNDS):
        sums = torch.zeros_like(means)
        for chunk in torch.split(points, _CHUNK):
            response, nearest = (chunk @ means.T).max(dim=1)
            sums.index_add_(0, nearest, chunk * response[:, None])
        empty = sums.norm(dim=1) < 1e-6
        sums[empty] = points[torch.randint(0, len(points), (int(empty.sum()),), generator=generator)]
        means = functional.normalize(sums)
    return means


def _regions(height: int, width: int) -> Tensor:
    """A matrix (9, positions) that averages the positions of each region."""
    rows = _third(height)[:, None, :, None] * _third(width)[None, :, None, :]
    return rows.reshape(REGIONS * REGIONS, height * width)


def _third(length: int) -> Tensor:
    part = torch.arange(length) * REGIONS // length
    inside = (part == torch.arange(REGIONS)[:, None]).float()
    return inside / inside.sum(dim=1, keepdim=True)


def check_images(images: npt.NDArray[Any], shape: tuple[int, ...] | None = None) -> None:
    """Refuse what is not a table of images of bytes (of this shape), and say what it is."""
    what = f"{images.dtype} of shape {images.shape}" if isinstance(images, np.ndarray) else type(images).__name__
    if not isinstance(images, np.ndarray) or images.ndim != 4 or images.dtype != np.uint8:
        raise InputError(
            f"images are bytes (uint8) of shape (rows, channels, height, width); got {what}. Rows of numbers need no featurizer: "
            "teachers take them as they are."
        )
    if shape is not None and images.shape[1:] != shape:
        raise InputError(
            f"these features were learned from images of shape {shape} (channels, height, width); got {images.shape[1:]}."
        )

"""Augmentations of whole batches, each image with randomness of its own: crops and mirrors, cutout, RandAugment."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional


def shift(images: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """Each image moved by up to `most` pixels in both directions, its border reflected (a random crop of a padded image)."""
    n, _, height, width = images.shape
    padded = functional.pad(images, (most,) * 4, mode="reflect")
    device = images.device
    down, right = torch.randint(0, 2 * most + 1, (2, n), generator=generator).to(device)
    rows = (down[:, None] + torch.arange(height, device=device))[:, None, :, None]
    columns = (right[:, None] + torch.arange(width, device=device))[:, None, None, :]
    batch = torch.arange(n, device=device)[:, None, None, None]
    channels = torch.arange(images.shape[1], device=device)[None, :, None, None]
    return padded[batch, channels, rows, columns]


def flip(images: Tensor, which: Tensor) -> Tensor:
    """Mirror the images that `which` marks."""
    return torch.where(which[:, None, None, None], images.flip(3), images)


def cutout(images: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """A square of `size` pixels around a random place of each image (cut off at the border) set to 0, the mean colour."""
    n, _, height, width = images.shape
    device = images.device
    down = torch.randint(0, height, (n,), generator=generator).to(device)
    right = torch.randint(0, width, (n,), generator=generator).to(device)
    rows = torch.arange(height, device=device) - down[:, None] + size // 2
    columns = torch.arange(width, device=device) - right[:, None] + size // 2
    inside = ((rows >= 0) & (rows < size))[:, None, :, None] & ((columns >= 0) & (columns < size))[:, None, None, :]
    return images.masked_fill(inside, 0)


def noisy(rows: Tensor, spread: Tensor, generator: torch.Generator) -> Tensor:
    """Each number moved by Gaussian noise of this standard deviation, one for each feature."""
    return rows + spread * torch.randn(rows.shape, generator=generator).to(rows.device)


def mixed(rows: Tensor, most: float, generator: torch.Generator) -> Tensor:
    """(1 − λ)·row + λ·another row of the batch, λ uniform in [0, most] for each."""
    share = most * torch.rand(len(rows), generator=generator).to(rows.device)
    others = rows[torch.randperm(len(rows), generator=generator).to(rows.device)]
    return torch.lerp(rows, others, share.reshape(-1, *(1,) * (rows.ndim - 1)))


def mixed_pairs(
    rows: Tensor, concentration: float, generator: torch.Generator
) -> tuple[Tensor, npt.NDArray[np.int64], float]:
    """Mixup (Zhang et al. 2018): λ·row + (1 − λ)·its partner, who that is, and λ, which is Beta(concentration, concentration).

    One λ for the batch. Of evidence, not labels, there is nothing to mix: its *losses* are, λ·loss(e) + (1 − λ)·loss(e of the partner).
    """
    if not concentration:
        return rows, np.arange(len(rows)), 1.0
    partners = torch.randperm(len(rows), generator=generator)
    seed = int(torch.randint(1 << 62, (), generator=generator))
    share = float(np.random.default_rng(seed).beta(concentration, concentration))
    return torch.lerp(rows[partners.to(rows.device)], rows, share), partners.numpy(), share


# ----------------------------------------------------------------
# RandAugment on whole batches, each image with operations of its own (Cubuk et al. 2020, with FixMatch's list and ranges).

# Images are (n, channels, height, width) in [0, 255]; a strength in [0, 1] for each.
Operation = Callable[[Tensor, Tensor], Tensor]


def randaugment(images: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """`count` times: each image draws an operation, a strength and a direction, and a coin decides whether it is applied."""
    return operated(images, count, generator, OPERATIONS)


def operated(
    images: Tensor,
    count: int,
    generator: torch.Generator,
    operations: Mapping[str, tuple[Operation, bool]],
    levels: int | None = None,
) -> Tensor:
    """The same by these operations. Strengths are uniform; with `levels` L, one of 1/(L+1), 2/(L+1) … L/(L+1)."""
    images = images.float()
    for _ in range(count):
        n = len(images)
        drawn = torch.randint(len(operations), (n,), generator=generator)
        strength, side, coin = torch.rand((3, n), generator=generator)
        if levels is not None:
            strength = (torch.floor(levels * strength) + 1) / (levels + 1)
        signed = torch.where(side < 0.5, -strength, strength)
        result = images.clone()
        for index, (operation, mirrored) in enumerate(operations.values()):
            rows = torch.nonzero((drawn == index) & (coin < 0.5))[:, 0]
            if len(rows):
                level = (signed if mirrored else strength)[rows].to(images.device)
                where = rows.to(images.device)
                result[where] = operation(images[where], level)
        images = result
    return images


def _each(values: Tensor) -> Tensor:
    return values[:, None, None, None]


def _blend(base: Tensor, images: Tensor, strength: Tensor) -> Tensor:
    """From `base` (nearly) to the image; FixMatch's factor runs from 0.05 to 0.95."""
    factor = _each(0.05 + 0.9 * strength)
    return (base + factor * (images - base)).clamp(0, 255)


def _grey(images: Tensor) -> Tensor:
    if images.shape[1] != 3:
        return images.mean(dim=1, keepdim=True)
    weights = torch.tensor([0.299, 0.587, 0.114], device=images.device)[None, :, None, None]
    return (images * weights).sum(dim=1, keepdim=True)


def brightness(images: Tensor, strength: Tensor) -> Tensor:
    """Towards black."""
    return _blend(torch.zeros_like(images), images, strength)


def color(images: Tensor, strength: Tensor) -> Tensor:
    """Towards grey."""
    return _blend(_grey(images).expand_as(images), images, strength)


def contrast(images: Tensor, strength: Tensor) -> Tensor:
    """Towards the image's mean grey."""
    return _blend(_grey(images).mean(dim=(1, 2, 3), keepdim=True).expand_as(images), images, strength)


def sharpness(images: Tensor, strength: Tensor) -> Tensor:
    """Towards a smoothed image (Pillow's SMOOTH filter, which leaves the border as it is)."""
    channels = images.shape[1]
    kernel = torch.ones(3, 3, device=images.device)
    kernel[1, 1] = 5
    smooth = functional.conv2d(images, (kernel / 13).expand(channels, 1, 3, 3), groups=channels)
    base = images.clone()
    base[:, :, 1:-1, 1:-1] = smooth
    return _blend(base, images, strength)


def solarize(images: Tensor, strength: Tensor) -> Tensor:
    """Invert what is at least as bright as a threshold: 255 at strength 0, 0 at strength 1."""
    return torch.where(images >= _each(256 * (1 - strength)), 255 - images, images)


def posterize(images: Tensor, strength: Tensor) -> Tensor:
    """Keep the upper 4 to 8 bits."""
    step = _each(2.0 ** (4 - torch.round(4 * strength)))
    return torch.floor(images / step) * step


def autocontrast(images: Tensor, strength: Tensor) -> Tensor:
    """Stretch each channel to the whole range."""
    low, high = images.amin(dim=(2, 3), keepdim=True), images.amax(dim=(2, 3), keepdim=True)
    return torch.where(high > low, (images - low) * (255 / (high - low).clamp_min(1)), images)


def equalize(images: Tensor, strength: Tensor) -> Tensor:
    """Equalise each channel's histogram, as Pillow does."""
    n, channels, height, width = images.shape
    levels = images.round().long().clamp(0, 255).reshape(n * channels, -1)
    counts = torch.zeros(n * channels, 256, device=images.device).scatter_add_(
        1, levels, torch.ones_like(levels, dtype=torch.float32)
    )
    last = counts.gather(1, levels.amax(dim=1, keepdim=True))  # of the brightest level that occurs
    step = torch.floor((counts.sum(dim=1, keepdim=True) - last) / 255)
    before = counts.cumsum(dim=1) - counts
    table = torch.floor((before + torch.floor(step / 2)) / step.clamp_min(1)).clamp(0, 255)
    result = table.gather(1, levels).reshape(n, channels, height, width)
    return torch.where(step.reshape(n, channels, 1, 1) > 0, result, images)


def identity(images: Tensor, strength: Tensor) -> Tensor:
    """As it is."""
    return images


def _moved(images: Tensor, matrix: Tensor) -> Tensor:
    """Each image through its own affine map (2 × 3, from places in the result to places in the image); black outside."""
    grid = functional.affine_grid(matrix, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, mode="nearest", padding_mode="zeros", align_corners=False)


def _matrix(a: Tensor, b: Tensor, x: Tensor, c: Tensor, d: Tensor, y: Tensor) -> Tensor:
    return torch.stack((torch.stack((a, b, x), dim=1), torch.stack((c, d, y), dim=1)), dim=1)


def rotate(images: Tensor, strength: Tensor) -> Tensor:
    """By up to 30 degrees either way."""
    angle, zero = strength * (math.pi / 6), torch.zeros_like(strength)
    return _moved(images, _matrix(angle.cos(), -angle.sin(), zero, angle.sin(), angle.cos(), zero))


def shear_x(images: Tensor, strength: Tensor) -> Tensor:
    """By up to 0.3 either way."""
    zero, one = torch.zeros_like(strength), torch.ones_like(strength)
    return _moved(images, _matrix(one, 0.3 * strength, zero, zero, one, zero))


def shear_y(images: Tensor, strength: Tensor) -> Tensor:
    """By up to 0.3 either way."""
    zero, one = torch.zeros_like(strength), torch.ones_like(strength)
    return _moved(images, _matrix(one, zero, zero, 0.3 * strength, one, zero))


def translate_x(images: Tensor, strength: Tensor) -> Tensor:
    """By up to 0.3 of the width either way."""
    zero, one = torch.zeros_like(strength), torch.ones_like(strength)
    return _moved(images, _matrix(one, zero, 0.6 * strength, zero, one, zero))


def translate_y(images: Tensor, strength: Tensor) -> Tensor:
    """By up to 0.3 of the height either way."""
    zero, one = torch.zeros_like(strength), torch.ones_like(strength)
    return _moved(images, _matrix(one, zero, zero, zero, one, 0.6 * strength))


# Each with whether its strength has a direction.
OPERATIONS: dict[str, tuple[Operation, bool]] = {
    "autocontrast": (autocontrast, False), "brightness": (brightness, False), "color": (color, False),
    "contrast": (contrast, False), "equalize": (equalize, False), "identity": (identity, False),
    "posterize": (posterize, False), "rotate": (rotate, True), "sharpness": (sharpness, False),
    "shear_x": (shear_x, True), "shear_y": (shear_y, True), "solarize": (solarize, False),
    "translate_x": (translate_x, True), "translate_y": (translate_y, True),
}  # fmt: skip

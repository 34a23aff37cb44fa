"""Augmentations of whole batches, with randomness of its own for each image."""

from __future__ import annotations

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

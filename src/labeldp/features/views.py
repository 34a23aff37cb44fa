"""Random views of a batch of images, for contrastive learning: a crop, mirrored by a coin, in changed light and colour."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

_SMALLEST_AREA = 0.15
_ASPECT = math.log(4 / 3)
_LIGHT = 0.4  # brightness, contrast and colour change by up to this share
_GREY = 0.2


def view_size(size: tuple[int, ...]) -> tuple[int, int]:
    """Pixels of a view of images of this size: three quarters a side."""
    height, width = size
    return round(height * 0.75), round(width * 0.75)


def random_views(images: Tensor, views: int, generator: torch.Generator) -> Tensor:
    """`views` views of each standardised image, all first views before all second; three quarters of the size in pixels."""
    x = images.repeat(views, 1, 1, 1)
    x = _crop(x, view_size(tuple(images.shape[2:])), generator)
    return _light(x, generator).contiguous(memory_format=torch.channels_last)


def _crop(x: Tensor, size: tuple[int, int], generator: torch.Generator) -> Tensor:
    """A random rectangle of 15% to 100% of the area, resized; bilinear, with both axes of its own for each image."""
    n = len(x)
    area, aspect, across, down, coin = torch.rand(5, n, generator=generator)
    side = torch.sqrt(_SMALLEST_AREA + (1 - _SMALLEST_AREA) * area)
    shape = torch.exp((2 * aspect - 1) * _ASPECT / 2)
    wide, high = (side * shape).clamp_max(1), (side / shape).clamp_max(1)
    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0] = wide * torch.where(coin < 0.5, -1.0, 1.0)
    theta[:, 0, 2] = (2 * across - 1) * (1 - wide)
    theta[:, 1, 1] = high
    theta[:, 1, 2] = (2 * down - 1) * (1 - high)
    grid = functional.affine_grid(theta, [n, x.shape[1], *size], align_corners=False)
    return functional.grid_sample(x, grid, align_corners=False, padding_mode="border")


def _light(x: Tensor, generator: torch.Generator) -> Tensor:
    """Brightness, contrast and, of colour images, saturation and the odd grey one."""
    n, channels, _, _ = x.shape
    bright, contrast, colour, grey = torch.rand(4, n, 1, 1, 1, generator=generator)
    x = x * (1 + _LIGHT * (2 * contrast - 1)) + _LIGHT * (2 * bright - 1)
    if channels == 1:
        return x
    mean = x.mean(dim=1, keepdim=True)
    kept = torch.where(grey < _GREY, 0.0, 1 + 2 * _LIGHT * (2 * colour - 1))
    tint = _LIGHT / 2 * (2 * torch.rand(n, channels, 1, 1, generator=generator) - 1)
    return mean + (x - mean) * kept + torch.where(grey < _GREY, 0.0, tint)

"""Strong views as the released code of FixMatch in PyTorch makes them (kekmodel/FixMatch-pytorch, which the paper's PATE-FM took over).

What differs from `augment`, operation by operation: strengths are one of .1, .2 … .9; pixels are whole numbers between operations, as
Pillow has them; shears leave the upper left corner where it is, not the middle; translations are by whole pixels, rounded towards zero;
posterize keeps 4 to 7 bits; and cutout is grey, and pushed inside at two of the four borders. Images are (n, channels, height, width), in
[0, 255].
"""

from __future__ import annotations

import torch
from torch import Tensor

from labeldp.training import augment
from labeldp.training.augment import Operation

_LEVELS = 9
_GREY = 127.0
_ROUNDING = 1e-3  # of 32-bit floats: what is a whole number but for this is that number


def randaugment(images: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """`count` times: each image draws an operation, one of nine strengths and a direction, and a coin decides whether it is applied."""
    return augment.operated(images, count, generator, OPERATIONS, _LEVELS)


def cutout(images: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """A grey rectangle from (x, y) to (x + size, y + size), both inside it: `size` + 1 pixels a side.

    x is a uniform place less half the size, or 0 where that is negative: the square is cut off at the right and at the lower border, and
    moved inside at the others. For 16 of 32 pixels it covers (508/1024)² = 24.6% of the image on average.
    """
    n, _, height, width = images.shape

    def covered(length: int) -> Tensor:
        middle = length * torch.rand(n, generator=generator).to(images.device)
        first = (middle - size / 2).clamp_min(0).floor()[:, None]
        place = torch.arange(length, device=images.device)
        return (place >= first) & (place <= first + size)

    across, down = covered(width), covered(height)
    return images.masked_fill(down[:, None, :, None] & across[:, None, None, :], _GREY)


def posterize(images: Tensor, strength: Tensor) -> Tensor:
    """Keep the upper 4 + ⌊4·strength⌋ bits."""
    step = (2.0 ** (4 - _down(4 * strength)))[:, None, None, None]
    return torch.floor(images / step) * step


def shear_x(images: Tensor, strength: Tensor) -> Tensor:
    """By up to 0.3 either way. A pixel's middle at (x, y) comes from (x + sy, y): row by row, a move by whole pixels."""
    middle = torch.arange(images.shape[2], device=images.device) + 0.5
    return _moved(images, _down(0.5 + 0.3 * strength[:, None] * middle))


def shear_y(images: Tensor, strength: Tensor) -> Tensor:
    """By up to 0.3 either way, column by column."""
    return shear_x(images.transpose(2, 3), strength).transpose(2, 3)


def translate_x(images: Tensor, strength: Tensor) -> Tensor:
    """By up to 0.3 of the width either way, in whole pixels towards none."""
    pixels = 0.3 * strength.abs() * images.shape[3]
    return _moved(images, (strength.sign() * _down(pixels))[:, None].expand(-1, images.shape[2]))


def translate_y(images: Tensor, strength: Tensor) -> Tensor:
    """By up to 0.3 of the height either way, in whole pixels towards none."""
    return translate_x(images.transpose(2, 3), strength).transpose(2, 3)


def _moved(images: Tensor, by: Tensor) -> Tensor:
    """Row y of image i is what was `by[i, y]` pixels to the right; black where there was nothing."""
    width = images.shape[3]
    source = torch.arange(width, device=images.device) + by.long()[:, :, None]
    found = images.gather(3, source.clamp(0, width - 1)[:, None].expand_as(images))
    return found.masked_fill(((source < 0) | (source >= width))[:, None], 0)


def _down(values: Tensor) -> Tensor:
    return torch.floor(values + _ROUNDING)


def _in_bytes(operation: Operation) -> Operation:
    """The operation, and its result as Pillow keeps it: without what is behind the point."""

    def operated(images: Tensor, strength: Tensor) -> Tensor:
        return _down(operation(images, strength))

    return operated


# Each with whether its strength has a direction.
OPERATIONS: dict[str, tuple[Operation, bool]] = {
    name: (_in_bytes(own), mirrored)
    for name, (own, mirrored) in {
        **augment.OPERATIONS,
        "posterize": (posterize, False),
        "shear_x": (shear_x, True),
        "shear_y": (shear_y, True),
        "translate_x": (translate_x, True),
        "translate_y": (translate_y, True),
    }.items()
}

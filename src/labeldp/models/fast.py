"""`fast`: a small whitened-patch ResNet that makes CIFAR practical on a CPU.

Forward, an image of CIFAR takes 52 MFLOP; with `fast-medium` 89, with `fast-wide` 236.

The first layer is frozen: 2×2 patches, rotated to their principal axes and scaled to unit variance. It is computed from the
public features alone and uses no label.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

# By the model's name. `fast` was chosen for 6e13 FLOP; where there are many more, wider layers pay.
WIDTHS = {"fast": (32, 96, 128), "fast-medium": (32, 128, 256), "fast-wide": (64, 256, 256)}
_LOGIT_SCALE = (
    1 / 3
)  # a ninth, usual for clean labels, learns much more slowly from noisy ones, and no better from clean ones


class FastNet(nn.Module):
    """Whitened patches, three groups of two convolutions (the second is residual), max-pooling, a scaled linear head."""

    def __init__(self, num_classes: int, in_channels: int = 3, widths: tuple[int, ...] = WIDTHS["fast"]) -> None:
        super().__init__()
        patches = 4 * in_channels
        self.width = widths[-1]
        self.whiten = nn.Conv2d(in_channels, 2 * patches, 2, bias=False).requires_grad_(False)
        self.groups = nn.Sequential(*(_Group(a, b) for a, b in itertools.pairwise((2 * patches, *widths))))
        self.head = nn.Linear(self.width, num_classes, bias=False)

    @torch.no_grad()
    def prepare(self, images: Tensor) -> None:
        """Set the whitening layer from (a sample of) the public images, as the model will see them."""
        _, channels, _, _ = images.shape
        patches = images.float().unfold(2, 2, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 4 * channels)
        covariance = patches.T @ patches / len(patches)
        values, vectors = torch.linalg.eigh(covariance)
        axes = (vectors.T / torch.sqrt(values.clamp_min(0) + 5e-4)[:, None]).reshape(-1, channels, 2, 2)
        self.whiten.weight.copy_(torch.cat((axes, -axes)))

    def embed(self, x: Tensor) -> Tensor:
        """What the head sees of a batch of images (n, channels, height, width): `width` numbers each."""
        features: Tensor = self.groups(torch.relu(self.whiten(x))).amax(dim=(2, 3))
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.head(self.embed(x)) * _LOGIT_SCALE
        return logits


class _Group(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(outside)
        self.second = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(outside)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first_norm(self.pool(self.first(x))))
        return x + torch.relu(self.second_norm(self.second(x)))

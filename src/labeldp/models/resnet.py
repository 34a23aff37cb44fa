"""ResNet-18 for small images (He et al. 2016, with a 3×3 stem and no pooling before the blocks), as the paper's Table 2 uses it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class _Block(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(outside)
        self.second = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(outside)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.second_norm(self.second(torch.relu(self.first_norm(self.first(x)))))
        return torch.relu(inner + self.shortcut(x))


class ResNet18(nn.Module):
    """Four groups of two blocks, 64 to 512 channels."""

    def __init__(self, num_classes: int, in_channels: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(in_channels, 64, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(64)
        blocks, inside = [], 64
        for outside, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [_Block(inside, outside, stride), _Block(outside, outside, 1)]
            inside = outside
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch of images."""
        x = self.blocks(torch.relu(self.norm(self.stem(x))))
        logits: Tensor = self.head(x.mean(dim=(2, 3)))
        return logits

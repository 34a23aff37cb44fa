"""ResNet-18 and Wide-ResNet-28, as the paper's code builds them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

# ----------------------------------------------------------------
# ResNet-18 for small images (He et al. 2016, with a 3×3 stem and no pooling before the blocks), as the paper's Table 2 uses it.


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


# ----------------------------------------------------------------
# Wide-ResNet-28-k (Zagoruyko & Komodakis 2016) as the paper's released code trains it.
#
# Its habits are kept, so that the paper's runs can be repeated: leaky rectifiers (0.1), normalisation that averages over a thousand
# batches, and a first block of groups two and three that convolves its input without normalising it first.

_BLOCKS = 4  # a group of a 28-layer net


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, momentum=0.001)


def _leaky(x: Tensor) -> Tensor:
    return functional.leaky_relu(x, 0.1)


class _WideBlock(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int, activated_shortcut: bool) -> None:
        super().__init__()
        # Where the shape changes, groups two and three convolve their input as it comes.
        self.first_norm = _norm(inside) if inside == outside or activated_shortcut else None
        self.second_norm = _norm(outside)
        self.first = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(inside, outside, 1, stride, bias=False) if inside != outside else None

    def forward(self, x: Tensor) -> Tensor:
        inner = _leaky(self.first_norm(x)) if self.first_norm is not None else x
        skipped = x if self.shortcut is None else self.shortcut(inner)
        out: Tensor = skipped + self.second(_leaky(self.second_norm(self.first(inner))))
        return out


class WideResNet(nn.Module):
    """28 layers, `widen` times as wide; `widen` is 4 for CIFAR-10 and 8 for CIFAR-100 in the paper."""

    def __init__(self, num_classes: int, widen: int, in_channels: int = 3) -> None:
        super().__init__()
        widths = (16, 16 * widen, 32 * widen, 64 * widen)
        self.stem = nn.Conv2d(in_channels, widths[0], 3, padding=1, bias=False)
        blocks = []
        for group in range(3):
            for block in range(_BLOCKS):
                inside = widths[group] if block == 0 else widths[group + 1]
                stride = 2 if group > 0 and block == 0 else 1
                blocks.append(_WideBlock(inside, widths[group + 1], stride, activated_shortcut=group == 0))
        self.blocks = nn.Sequential(*blocks)
        self.norm = _norm(widths[-1])
        self.head = nn.Linear(widths[-1], num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="leaky_relu")
        nn.init.xavier_normal_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a batch of images."""
        x = _leaky(self.norm(self.blocks(self.stem(x))))
        logits: Tensor = self.head(x.mean(dim=(2, 3)))
        return logits

"""Heads for embeddings and tables: a linear model, and one with a hidden layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_FAR = 10.0  # standard deviations


class _Standardized(nn.Module):
    """Features are shifted and scaled by their public mean and spread first."""

    mean: Tensor
    scale: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))

    @torch.no_grad()
    def prepare(self, features: Tensor) -> None:
        """Set mean and spread from the public features: all of them, or a rare column looks constant."""
        flat = features.float().flatten(1)
        spread = flat.std(dim=0)
        self.mean.copy_(flat.mean(dim=0))
        self.scale.copy_(torch.where(spread > 1e-6 * (1 + self.mean.abs()), 1 / spread.clamp_min(1e-30), 1.0))

    def standardized(self, x: Tensor) -> Tensor:
        # Cut off far out, where one row in ten thousand would outweigh its batch.
        return ((x.flatten(1) - self.mean) * self.scale).clamp(-_FAR, _FAR)


class Linear(_Standardized):
    """Logistic regression."""

    def __init__(self, features: int, num_classes: int) -> None:
        super().__init__(features)
        self.head = nn.Linear(features, num_classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.head(self.standardized(x))  # type: ignore[no-any-return]


class MLP(_Standardized):
    """One hidden layer of rectified units."""

    def __init__(self, features: int, num_classes: int, hidden: int = 256) -> None:
        super().__init__(features)
        self.hidden = nn.Linear(features, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.head = nn.Linear(hidden, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        return self.head(torch.relu(self.norm(self.hidden(self.standardized(x)))))  # type: ignore[no-any-return]

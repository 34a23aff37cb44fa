"""Heads for embeddings and tables: a linear model, and one with a hidden layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn


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
        """Set mean and spread from (a sample of) the public features."""
        flat = features.float().flatten(1)
        self.mean.copy_(flat.mean(dim=0))
        self.scale.copy_(1 / flat.std(dim=0).clamp_min(1e-6))

    def standardized(self, x: Tensor) -> Tensor:
        return (x.flatten(1) - self.mean) * self.scale


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

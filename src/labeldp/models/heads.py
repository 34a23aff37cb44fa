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
    """A linear model, and beside it one hidden layer of rectified units, which begins at nothing and is held back:

        logits = W·2x + b + V·drop(relu(norm(U x))),        V = 0 at first.

    So what few or noisy labels can tell is learned by the linear part. Its inputs are doubled, which makes weight decay a quarter there.
    In training half of the hidden units are left out at random: from a seed of the epoch, so that a resumed training is the same.
    """

    def __init__(self, features: int, num_classes: int, hidden: int = 64) -> None:
        super().__init__(features)
        self.linear = Linear(features, num_classes).head
        self.hidden = nn.Linear(features, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.head = nn.Linear(hidden, num_classes, bias=False)
        nn.init.zeros_(self.head.weight)
        self._seed = self._drawn = 0

    def begin_epoch(self, seed: int) -> None:
        """What is left out in an epoch follows from this seed."""
        self._seed, self._drawn = seed, 0

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # a compiler knows no generator but torch's own
    def _kept(self, rows: Tensor) -> Tensor | float:
        """Of each row's units, 2 for one that stays and 0 for one that is left out; when predicting all stay, at 1."""
        if not self.training:
            return 1.0
        self._drawn += 1
        generator = torch.Generator().manual_seed((self._seed * 1_000_003 + self._drawn) % (1 << 63))
        shape = (len(rows), self.hidden.out_features)
        return 2 * torch.randint(2, shape, generator=generator, dtype=torch.uint8).to(rows.device)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        kept = self._kept(x)  # first, so that a compiler has the rest in one piece
        x = self.standardized(x)
        units = torch.relu(self.norm(self.hidden(x))) * kept
        return self.linear(2 * x) + self.head(units)  # type: ignore[no-any-return]

"""Neighbours: the mean of the features of the images nearest to one. Public like the features, and much kinder to a few labels.

Averaging over a neighbour graph twice, X ← PX, keeps what varies slowly along the data and drops the rest (Wu et al. 2019, "simplifying
graph convolutional networks"): a linear model on it spreads each label over a neighbourhood, as label propagation does.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

NEAREST = 10
_CHUNK = 500


@dataclass(frozen=True)
class Neighbours:
    """A bank of public rows: unit vectors by which rows are found, and what is averaged."""

    keys: Tensor
    values: Tensor

    def mean(self, keys: Tensor) -> Tensor:
        """The mean value of the nearest rows (by cosine) of the bank, for each of these."""
        places = self._nearest(keys)
        total = self.values[places[:, 0]].clone()
        for rank in range(1, places.shape[1]):
            total += self.values[places[:, rank]]
        return total / places.shape[1]

    def _nearest(self, keys: Tensor) -> Tensor:
        keys = functional.normalize(keys)
        most = min(NEAREST, len(self.keys))
        return torch.cat([(part @ self.keys.T).topk(most, dim=1).indices for part in torch.split(keys, _CHUNK)])


def learn_neighbours(keys: Tensor, values: Tensor) -> Neighbours:
    """A bank whose values are averaged once already, so that `mean` averages a second time."""
    once = Neighbours(functional.normalize(keys), values)
    return Neighbours(once.keys, once.mean(keys))

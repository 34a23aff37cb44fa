"""Neighbours: beside a row of features, their mean over the rows nearest to it. Public like the features, and much kinder to a few labels.

Averaging over a neighbour graph twice, X ← PX, keeps what varies slowly along the data and drops the rest (Wu et al. 2019, "simplifying
graph convolutional networks"): a linear model on it spreads each label over a neighbourhood, as label propagation does. A row becomes

    [PPX, 0.3·X]

whose first half serves teachers with few labels, and whose second keeps what a student with many can use. It takes any features: those
of `learn_features` are made so already, an embedding from elsewhere can be. Of several kinds (patches and contrast, say) X has each,
scaled to the same share of the squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from labeldp.errors import InputError

NEAREST = 10
BANK = 30_000
_OWN = 0.3  # weight of a row's own features beside its neighbours'
_KEYS = 128  # leading principal axes by which neighbours are found, half whitened
_CHUNK = 500
_TINY = 1e-12


@dataclass(frozen=True)
class Neighbours:
    """A bank of public rows: unit vectors by which rows are found, and what is averaged."""

    mean: Tensor
    weights: Tensor  # of each feature: of each kind, one number
    axes: Tensor  # (d, keys): the principal axes, each over the fourth root of its variance
    keys: Tensor
    values: Tensor
    scale: Tensor

    @torch.no_grad()
    def transform(self, *features: npt.NDArray[np.float32], batch: int = 5000) -> npt.NDArray[np.float32]:
        """Rows of twice the width, from the same kinds in the same order; each depends on itself and the bank. `batch` bounds memory."""
        _check(features, len(self.mean))
        rows = np.empty((len(features[0]), 2 * len(self.mean)), np.float32)
        for start in range(0, len(rows), batch):
            own = (_beside(features, slice(start, start + batch)) - self.mean) * self.weights
            near = _average(own @ self.axes, self.keys, self.values)
            rows[start : start + len(own)] = (torch.cat((near, _OWN * own), dim=1) * self.scale).numpy()
        return rows


@torch.no_grad()
def learn_neighbours(*features: npt.NDArray[np.float32], bank: int = BANK, seed: int = 0) -> Neighbours:
    """Learn from public rows of features, of one kind or several. The bank is a random choice of rows, averaged once already."""
    _check(features)
    if bank < 2:
        raise InputError(f"a bank of neighbours needs 2 rows or more; got {bank}.")
    own = _beside(features, np.sort(np.random.default_rng(seed).permutation(len(features[0]))[:bank]))
    mean = own.mean(dim=0)
    own -= mean
    weights = torch.cat(
        [_unit(part).expand(part.shape[1]) for part in torch.split(own, [kind.shape[1] for kind in features], dim=1)]
    )
    own *= weights
    variances, vectors = torch.linalg.eigh(own.T @ own / len(own))
    variances, vectors = variances.flip(0)[:_KEYS].clamp_min(0), vectors.flip(1)[:, :_KEYS]
    axes = (vectors * (variances + 1e-3 * variances[0] + _TINY) ** -0.25).contiguous()
    keys = functional.normalize(own @ axes)
    values = _average(keys, keys, own)
    # One factor for all: a feature's mean square is near 1, whatever the units were.
    square = (values.square().mean() + _OWN**2 * own.square().mean()) / 2
    return Neighbours(mean, weights, axes, keys, values, torch.rsqrt(square.clamp_min(_TINY)))


def _beside(features: Sequence[npt.NDArray[np.float32]], rows: slice | npt.NDArray[np.int64]) -> Tensor:
    return torch.from_numpy(np.concatenate([kind[rows] for kind in features], axis=1, dtype=np.float32))


def _unit(part: Tensor) -> Tensor:
    """The factor that makes a row's squares add up to 1 on average."""
    return torch.rsqrt(part.square().sum(dim=1).mean().clamp_min(_TINY))


def _average(asked: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The mean value of the nearest rows of the bank (by cosine), for each row asked about."""
    most = min(NEAREST, len(keys))
    found = torch.empty(len(asked), values.shape[1])
    for start in range(0, len(asked), _CHUNK):
        part = functional.normalize(asked[start : start + _CHUNK])
        places = (part @ keys.T).topk(most, dim=1).indices
        total = values[places[:, 0]]
        for rank in range(1, most):
            total += values[places[:, rank]]
        found[start : start + len(part)] = total / most
    return found


def _check(kinds: Sequence[npt.NDArray[Any]], width: int | None = None) -> None:
    for features in kinds:
        if features.ndim != 2 or features.dtype.kind != "f" or features.shape[1] == 0:
            raise InputError(
                f"neighbours are found among rows of numbers (floats); got {features.dtype} of shape {features.shape}."
            )
        bad = ~np.isfinite(features).all(axis=1)
        if bad.any():
            raise InputError(f"row {int(np.argmax(bad))} of the features holds a number that is not finite.")
    lengths, given = {len(features) for features in kinds}, sum(features.shape[1] for features in kinds)
    if len(lengths) != 1:
        raise InputError("each kind of features must have the same rows, and there must be one kind or more.")
    if width is not None and given != width:
        raise InputError(f"these neighbours were learned from {width} features a row; got {given}.")
    if width is None and lengths.pop() < 2:
        raise InputError("neighbours need 2 rows of features or more.")

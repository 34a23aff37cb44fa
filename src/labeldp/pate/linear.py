"""Linear teachers on frozen features, all of them in one batched computation: 1,000 teachers are a matter of seconds.

A teacher with rows X (m × d) and one-hot labels Y, both centred by their own means, is ridge regression, in the dual if m < d:

    W = Xᵀ(XXᵀ + λI)⁻¹Y = (XᵀX + λI)⁻¹XᵀY,      λ = ridge · trace(XXᵀ)/m

and it votes for argmax over c of (q − mean x)·W_c + mean y_c. It depends on public features and the labels of its own shard, on nothing
else: no statistic of other labels, no ridge that labels chose. So one label moves one teacher, and that is what the proof needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from labeldp.errors import InputError
from labeldp.private import check_num_classes

Rows = npt.NDArray[np.integer[Any]]
Shards = Rows | Sequence[Rows]

RIDGE = 0.01
_NUMBERS = 1 << 25  # in memory at a time, for a chunk of teachers
_TINY = 1e-12


def teacher_votes(
    features: npt.NDArray[np.floating[Any]],
    shards: Shards,
    codes: Shards,
    queries: Rows,
    num_classes: int,
    *,
    ridge: float = RIDGE,
) -> npt.NDArray[np.int64]:
    """Votes (queries, classes): each teacher's one vote for each query, counted.

    `shards` are disjoint rows of `features`, one sequence a teacher; `codes` the class numbers of those rows, in the same shape.
    """
    votes = np.zeros((len(queries), check_num_classes(num_classes)), np.int64)
    places = np.arange(len(queries))
    for said in teacher_predictions(features, shards, codes, queries, num_classes, ridge=ridge):
        for one in said:
            votes[places, one] += 1
    return votes


def teacher_predictions(
    features: npt.NDArray[np.floating[Any]],
    shards: Shards,
    codes: Shards,
    queries: Rows,
    num_classes: int,
    *,
    ridge: float = RIDGE,
) -> Iterator[npt.NDArray[np.int64]]:
    """What each teacher says to each query, (some teachers, queries) at a time, in the order of the shards; memory stays bounded.

    Equal scores go to the lowest class. A class that a shard lacks is never said; it is no error, which would tell of labels.
    """
    check_num_classes(num_classes)
    rows, known = _table(shards)
    labels = _labels(codes, shards, rows.shape, num_classes)
    _check(features, rows[known], queries, ridge)
    asked = torch.from_numpy(np.ascontiguousarray(features[queries], np.float32))
    teachers, size = rows.shape
    width = features.shape[1]
    each = size * (width + 2 * size) + num_classes * (width + len(queries)) + min(size, width) ** 2
    step = max(1, _NUMBERS // each)
    for start in range(0, teachers, step):
        part = slice(start, start + step)
        x = torch.from_numpy(np.ascontiguousarray(features[rows[part]], np.float32))
        mask = torch.from_numpy(known[part])
        weights, offsets = _solve(x, torch.from_numpy(labels[part]), mask, num_classes, ridge)
        yield _said(asked, weights, offsets)


@torch.no_grad()
def _solve(x: Tensor, labels: Tensor, known: Tensor, num_classes: int, ridge: float) -> tuple[Tensor, Tensor]:
    """Weights (t, d, C) and offsets (t, C); −∞ where a shard has no row of the class. Rows that are not known count for nothing."""
    present = known[:, :, None].float()
    count = present.sum(dim=1)
    mean = (x * present).sum(dim=1) / count
    x = (x - mean[:, None, :]) * present
    one_hot = torch.nn.functional.one_hot(labels, num_classes) * present
    share = one_hot.sum(dim=1) / count
    y = ((one_hot - share[:, None, :]) * present).double()
    strength = (ridge * x.square().sum(dim=(1, 2)) / count[:, 0]).double().clamp_min(_TINY)[:, None, None]
    if x.shape[1] < x.shape[2]:
        gram = (x @ x.mT).double()
        weights = x.mT @ _inverse(gram, strength, y).float()
    else:
        weights = _inverse((x.mT @ x).double(), strength, x.mT.double() @ y).float()
    offsets = share - (mean[:, None, :] @ weights)[:, 0]
    return weights, offsets.masked_fill(share == 0, -torch.inf)


def _inverse(gram: Tensor, strength: Tensor, right: Tensor) -> Tensor:
    try:
        factor = torch.linalg.cholesky(gram + strength * torch.eye(gram.shape[-1], dtype=gram.dtype))
    except RuntimeError:  # torch's own name for it is private
        raise InputError(
            "the features are too large, or too unequal in scale, to be solved for; standardise them."
        ) from None
    return torch.cholesky_solve(right, factor)


@torch.no_grad()
def _said(asked: Tensor, weights: Tensor, offsets: Tensor) -> npt.NDArray[np.int64]:
    """argmax over classes, for (teachers, queries); the scores of all teachers are one product of matrices."""
    teachers, width, classes = weights.shape
    beside = weights.permute(1, 0, 2).reshape(width, teachers * classes)
    scores = torch.addmm(offsets.reshape(1, -1), asked, beside).reshape(len(asked), teachers, classes)
    # The first of equal maxima, as documented.
    return scores.argmax(dim=2).T.contiguous().numpy()


# ── checks ──


def _table(shards: Shards) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Rows (teachers, longest shard), and which of them are there."""
    lengths = np.array([len(shard) for shard in shards], np.int64)
    if len(lengths) == 0 or (lengths == 0).any():
        raise InputError("each teacher needs a row of its own or more; there are more teachers than rows.")
    known = np.arange(lengths.max()) < lengths[:, None]
    rows = np.zeros(known.shape, np.int64)
    rows[known] = np.concatenate([np.asarray(shard) for shard in shards])
    return rows, known


def _labels(codes: Shards, shards: Shards, shape: tuple[int, ...], num_classes: int) -> npt.NDArray[np.int64]:
    if len(codes) != len(shards) or any(len(a) != len(b) for a, b in zip(codes, shards, strict=True)):
        raise InputError("codes hold a class number for each row of each shard: give them in the shape of the shards.")
    known = np.arange(shape[1]) < np.array([len(shard) for shard in shards])[:, None]
    labels = np.zeros(shape, np.int64)
    labels[known] = np.concatenate([np.asarray(part) for part in codes])
    outside = (labels < 0) | (labels >= num_classes)
    if outside.any():
        teacher, place = np.argwhere(outside)[0]
        raise InputError(f"row {int(shards[teacher][place])} holds a label outside the {num_classes} declared classes.")
    return labels


def _check(features: npt.NDArray[Any], rows: npt.NDArray[np.int64], queries: Rows, ridge: float) -> None:
    if features.ndim != 2 or features.dtype.kind != "f":
        raise InputError(
            f"linear teachers take rows of numbers (floats); got {features.dtype} of shape {features.shape}. "
            "Images become such rows with learn_features."
        )
    for name, chosen in (("shards", rows), ("queries", queries)):
        if len(chosen) == 0 or np.min(chosen) < 0 or np.max(chosen) >= len(features):
            raise InputError(f"{name} must name rows from 0 to {len(features) - 1:,} of the features, one or more.")
    times = np.bincount(rows, minlength=len(features))
    if times.max() > 1:
        raise InputError(
            f"row {int(np.argmax(times > 1))} is in the shards more than once. They must be disjoint, else one label moves several votes."
        )
    used = np.concatenate((rows, np.asarray(queries)))
    for start in range(0, len(used), 1 << 16):
        bad = ~np.isfinite(features[used[start : start + (1 << 16)]]).all(axis=1)
        if bad.any():
            raise InputError(
                f"row {int(used[start + int(np.argmax(bad))])} of the features holds a number that is not finite."
            )
    if not (np.isfinite(ridge) and ridge > 0):
        raise InputError(f"ridge must be a positive number; got {ridge}. A typical value is {RIDGE}.")

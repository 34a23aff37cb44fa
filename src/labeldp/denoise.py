"""Uninformed post-processing of additive noise: from a noisy one-hot vector to a soft label, with no prior.

Pure functions of what was released (the paper's appendix on Soft-RR; min-max is in its released code alone). Rows are observations,
columns classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]


def min_projection(noisy: npt.ArrayLike) -> Floats:
    """The closest point on the probability simplex (Algorithm 4; Duchi et al. 2008).

    With s the sorted vector, k = max{j : s_j > (Σ_{i≤j} s_i − 1)/j}, u = (Σ_{i≤k} s_i − 1)/k, the result is max(o − u, 0).
    """
    o = _matrix(noisy)
    s = -np.sort(-o, axis=1)
    u = (np.cumsum(s, axis=1) - 1) / np.arange(1, o.shape[1] + 1, dtype=o.dtype)
    k = o.shape[1] - 1 - np.argmax((s > u)[:, ::-1], axis=1)
    return np.maximum(o - np.take_along_axis(u, k[:, None], axis=1), 0)


def min_max(noisy: npt.ArrayLike) -> Floats:
    """(o − min o)/(max o − min o), then divided by its sum; equal shares where all coordinates are equal.

    The range cancels, so it does not matter that the paper's code divides by max o in its place.
    """
    o = _matrix(noisy)
    above = o - o.min(axis=1, keepdims=True)
    total = above.sum(axis=1, keepdims=True)
    equal = np.full_like(above, 1 / o.shape[1])
    return np.asarray(np.divide(above, total, out=equal, where=total > 0))


def softmax(noisy: npt.ArrayLike) -> Floats:
    """e^{o_c}/Σ e^{o_k}."""
    o = _matrix(noisy)
    e = np.exp(o - o.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def argmax(noisy: npt.ArrayLike) -> Floats:
    """All weight on the largest coordinate; ties share it."""
    o = _matrix(noisy)
    top = (o == o.max(axis=1, keepdims=True)).astype(o.dtype)
    return np.asarray(top / top.sum(axis=1, keepdims=True))


WAYS: dict[str, Callable[[npt.ArrayLike], Floats]] = {
    "min-projection": min_projection,
    "min-max": min_max,
    "softmax": softmax,
    "argmax": argmax,
    "none": lambda noisy: _matrix(noisy),
}


def _matrix(noisy: npt.ArrayLike) -> Floats:
    o = np.asarray(noisy)
    o = o if o.dtype in (np.float32, np.float64) else o.astype(np.float64)
    if o.ndim != 2 or o.shape[1] == 0:
        raise ValueError(f"noisy labels are a matrix, one row an observation; got shape {o.shape}")
    return o

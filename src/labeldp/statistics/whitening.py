"""Public preprocessing: from columns of features to short rows of whole numbers, by the features alone.

    e = columns as they are, or 0 … 1 hats over quantiles      z = (e − mean)·U·λ^(−p/2), the leading d      q = (z, w) clipped to length R

U and λ are the principal axes of the columns, w a constant (the intercept). R is 2^15 − 1 grid steps, and rounding is toward zero: a row
becomes shorter, by less than √d steps. Whoever computes on another machine may get other last bits, and once in a while another step:
privacy is for whatever whole numbers the owner computed and checked, and a fit does not notice a step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.statistics.moment_noise import MAX_DIMENSIONS, MAX_RADIUS

Floats = npt.NDArray[np.float64]
Quantised = npt.NDArray[np.int16]

RADIUS = MAX_RADIUS
ENOUGH = 100_000  # rows that tell a covariance; more are taken from evenly
_SOME = 20_000  # rows that tell a quantile
_CHUNK = 1 << 20  # numbers at a time
KNOTS = 8  # of a column of many values
MOST_CURVED = 32  # columns of many values; more are an image or an embedding, and stay as they are
_LEAST = 1e-7  # of the largest eigenvalue: what is below has no direction of its own
_FAR = 1e6


def _chunks(count: int, width: int) -> Iterator[slice]:
    step = max(1, _CHUNK // max(1, width))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _evenly(count: int, most: int) -> npt.NDArray[np.int64]:
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def check_table(x: Any, columns: int | None = None) -> npt.NDArray[Any]:
    """A table of finite numbers, NaN where one is missing."""
    table = np.asarray(x)
    if table.ndim != 2 or table.dtype.kind not in "fiub" or 0 in table.shape:
        raise InputError("features for moments are a table of numbers with at least one row and one column.")
    if columns is not None and table.shape[1] != columns:
        raise InputError(
            f"the statistic is of {columns:,} columns of features; these have {table.shape[1]:,}. Of images, it is of what an encoder "
            "makes of them: `start` names that encoder."
        )
    return table


# ----------------------------------------------------------------
# Columns: a curve for each number of a table.


@dataclass(frozen=True, eq=False)
class ColumnCurves:
    """What becomes of each column: itself, times a scale, or a hat function at each of its knots (which adds up to 1)."""

    knots: tuple[Floats, ...]  # empty: as it is
    scale: Floats  # of columns as they are

    @property
    def width(self) -> int:
        """Columns that come out."""
        return sum(max(1, len(one)) for one in self.knots)

    @classmethod
    def of(cls, x: npt.NDArray[Any], knots: int) -> ColumnCurves:
        """By quantiles of public features. Columns of two values stay; of an image or an embedding, all do, in their own units."""
        distinct = [np.unique(column[~np.isnan(column)]) for column in np.asarray(x, dtype=np.float64).T]
        many = [len(one) > 2 for one in distinct]
        if sum(many) <= MOST_CURVED and knots >= 2:
            chosen = tuple(
                _knots(column, values, knots) if curved else np.empty(0)
                for column, values, curved in zip(x.T, distinct, many, strict=True)
            )
            spans = np.array(
                [1.0 if curved or len(v) < 2 else v[-1] - v[0] for v, curved in zip(distinct, many, strict=True)]
            )
            return cls(chosen, 1 / spans)
        spread = np.array(
            [values.std() if len(values) else 0.0 for values in (c[~np.isnan(c)] for c in np.asarray(x, np.float64).T)]
        )
        middle = float(np.median(spread[spread > 0])) if (spread > 0).any() else 1.0
        alike = spread.max(initial=0.0) <= 10 * middle
        scale = np.where(spread > 0, 1 / np.where(spread > 0, middle if alike else spread, 1.0), 0.0)
        return cls((np.empty(0),) * x.shape[1], np.asarray(scale, dtype=np.float64))

    def __call__(self, x: npt.NDArray[Any]) -> Floats:
        """(n, width); what is missing is NaN in all of its columns."""
        if not any(len(one) for one in self.knots):
            values = x * self.scale
            return np.clip(values, -_FAR, _FAR, out=values)
        found = np.empty((len(x), self.width))
        starts = np.cumsum([0, *(max(1, len(one)) for one in self.knots)])
        plain = np.array([not len(one) for one in self.knots])
        found[:, starts[:-1][plain]] = np.clip(x[:, plain] * self.scale[plain], -_FAR, _FAR)
        for at, column, knots in zip(starts[:-1], x.T, self.knots, strict=True):
            if not len(knots):
                continue
            place = np.interp(column, knots, np.arange(len(knots)))
            for k in range(len(knots)):
                found[:, at + k] = np.clip(1 - np.abs(place - k), 0, 1)
            found[np.isnan(column), at : at + len(knots)] = np.nan
        return found


def _knots(column: npt.NDArray[Any], distinct: Floats, count: int) -> Floats:
    """Quantiles; where many rows share a value, those of the distinct values beside them."""
    given = np.asarray(column[~np.isnan(column)], dtype=np.float64)
    shares = np.linspace(0, 1, count)
    found = np.unique(np.quantile(given, shares))
    if len(found) < count:
        found = np.unique(np.concatenate((found, np.quantile(distinct, shares, method="nearest"))))
    return found


# ----------------------------------------------------------------
# Principal axes.


@dataclass(frozen=True, eq=False)
class Axes:
    """The public columns' mean, principal axes and variances along them, the largest first."""

    curves: ColumnCurves
    mean: Floats
    vectors: Floats  # (width, rank)
    variances: Floats  # (rank,)
    some: Floats  # (m, rank): rows along the axes, in units of their deviation; for quantiles
    rows: int

    @classmethod
    def of(cls, x: Any, *, knots: int = KNOTS) -> Axes:
        """From at most 100,000 rows, evenly taken. Signs follow from the largest number of each vector."""
        table = check_table(x)
        sample = np.asarray(table[_evenly(len(table), ENOUGH)])
        if np.isinf(sample).any():
            raise InputError("features for moments must be finite, or NaN where missing.")
        curves = ColumnCurves.of(sample, knots)
        if curves.width > MAX_DIMENSIONS:
            raise InputError(f"moments take at most {MAX_DIMENSIONS:,} columns; these become {curves.width:,}.")
        total, known = np.zeros(curves.width), np.zeros(curves.width)
        for part in _chunks(len(sample), curves.width):
            values = curves(sample[part])
            total, known = total + np.nansum(values, axis=0), known + (~np.isnan(values)).sum(axis=0)
        mean = total / np.maximum(known, 1)
        gram = np.zeros((curves.width, curves.width))
        for part in _chunks(len(sample), curves.width):
            values = np.nan_to_num(curves(sample[part]) - mean)
            gram += values.T @ values
        variances, vectors = np.linalg.eigh(gram / len(sample))
        variances, vectors = variances[::-1], vectors[:, ::-1]
        kept = variances > max(_LEAST * variances[0], 1e-300)
        if not kept.any():
            raise InputError("these features are the same in every row: there is nothing to learn from.")
        variances, vectors = variances[kept], vectors[:, kept]
        vectors = vectors * np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(variances))] < 0, -1.0, 1.0)
        few = sample[_evenly(len(sample), _SOME)]
        some = np.nan_to_num(curves(few) - mean) @ (vectors / np.sqrt(variances))
        return cls(curves, mean, np.ascontiguousarray(vectors), variances.copy(), some, len(table))

    def squared_lengths(self, power: float) -> Floats:
        """Of the sample's rows, for each number of leading axes: (m, rank)."""
        return np.cumsum(self.some**2 * self.variances ** (1 - power), axis=1)

    def constant(self, power: float) -> float:
        """The intercept's w: as long as the leading axis's deviation."""
        return float(self.variances[0] ** ((1 - power) / 2))

    def preprocessing(self, power: float, dimensions: int | None, clip_quantile: float) -> Preprocessing:
        """With these choices."""
        if not 0 <= power <= 1 or not 0 < clip_quantile <= 1:
            raise InputError("`power` is from 0 to 1, and `clip_quantile` above 0 and at most 1.")
        rank = len(self.variances)
        if dimensions is not None and dimensions < 1:
            raise InputError(f"`dimensions` is at least 1; got {dimensions}.")
        d = rank if dimensions is None else min(dimensions, rank)
        constant = self.constant(power)
        squared = (self.some[:, :d] ** 2) @ self.variances[:d] ** (1 - power)
        limit = math.sqrt(float(np.quantile(squared, clip_quantile)) + constant**2)
        return Preprocessing(
            self.curves, self.mean, self.vectors[:, :d] * self.variances[:d] ** (-power / 2), self.variances[:d].copy(), constant, limit,
            power, clip_quantile,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Preprocessing:
    """From a table to short rows of whole numbers. All of it is public."""

    curves: ColumnCurves
    mean: Floats
    axes: Floats  # (width, d), scaled
    variances: Floats  # (d,): along the axes, before scaling
    constant: float
    limit: float  # R, in units of z
    power: float
    clip_quantile: float
    radius: int = RADIUS

    @classmethod
    def of(
        cls,
        x: Any,
        *,
        power: float = 0.5,
        dimensions: int | None = None,
        clip_quantile: float = 0.9,
        knots: int = KNOTS,
    ) -> Preprocessing:
        """From public features alone; `choose_preprocessing` has a rule for the choices."""
        return Axes.of(x, knots=knots).preprocessing(power, dimensions, clip_quantile)

    @property
    def inputs(self) -> int:
        """Columns that go in."""
        return len(self.curves.knots)

    @property
    def dimensions(self) -> int:
        """Columns that come out, the constant one last."""
        return len(self.variances) + 1

    def apply(self, x: Any) -> Quantised:
        """Whole numbers, (n, dimensions), with Σ_j q_ij² ≤ radius², some rows at a time."""
        table = check_table(x, self.inputs)
        found = np.empty((len(table), self.dimensions), dtype=np.int16)
        per_unit = self.radius / self.limit
        for part in _chunks(len(table), self.curves.width):
            given = table[part]
            if given.dtype.kind == "f" and np.isinf(given).any():
                raise InputError("features for moments must be finite, or NaN where missing.")
            z = np.empty((len(given), self.dimensions))
            z[:, :-1] = self._centred(given) @ self.axes
            z[:, -1] = self.constant
            length = np.sqrt(np.einsum("ij,ij->i", z, z))
            # A hair inside, so that no rounding of floats carries a row outside.
            z *= (per_unit * np.minimum(1.0, self.limit * (1 - 1e-9) / np.maximum(length, 1e-300)))[:, None]
            found[part] = np.trunc(z)
        return found

    def _centred(self, x: npt.NDArray[Any]) -> Floats:
        """What is missing is as if average."""
        values = self.curves(x)
        values -= self.mean
        missing = np.isnan(values)
        if missing.any():
            values[missing] = 0.0
        return values

    # ── as a file ──

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """By name, without pickles."""
        return {
            "knots": np.concatenate((np.empty(0), *self.curves.knots)),
            "knots_of": np.array([len(one) for one in self.curves.knots], dtype=np.int64),
            "scale": self.curves.scale,
            "mean": self.mean,
            "axes": self.axes,
            "variances": self.variances,
            "numbers": np.array([self.constant, self.limit, self.power, self.clip_quantile]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Preprocessing:
        """The inverse, perhaps of another party's file; an InputError, if it is none."""
        try:
            return cls._read({name: np.asarray(arrays[name]) for name in _NAMES})
        except (KeyError, ValueError, TypeError, OverflowError):
            raise InputError("this is no preprocessing for moments, or it is damaged.") from None

    @classmethod
    def _read(cls, given: dict[str, npt.NDArray[Any]]) -> Preprocessing:
        counts = given.pop("knots_of")
        if (
            counts.dtype.kind not in "iu"
            or counts.ndim != 1
            or not len(counts)
            or (counts < 0).any()
            or (counts == 1).any()
        ):
            raise ValueError
        if len(counts) > MAX_DIMENSIONS or (counts > MAX_DIMENSIONS).any():
            raise ValueError
        if any(one.dtype.kind != "f" or not np.isfinite(one).all() for one in given.values()):
            raise ValueError
        knots, scale, mean, axes, variances, numbers = (
            given[one].astype(np.float64) for one in _NAMES if one != "knots_of"
        )
        if knots.shape != (int(counts.sum()),) or scale.shape != counts.shape or numbers.shape != (4,):
            raise ValueError
        parts = tuple(np.split(knots, np.cumsum(counts)[:-1]))
        if any((np.diff(one) <= 0).any() for one in parts):
            raise ValueError
        curves = ColumnCurves(parts, scale)
        if variances.ndim != 1 or not 1 <= len(variances) < MAX_DIMENSIONS or (variances <= 0).any():
            raise ValueError
        if (
            curves.width > MAX_DIMENSIONS
            or mean.shape != (curves.width,)
            or axes.shape != (curves.width, len(variances))
        ):
            raise ValueError
        constant, limit, power, quantile = (float(one) for one in numbers)
        if not (0 < constant <= limit and 0 <= power <= 1 and 0 < quantile <= 1):
            raise ValueError
        return cls(curves, mean, axes, variances, constant, limit, power, quantile)


_NAMES = ("knots", "knots_of", "scale", "mean", "axes", "variances", "numbers")

"""Multinomial logistic regression from evidence: L-BFGS on the likelihood of what was released. Dense or sparse; no torch."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.estimators.likelihood import (
    FOLDS_AT_MOST,
    Calibration,
    Evidence,
    Rows,
    as_logits,
    calibrate,
    folds,
    loss,
    loss_and_error,
    minimize,
    pieces,
    probabilities,
)

Floats = npt.NDArray[np.float64]

_CHUNK = 1 << 20  # numbers of evidence in memory at a time
FAR = 10.0  # standard deviations: further out, one row in ten thousand would outweigh the others
PATH = tuple(10.0 ** (power / 2) for power in range(-9, 3))  # inverse strengths, 3e-5 to 10


# ----------------------------------------------------------------
# The model.


@dataclass(frozen=True)
class Point:
    """One strength on the path: the loss of held-out rows, and the standard error of its difference from the best one's."""

    inverse: float
    loss: float
    standard_error: float


@dataclass(frozen=True)
class LinearModel:
    """logits = z·W + b, z the features, standardised where `scale` is given: (x − mean)·scale, cut off at ±10."""

    weights: Floats
    bias: Floats
    iterations: int
    converged: bool
    inverse: float | None = None
    mean: Floats | None = None
    scale: Floats | None = None
    calibration: Calibration | None = None
    path: tuple[Point, ...] = ()

    @property
    def num_classes(self) -> int:
        """As released."""
        return len(self.bias)

    def logits(self, x: Any) -> Floats:
        """Of dense or sparse rows."""
        if x.ndim != 2 or x.shape[1] != len(self.weights):
            raise InputError(f"this model was fitted on {len(self.weights)} columns; got a table of shape {x.shape}.")
        parts = [self._logits(x[part]) for part in pieces(x.shape[0], max(1, x.shape[1]))]
        return np.concatenate(parts) if parts else np.empty((0, self.num_classes))

    def _logits(self, x: Any) -> Floats:
        values = x if self.scale is None or self.mean is None else standardized(x, self.mean, self.scale)
        logits = np.asarray(values @ self.weights + self.bias)
        return logits if self.calibration is None else np.asarray(self.calibration(logits))

    def probabilities(self, x: Any) -> npt.NDArray[np.float32]:
        """Of every class, (n, C)."""
        return probabilities(self.logits(x)).astype(np.float32)

    def to_bytes(self) -> bytes:
        """One self-contained file: NumPy's .npz, without pickles."""
        file = io.BytesIO()
        said = {
            "format": _FORMAT, "iterations": self.iterations, "converged": self.converged, "inverse": self.inverse,
            "path": [asdict(point) for point in self.path],
            "slope": None if self.calibration is None else self.calibration.slope,
        }  # fmt: skip
        arrays: dict[str, Any] = {
            "weights": self.weights,
            "bias": self.bias,
            "said": np.frombuffer(json.dumps(said).encode(), np.uint8),
        }
        if self.mean is not None and self.scale is not None:
            arrays |= {"mean": self.mean, "scale": self.scale}
        if self.calibration is not None:
            arrays["calibration"] = self.calibration.bias
        np.savez(file, **arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> LinearModel:
        """The inverse, perhaps of another party's file; nothing in it is executed."""
        try:
            return cls._read(content)
        except (ValueError, LookupError, TypeError, AttributeError, OSError, EOFError, zipfile.BadZipFile, NotImplementedError,
                RecursionError, OverflowError, MemoryError):  # fmt: skip
            raise InputError("this is no linear model, or it is damaged: train it again.") from None

    @classmethod
    def _read(cls, content: bytes) -> LinearModel:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            # Stored as they are: what is read is no larger than the file.
            if len(content) > _LARGEST or any(one.compress_type != zipfile.ZIP_STORED for one in packed.infolist()):
                raise ValueError
            if sum(one.file_size for one in packed.infolist()) > len(content):
                raise ValueError
        with np.load(io.BytesIO(content), allow_pickle=False) as read:
            said = json.loads(read["said"].tobytes())
            arrays = {name: np.asarray(read[name]) for name in read.files if name != "said"}
        if said["format"] != _FORMAT or any(
            one.dtype != np.float64 or not np.isfinite(one).all() for one in arrays.values()
        ):
            raise ValueError
        weights, bias = arrays.pop("weights"), arrays.pop("bias")
        mean, scale, calibration = (arrays.pop(name, None) for name in ("mean", "scale", "calibration"))
        features, classes = weights.shape
        if arrays or bias.shape != (classes,) or classes < 2 or (mean is None) != (scale is None):
            raise ValueError
        if any(one is not None and one.shape != (features,) for one in (mean, scale)):
            raise ValueError
        slope, inverse = said["slope"], said["inverse"]
        if (slope is None) != (calibration is None) or (calibration is not None and calibration.shape != (classes,)):
            raise ValueError
        corrected = None if calibration is None else Calibration(_positive(slope), calibration)
        points = tuple(
            Point(_positive(p["inverse"]), float(p["loss"]), float(p["standard_error"])) for p in said["path"]
        )
        return cls(
            weights, bias, int(said["iterations"]), bool(said["converged"]), None if inverse is None else _positive(inverse), mean,
            scale, corrected, points,
        )  # fmt: skip


_FORMAT = "labeldp linear 1"
_LARGEST = 1 << 30


def _positive(value: Any) -> float:
    if type(value) is not float or not 0 < value < 1e12:
        raise ValueError
    return value


# ----------------------------------------------------------------
# Public features, alike in size.


def spread(x: Any) -> tuple[Floats, Floats]:
    """Mean and 1/standard deviation of each column, from public features. Sparse ones keep their 0s: their mean is left at 0."""
    count, features = x.shape
    if hasattr(x, "tocsr"):
        square = np.asarray(x.multiply(x).mean(axis=0), dtype=np.float64).ravel()
        centre = np.asarray(x.mean(axis=0), dtype=np.float64).ravel()
        deviation = np.sqrt(np.maximum(square - centre**2, 0))
        mean = np.zeros(features)
    else:
        mean = np.asarray(np.mean(x, axis=0, dtype=np.float64))
        total = np.zeros(features)
        for part in pieces(count, max(1, features)):
            total += ((x[part] - mean) ** 2).sum(axis=0)
        deviation, centre = np.sqrt(total / count), mean
    varies = deviation > 1e-6 * (1 + np.abs(centre))
    return mean, np.where(varies, 1 / np.where(varies, deviation, 1), 1.0)


def standardized(x: Any, mean: Floats, scale: Floats) -> Any:
    """(x − mean)·scale, cut off at ±10; what is missing is as if average."""
    if hasattr(x, "tocsr"):
        scaled = x.tocsr().multiply(scale[None, :]).tocsr()
        scaled.data = np.nan_to_num(scaled.data.clip(-FAR, FAR))
        return scaled
    dtype = x.dtype if x.dtype in (np.float32, np.float64) else np.float64
    return np.nan_to_num(((x - mean) * scale).clip(-FAR, FAR).astype(dtype), copy=False)


# ----------------------------------------------------------------
# One fit.


def fit_linear(
    x: Any, rows: Rows, evidence: Evidence, num_classes: int, *, inverse: float, most: int, tolerance: float,
    start: Floats | None = None, weight: Floats | None = None,
) -> LinearModel:  # fmt: skip
    """Minimise Σ −logsumexp(log_softmax(x·W + b) + evidence) + ‖W‖²/(2·inverse), from W = 0 or from `start`, (features + 1, C).

    x[i] belongs to position rows[i] of the release. Not convex, unlike with clean labels, but started from the uniform
    prediction it goes where the evidence points.
    """
    features = x.shape[1]
    # Two classes need one column w: W = (−w/2, w/2), ‖W‖² = ‖w‖²/2.
    columns = 1 if num_classes == 2 else num_classes
    half = 0.5 if columns == 1 else 1.0
    step = max(1, _CHUNK // num_classes)
    chunk = [slice(first, first + step) for first in range(0, len(rows), step)]
    told = [evidence(rows[part]) for part in chunk] if len(rows) * num_classes <= _KEPT else None
    total = len(rows) if weight is None else float(np.sum(weight))

    def objective(theta: Floats) -> tuple[float, Floats]:
        table = theta.reshape(features + 1, columns)
        weights, bias = table[:-1].astype(x.dtype, copy=False), table[-1]
        value, gradient = half * float((table[:-1] ** 2).sum()) / (2 * inverse), np.zeros_like(table)
        gradient[:-1] = half * table[:-1] / inverse
        for number, part in enumerate(chunk):
            some = x[part]
            scores = np.asarray(some @ weights + bias)
            known = told[number] if told is not None else evidence(rows[part])
            each, error = loss_and_error(as_logits(scores[:, 0]) if columns == 1 else scores, known)
            if weight is not None:
                each, error = each * weight[part], error * weight[part, None]
            value += float(each.sum())
            error = error[:, -columns:]
            gradient[:-1] += some.T @ error.astype(x.dtype, copy=False)
            gradient[-1] += error.sum(axis=0)
        # Per row, so that the tolerance means the same for any number of rows.
        return value / total, gradient.ravel() / total

    first = np.zeros((features + 1, num_classes)) if start is None else start
    given = (first[:, 1:] - first[:, :1] if columns == 1 else first).ravel()
    result = minimize(objective, given, maxiter=most, gtol=tolerance, ftol=64 * np.finfo(float).eps, maxls=50)
    table = result.x.reshape(features + 1, columns)
    if columns == 1:
        table = np.concatenate((-table / 2, table / 2), axis=1)
    return LinearModel(table[:-1], table[-1], int(result.nit), bool(result.status != 1), inverse)


_KEPT = 1 << 24  # numbers of evidence that are kept between steps


# ----------------------------------------------------------------
# The path.


@dataclass(frozen=True)
class LinearRecipe:
    """How to fit: `inverse` is C of scikit-learn's LogisticRegression, on standardised columns; None chooses it on a path, by
    cross-validated likelihood of what was released."""

    seed: int = 0
    inverse: float | None = None
    folds: int = 5
    max_iter: int = 300
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        whole = {"seed": (0, 2**31 - 1), "folds": (2, FOLDS_AT_MOST), "max_iter": (1, 10**6)}
        for name, (low, high) in whole.items():
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not low <= value <= high:
                raise InputError(f"{name} is a whole number from {low} to {high}; got {value!r}.")
            object.__setattr__(self, name, int(value))
        for name in ("inverse", "tolerance"):
            value = getattr(self, name)
            if value is None and name == "inverse":
                continue
            number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
            if not number or not 0 < value < 1e12:
                raise InputError(f"{name} is a positive number; got {value!r}.")
            object.__setattr__(self, name, float(value))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def fit_linear_path(
    x: Any,
    rows: Rows,
    evidence: Evidence,
    num_classes: int,
    recipe: LinearRecipe | None = None,
    *,
    weight: npt.ArrayLike | None = None,
    public: Any = None,
    path: Sequence[float] = PATH,
    progress: Callable[[dict[str, Any]], None] = lambda said: None,
) -> LinearModel:
    """Standardise, choose the strength by held-out likelihood, fit on all rows, calibrate by the held-out scores.

    x[i] belongs to position rows[i] of the release; dense, NaN where missing, or sparse
    weight    public weights, one a row
    public    the features by which to standardise, if there are more than x
    """
    recipe = recipe or LinearRecipe()
    rows = np.asarray(rows, dtype=np.int64)
    x = x.tocsr() if hasattr(x, "tocsr") else np.asarray(x)
    if x.ndim != 2 or x.shape[0] != len(rows) or x.dtype.kind not in "fiub":
        raise InputError(
            f"features are a table of numbers, one row for each of the {len(rows):,} released ones that are named."
        )
    given = None if weight is None else np.asarray(weight, dtype=np.float64)
    if given is not None and (
        given.shape != rows.shape or not np.isfinite(given).all() or (given < 0).any() or not given.any()
    ):
        raise InputError(f"weights are {len(rows):,} numbers, one a row, finite, not negative and not all 0.")
    mean, scale = spread(_filled(x if public is None else public))
    z = standardized(x, mean, scale)
    candidates = (recipe.inverse,) if recipe.inverse is not None else tuple(sorted(float(one) for one in path))
    options: dict[str, Any] = {"most": recipe.max_iter, "tolerance": recipe.tolerance}

    # All folds walk the path together, from strong to weak, each fit from the one before. A strong penalty pulls the scores together,
    # which calibration undoes: the likelihoods are compared after it.
    fold = folds(len(rows), recipe.folds, recipe.seed)
    last: list[Floats | None] = [None] * recipe.folds
    walked: list[_Step] = []
    for inverse in candidates:
        held_out = np.empty((len(rows), num_classes), dtype=np.float32)
        for number in range(recipe.folds):
            learned, left = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            some = None if given is None else given[learned]
            model = fit_linear(
                z[learned],
                rows[learned],
                evidence,
                num_classes,
                inverse=inverse,
                start=last[number],
                weight=some,
                **options,
            )
            last[number] = np.concatenate((model.weights, model.bias[None]))
            held_out[left] = model.logits(z[left])
        correction = calibrate(held_out, evidence, rows, given)
        losses = np.empty(len(rows), dtype=np.float32)
        for part in pieces(len(rows), num_classes):
            losses[part] = loss(correction(held_out[part]), evidence(rows[part]))
        start = np.mean([one for one in last if one is not None], axis=0)
        walked.append(_Step(inverse, float(np.average(losses, weights=given)), losses, correction, start))
        progress({"inverse": inverse, "held_out_loss": walked[-1].loss})
        if len(walked) > 2 and walked[-1].loss > walked[-2].loss > walked[-3].loss:
            break  # the valley is behind us
    least = min(walked, key=lambda step: step.loss)
    points = tuple(
        Point(step.inverse, step.loss, float((step.losses - least.losses).std() / np.sqrt(len(rows))))
        for step in walked
    )
    # The strongest penalty that is not clearly worse.
    near = [point.loss <= least.loss + point.standard_error for point in points]
    best = walked[near.index(True)]
    model = fit_linear(z, rows, evidence, num_classes, inverse=best.inverse, start=best.start, weight=given, **options)
    return replace(model, mean=mean, scale=scale, calibration=best.calibration, path=points)


@dataclass(frozen=True)
class _Step:
    """Along the path: the loss of each row while it was held out, and what a fit on all rows starts from."""

    inverse: float
    loss: float
    losses: npt.NDArray[np.float32]
    calibration: Calibration
    start: Floats


def _filled(x: Any) -> Any:
    """Missing values as their column's mean, so that they do not count for its spread."""
    if hasattr(x, "tocsr") or x.dtype.kind != "f" or not np.isnan(x).any():
        return x
    present = ~np.isnan(x)
    mean = np.where(present, x, 0).sum(axis=0, dtype=np.float64) / np.maximum(present.sum(axis=0), 1)
    return np.where(present, x, mean.astype(x.dtype))

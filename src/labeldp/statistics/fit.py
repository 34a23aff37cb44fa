"""Logistic and softmax regression from noisy moments: public X, T̃ = XᵀY + noise of known variance, and nothing else.

    maximise  ⟨W, T̃⟩ − Σ_i log Σ_c exp(x_i·W_c) − ½ Σ_j λ_j ‖W_j‖²

The labels enter the likelihood through T alone, so that this is what there is to maximise, and λ > 0 keeps it bounded for every T̃.

Shrinkage. Along one axis with Fisher information f, T̃ is N(f·w, f + σ²). If w is N(0, τ²), its best estimate is that of the ridge
λ = (1 + σ²/f)/τ². Here τ_j² = t·(variance along the axis)^a, with t and a where the likelihood of T̃ itself is largest: less what class
shares alone explain, it is N(0, f²τ² + f + σ²). No label is asked, nothing is tuned. f is then taken where the fit has arrived, and the
fit goes on.

Cost. Rows are whole numbers of two bytes, taken some at a time in single precision; sums are double. Where there are more than 2^17 rows,
so many, evenly taken, are fitted first, and the fit on all rows starts there: a few passes.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.statistics.moment_noise import MomentNoise, completed

Floats = npt.NDArray[np.float64]
Quantised = npt.NDArray[np.integer[Any]]

_CHUNK = 1 << 21  # numbers of X at a time
_FIRST = 1 << 17  # rows that a fit begins with
_ROUNDS = 4
_SHARE_LEAST = 1e-6
_WORK = 2e10  # multiplications for the Fisher information
_KEPT = 1 << 23  # numbers of covariance that are kept; beyond, its diagonal
_INTERCEPT_TWO, _INTERCEPT_MORE = 9.0, 2.0  # variance of the log-odds of class shares
# What logits usually are: their variance, over rows, is within a factor e^1.5 of this, two times in three. It decides only where T̃ cannot.
_USUAL_VARIANCE, _USUAL_LOG_DEVIATION = 1.5, 1.5
_MOST_VARIANCE = 4.0  # beyond, T is no longer linear in the weights, and its likelihood as if it were overstates them
_POWERS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)


def _minimize(objective: Callable[[Floats], tuple[float, Floats]], start: Floats, gtol: float, most: int) -> Any:
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise ImportError('fitting moments needs SciPy: pip install "labeldp[sklearn]"') from error
    options = {"maxiter": most, "gtol": gtol, "ftol": 1e-15, "maxls": 40}
    return minimize(objective, start, jac=True, method="L-BFGS-B", options=options)


# ----------------------------------------------------------------
# Rows, some at a time.


def _parts(features: Quantised, radius: int, rows: Any = None, columns: int = 1) -> Iterator[npt.NDArray[np.float32]]:
    """In units of R."""
    chosen = features if rows is None else features[rows]
    step = max(1, _CHUNK // max(features.shape[1], columns))
    for start in range(0, len(chosen), step):
        yield chosen[start : start + step].astype(np.float32) * np.float32(1 / radius)


def _log_partition(scores: Floats) -> tuple[Floats, Floats]:
    """log Σ_c exp of each row, and its gradient. One score is the log-odds of the second of two classes."""
    if scores.shape[1] == 1:
        positive = np.maximum(scores, 0)
        e = np.exp(-np.abs(scores))
        return (positive + np.log1p(e))[:, 0], np.where(scores >= 0, 1 / (1 + e), e / (1 + e))
    most = scores.max(axis=1, keepdims=True)
    e = np.exp(scores - most)
    total = e.sum(axis=1, keepdims=True)
    return (most + np.log(total))[:, 0], e / total


def log_partition(features: Quantised, radius: int, weights: Floats, rows: Any = None) -> tuple[float, Floats, Floats]:
    """Σ_i log Σ_c exp(x_i·W_c); its gradient XᵀP; and Σ_i x_ij² p_ic(1 − p_ic), the diagonal of the Fisher information."""
    value, gradient, fisher = 0.0, np.zeros(weights.shape), np.zeros(weights.shape)
    narrow = weights.astype(np.float32)
    for x in _parts(features, radius, rows, weights.shape[1]):
        each, p = _log_partition((x @ narrow).astype(np.float64))
        value += float(each.sum())
        gradient += x.T @ p.astype(np.float32)
        fisher += (x**2).T @ (p * (1 - p)).astype(np.float32)
    return value, gradient, fisher


# ----------------------------------------------------------------
# The prior, by the likelihood of T̃.


@dataclass(frozen=True)
class WeightPrior:
    """Weights along an axis are N(0, t·variance^a): `scale` is t, `power` a. `logit_variance` is what that makes of the logits."""

    scale: float
    power: float
    logit_variance: float

    def variances(self, axes: Floats) -> Floats:
        """τ_j² of every axis."""
        return np.asarray(self.scale * (axes / axes.mean()) ** self.power)


def prior_of(residual: Floats, information: Floats, noise: float, axes: Floats, mean_square: Floats) -> WeightPrior:
    """t and a for which T̃ is likeliest: `residual` (d, K) is N(0, f²τ_j² + f + σ²), f the `information` (d, K)."""
    best: tuple[float, WeightPrior] | None = None
    for power in _POWERS:
        shape = (axes / axes.mean()) ** power
        unit = float(shape @ mean_square)  # variance of the logits, at t = 1
        for logit_variance in np.exp(np.arange(math.log(1e-3), math.log(_MOST_VARIANCE), 0.1)):
            prior = WeightPrior(logit_variance / unit, power, float(logit_variance))
            variance = information**2 * (prior.scale * shape)[:, None] + information + noise
            likelihood = -0.5 * float((np.log(variance) + residual**2 / variance).sum())
            likelihood -= 0.5 * (math.log(logit_variance / _USUAL_VARIANCE) / _USUAL_LOG_DEVIATION) ** 2
            if best is None or likelihood > best[0]:
                best = likelihood, prior
    assert best is not None
    return best[1]


# ----------------------------------------------------------------
# The model.


def stored_arrays(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """Of somebody's .npz: nothing in it is executed, and nothing unfolds. A ValueError, or what NumPy says, if it is none."""
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        stored = all(one.compress_type == zipfile.ZIP_STORED for one in packed.infolist())
        if not stored or sum(one.file_size for one in packed.infolist()) > len(content):
            raise ValueError
    with np.load(io.BytesIO(content), allow_pickle=False) as read:
        return {name: np.asarray(read[name]) for name in read.files}


@dataclass(frozen=True, eq=False)
class MomentModel:
    """Scores x·W in units of R, one a class, of two classes that of the second; and how uncertain the weights are.

    posterior        (K, D, D), or (K, D) its diagonal: what noise, sampling and the prior leave open; predictions integrate it
    standard_errors  (D, K), of H⁻¹(F + σ²I)H⁻¹, H = F + λ: how far a fit from fresh noise and rows would be from its mean
    """

    weights: Floats
    posterior: npt.NDArray[np.float32]
    standard_errors: Floats
    ridge: Floats
    prior: WeightPrior
    shares: Floats
    radius: int
    iterations: int
    converged: bool

    @property
    def num_classes(self) -> int:
        """As released."""
        return len(self.shares)

    def scores(self, features: Quantised) -> tuple[Floats, Floats]:
        """Of every row and class (of two: of the second), the mean and the variance of its logit."""
        if features.ndim != 2 or features.shape[1] != len(self.weights):
            raise InputError(f"this model takes {len(self.weights):,} columns; got a table of shape {features.shape}.")
        narrow = self.weights.astype(np.float32)
        means, variances = [], []
        for x in _parts(features, self.radius, columns=self.weights.shape[1]):
            means.append((x @ narrow).astype(np.float64))
            if self.posterior.ndim == 2:
                variances.append((x**2) @ self.posterior.T)
            else:
                variances.append(np.stack([np.einsum("ij,ij->i", x @ one, x) for one in self.posterior], axis=1))
        empty = np.empty((0, narrow.shape[1]))
        return np.concatenate((empty, *means)), np.maximum(np.concatenate((empty, *variances)), 0.0)

    def probabilities(self, features: Quantised) -> Floats:
        """(n, C): logits are Gaussian, and E[softmax] is taken as the softmax of mean/√(1 + π·variance/8) (MacKay 1992)."""
        mean, variance = self.scores(features)
        moderated = mean / np.sqrt(1 + math.pi / 8 * variance)
        _, p = _log_partition(moderated)
        return np.concatenate((1 - p, p), axis=1) if p.shape[1] == 1 else p

    def to_bytes(self) -> bytes:
        """One self-contained file: NumPy's .npz, without pickles."""
        file = io.BytesIO()
        numbers = [self.prior.scale, self.prior.power, self.prior.logit_variance]
        counts = [self.radius, self.iterations, int(self.converged)]
        np.savez(
            file, weights=self.weights, posterior=self.posterior, standard_errors=self.standard_errors, ridge=self.ridge,
            shares=self.shares, prior=np.array(numbers), counts=np.array(counts, dtype=np.int64),
        )  # fmt: skip
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> MomentModel:
        """The inverse, perhaps of another party's file; nothing in it is executed."""
        try:
            return cls._read(content)
        except (ValueError, LookupError, TypeError, AttributeError, OSError, EOFError, zipfile.BadZipFile, NotImplementedError,
                RecursionError, OverflowError, MemoryError):  # fmt: skip
            raise InputError("this is no model from moments, or it is damaged: fit it again.") from None

    @classmethod
    def _read(cls, content: bytes) -> MomentModel:
        arrays = stored_arrays(content)
        weights, posterior, errors, ridge, shares, prior, counts = (
            arrays.pop(name)
            for name in ("weights", "posterior", "standard_errors", "ridge", "shares", "prior", "counts")
        )
        if arrays or any(
            one.dtype.kind != "f" or not np.isfinite(one).all()
            for one in (weights, posterior, errors, ridge, shares, prior)
        ):
            raise ValueError
        dimensions, columns = weights.shape
        fits = (
            shares.shape == (2 if columns == 1 else columns,)
            and errors.shape == weights.shape
            and ridge.shape == (dimensions,)
        )
        if (
            not fits
            or prior.shape != (3,)
            or counts.shape != (3,)
            or counts.dtype != np.int64
            or not 0 < counts[0] < 1 << 15
        ):
            raise ValueError
        if posterior.shape not in ((columns, dimensions), (columns, dimensions, dimensions)) or columns == 2:
            raise ValueError
        return cls(
            weights, posterior.astype(np.float32), errors, ridge, WeightPrior(*(float(one) for one in prior)), shares,
            int(counts[0]), int(counts[1]), bool(counts[2]),
        )  # fmt: skip


# ----------------------------------------------------------------
# The fit.


def fit_moments(
    features: Quantised, noisy: npt.NDArray[np.integer[Any]], noise: MomentNoise, variances: Floats, *,
    tolerance: float = 1e-2, most: int = 200,
) -> MomentModel:  # fmt: skip
    """From the rows that T̃ was summed over (of any order), T̃ as released, its noise, and the variances along the axes.

    tolerance   when to stop, in standard errors of a weight
    """
    if features.ndim != 2 or features.shape[1] != noise.dimensions or not len(features):
        raise InputError(
            f"these moments are of {noise.dimensions:,} columns; the features have shape {features.shape}."
        )
    if len(variances) != noise.dimensions - 1:
        raise InputError(
            f"moments of {noise.dimensions:,} columns, a constant among them, need the variances of the others."
        )
    fit = _Fit(features, noisy, noise, np.asarray(variances, dtype=np.float64))
    return fit.run(tolerance, most)


class _Fit:
    def __init__(
        self, features: Quantised, noisy: npt.NDArray[np.integer[Any]], noise: MomentNoise, variances: Floats
    ) -> None:
        self.features, self.radius, self.axes = features, noise.radius, variances
        self.columns, classes = noise.columns, noise.num_classes
        totals, squares = np.zeros(noise.dimensions), np.zeros(noise.dimensions)
        for x in _parts(features, self.radius):
            totals += x.sum(axis=0, dtype=np.float64)
            squares += (x**2).sum(axis=0, dtype=np.float64)
        every = completed(noisy, np.rint(totals * self.radius), classes) / self.radius
        self.target, self.squares = every[:, -self.columns :], squares
        # Of two classes one column, with all of its noise; of more the projection took a C-th.
        self.noise = noise.variance / self.radius**2 * (1.0 if classes == 2 else 1 - 1 / classes)
        constant = totals[-1] / len(features)  # of a row, on average
        self.shares = self._shares(every[-1] / totals[-1], self.noise / totals[-1] ** 2)
        self.intercept = (_INTERCEPT_TWO if classes == 2 else _INTERCEPT_MORE) / constant**2
        spread = self.shares * (1 - self.shares)
        self.spread = spread[-self.columns :]
        self.residual = self.target - np.outer(totals, self.shares[-self.columns :])
        self.iterations = 0

    @staticmethod
    def _shares(raw: Floats, noise: float) -> Floats:
        """Noisy shares, as probabilities: drawn towards equal ones, whose deviation is taken to be 1/C, as far as the noise demands."""
        equal = 1 / len(raw)
        drawn = equal + (raw - equal) * equal**2 / (equal**2 + noise)
        found = np.maximum(drawn, max(_SHARE_LEAST, min(0.1 * equal, math.sqrt(noise) / 4)))
        return np.asarray(found / found.sum())

    def run(self, tolerance: float, most: int) -> MomentModel:
        count = len(self.features)
        first = np.unique(np.linspace(0, count - 1, min(count, _FIRST)).astype(np.int64))
        some = None if len(first) == count else first
        information = np.outer(self.squares, self.spread)
        prior = prior_of(self.residual[:-1], information[:-1], self.noise, self.axes, self.squares[:-1] / count)
        tau = prior.variances(self.axes)
        weights = np.zeros((len(self.squares), self.columns))
        constant = float(self.features[:, -1].mean(dtype=np.float64)) / self.radius
        logits = np.log(self.shares)
        weights[-1] = ((logits[-1:] - logits[0]) if self.columns == 1 else logits - logits.mean()) / constant
        along = information.mean(axis=1)
        for number in range(_ROUNDS):
            ridge = self._ridge(along, tau)
            gtol = tolerance if some is None and number == _ROUNDS - 1 else max(tolerance, 0.05)
            weights, converged = self._fitted(weights, ridge, along, some, gtol, most)
            _, _, fisher = log_partition(self.features, self.radius, weights, some)
            before, along = along, np.maximum(fisher.mean(axis=1) * count / len(first), 1e-9 * self.squares)
            if np.abs(np.log(along / before))[:-1].max() < 0.02 and gtol == tolerance:
                break
        ridge = self._ridge(along, tau)
        weights, converged = self._fitted(weights, ridge, along, None, tolerance, most)
        posterior, errors = self._uncertainty(weights, ridge, tau)
        return MomentModel(
            weights,
            posterior,
            errors,
            ridge,
            prior,
            self._fitted_shares(weights),
            self.radius,
            self.iterations,
            converged,
        )

    def _ridge(self, information: Floats, tau: Floats) -> Floats:
        """λ = (1 + σ²/f)/τ²."""
        return np.asarray((1 + self.noise / information) / np.append(tau, self.intercept))

    def _fitted(
        self, start: Floats, ridge: Floats, information: Floats, rows: Any, gtol: float, most: int
    ) -> tuple[Floats, bool]:
        """L-BFGS in units in which the curvature is about 1 along every axis."""
        share = 1.0 if rows is None else len(self.features) / len(rows)
        unit = (1 / np.sqrt(information + ridge))[:, None]

        def objective(theta: Floats) -> tuple[float, Floats]:
            weights = theta.reshape(start.shape) * unit
            value, gradient, _ = self._partition(weights, rows)
            value = (
                share * value - float((weights * self.target).sum()) + 0.5 * float((ridge[:, None] * weights**2).sum())
            )
            return value, ((share * gradient - self.target + ridge[:, None] * weights) * unit).ravel()

        found = _minimize(objective, (start / unit).ravel(), gtol, most)
        self.iterations += int(found.nit)
        return np.asarray(found.x.reshape(start.shape) * unit), bool(found.status != 1)

    def _partition(self, weights: Floats, rows: Any) -> tuple[float, Floats, None]:
        value, gradient = 0.0, np.zeros(weights.shape)
        narrow = weights.astype(np.float32)
        for x in _parts(self.features, self.radius, rows, weights.shape[1]):
            each, p = _log_partition((x @ narrow).astype(np.float64))
            value += float(each.sum())
            gradient += x.T @ p.astype(np.float32)
        return value, gradient, None

    def _fitted_shares(self, weights: Floats) -> Floats:
        """Of the rows, as the model has them: the mean of its probabilities."""
        total = np.zeros(self.columns)
        for x in _parts(self.features, self.radius, columns=self.columns):
            total += _log_partition((x @ weights.astype(np.float32)).astype(np.float64))[1].sum(axis=0)
        found = total / len(self.features)
        return np.append(1 - found, found) if self.columns == 1 else found

    def _uncertainty(self, weights: Floats, ridge: Floats, tau: Floats) -> tuple[npt.NDArray[np.float32], Floats]:
        """From some rows: F, the posterior (F(F + σ²)⁻¹F + 1/τ²)⁻¹, and the deviations of H⁻¹(F + σ²I)H⁻¹."""
        dimensions, columns = weights.shape
        count = len(self.features)
        few = int(min(count, max(4 * dimensions, min(20_000, _WORK / (columns * dimensions**2)))))
        rows = np.unique(np.linspace(0, count - 1, few).astype(np.int64))
        x = self.features[rows].astype(np.float32) * np.float32(1 / self.radius)
        _, p = _log_partition((x @ weights.astype(np.float32)).astype(np.float64))
        heavy = (p * (1 - p) * (count / len(rows))).astype(np.float32)
        precision = 1 / np.append(tau, self.intercept)
        errors = np.empty(weights.shape)
        if columns * dimensions**2 > _KEPT:
            fisher = (x**2).T.astype(np.float64) @ heavy + 1e-12
            errors = np.sqrt(fisher + self.noise) / (fisher + ridge[:, None])
            return (1 / (fisher**2 / (fisher + self.noise) + precision[:, None])).T.astype(np.float32), errors
        posterior = np.empty((columns, dimensions, dimensions), dtype=np.float32)
        identity = np.eye(dimensions)
        for column in range(columns):
            fisher = (x.T @ (x * heavy[:, column : column + 1])).astype(np.float64)
            told = fisher @ np.linalg.solve(fisher + self.noise * identity, fisher)
            posterior[column] = np.linalg.inv((told + told.T) / 2 + np.diag(precision))
            turned = np.linalg.inv(fisher + np.diag(ridge))
            errors[:, column] = np.sqrt(
                np.maximum(np.einsum("ij,jk,ik->i", turned, fisher + self.noise * identity, turned, optimize=True), 0)
            )
        return posterior, errors

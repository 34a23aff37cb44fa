"""The likelihood of what was released, as every estimator reads it: class shares, held-out loss, calibration. No label, no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError

Floats = npt.NDArray[np.floating[Any]]
Rows = npt.NDArray[np.int64]
Evidence = Callable[[Rows], npt.NDArray[np.float32]]

CHUNK = 1 << 20  # numbers of evidence in memory at a time
FOLDS_AT_MOST = 20


def scipy_minimize() -> Any:
    """SciPy's, or a sentence that says how to get it."""
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise ImportError('fitting on released labels needs SciPy: pip install "labeldp[sklearn]"') from error
    return minimize


def minimize(objective: Callable[[Any], tuple[float, Any]], start: Floats, **options: Any) -> Any:
    """By L-BFGS."""
    return scipy_minimize()(objective, start, jac=True, method="L-BFGS-B", options=options)


def pieces(num_rows: int, num_classes: int) -> Iterator[slice]:
    """All rows, a chunk of evidence at a time."""
    step = max(1, CHUNK // num_classes)
    return (slice(start, min(start + step, num_rows)) for start in range(0, num_rows, step))


def log_softmax(logits: Floats) -> Floats:
    """Along the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def loss_and_error(logits: Floats, evidence: Floats) -> tuple[Floats, Floats]:
    """−log Σ_c p_c e^{evidence_c} of each row, and its gradient in the logits, p − q, q ∝ p·e^evidence."""
    prior = log_softmax(logits)
    joint = prior + evidence
    most = joint.max(axis=1, keepdims=True)
    posterior = np.exp(joint - most)
    total = posterior.sum(axis=1, keepdims=True)
    return -(most + np.log(total))[:, 0], np.exp(prior) - posterior / total


def loss(logits: Floats, evidence: Floats) -> Floats:
    """−log Σ_c p_c e^{evidence_c} of each row."""
    return loss_and_error(logits, evidence)[0]


def as_logits(scores: Floats) -> Floats:
    """One score a row, the second class's log-odds, as two logits; (n, C) scores as they are."""
    return np.stack((np.zeros_like(scores), scores), axis=1) if scores.ndim == 1 else scores


def probabilities(scores: Floats) -> npt.NDArray[np.float64]:
    """Of every class, from one score a row (two classes) or one a class."""
    return np.asarray(np.exp(log_softmax(as_logits(np.asarray(scores, dtype=np.float64)))))


def folds(num_rows: int, count: int, seed: int) -> npt.NDArray[np.int64]:
    """Which fold each row is held out in; looks at nothing but the seed."""
    if not 2 <= count <= FOLDS_AT_MOST:
        raise InputError(f"rows are held out in 2 to {FOLDS_AT_MOST} folds; got {count}.")
    if num_rows < 2 * count:
        raise InputError(f"{num_rows:,} rows are too few for {count} folds: take at least {2 * count}.")
    return np.random.default_rng(seed).permutation(num_rows) % count


# ----------------------------------------------------------------
# What the evidence says with no features at all.


@dataclass(frozen=True)
class Marginal:
    """The constant prediction that makes the release likeliest, and how much the release tells beyond it.

    `nats` a row: Σ_c q_c log(q_c/share_c) on average, the mutual information of label and observation at these shares.
    `fisher`: for each class the mean of (share − q)², the Fisher information of a row about that class's score; p(1 − p) with clean labels.
    """

    shares: npt.NDArray[np.float64]
    nats: float
    fisher: npt.NDArray[np.float64]

    @property
    def logits(self) -> npt.NDArray[np.float64]:
        """log shares."""
        return np.asarray(np.log(self.shares))

    @property
    def dulling(self) -> npt.NDArray[np.float64]:
        """t = v(1/κ − 1) with v = share(1 − share) and κ = fisher/v: 0 with clean labels, e^ε/(e^ε − 1)² for two-class response."""
        variance = self.shares * (1 - self.shares)
        return np.asarray(np.maximum(variance * (variance / np.maximum(self.fisher, 1e-12) - 1), 0))


_ENOUGH = 200_000  # rows that tell a share; more are drawn from evenly


def start_of(evidence: Evidence, rows: Rows, num_classes: int) -> Marginal:
    """Class shares by maximum likelihood, one row in doubt for each class beside them, so that none is 0."""
    some = rows[np.linspace(0, len(rows) - 1, min(len(rows), max(_ENOUGH // num_classes, 20_000)), dtype=np.int64)]
    # Many rows say the same: each different row of evidence once, with its count. −∞ (a class that is ruled out) becomes −50.
    table, counts = _distinct(
        np.maximum(np.concatenate([evidence(some[part]) for part in pieces(len(some), num_classes)]), -50)
    )
    weights = counts / counts.sum()

    def objective(logits: Floats) -> tuple[float, Floats]:
        each, error = loss_and_error(np.broadcast_to(logits, table.shape), table)
        prior = log_softmax(logits)
        doubt = 1 / len(some)
        value = float(each @ weights) - doubt * float(prior.sum())
        return value, weights @ error + doubt * (num_classes * np.exp(prior) - 1)

    found = minimize(objective, np.zeros(num_classes), maxiter=500, gtol=1e-9)
    shares = np.exp(log_softmax(found.x))
    posterior = shares * np.exp(table - table.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    nats = weights @ (posterior * (np.log(np.maximum(posterior, 1e-300)) - np.log(shares))).sum(axis=1)
    return Marginal(shares, max(0.0, float(nats)), weights @ (posterior - shares) ** 2)


def _distinct(table: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    whole = np.ascontiguousarray(table - table.max(axis=1, keepdims=True))
    keys = whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1])))[:, 0]
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return whole[first].astype(np.float64), counts


# ----------------------------------------------------------------
# Calibration.


@dataclass(frozen=True)
class Calibration:
    """logits ← slope·logits + bias. Stopping early and penalties pull scores together; held-out likelihood says by how much."""

    slope: float
    bias: npt.NDArray[np.float64]

    def __call__(self, logits: Floats) -> Floats:
        """Of (n, C) logits."""
        return np.asarray(self.slope * logits + self.bias)


_DOUBT = 0.5  # standard deviation, before anything is seen, of log slope and of each bias
_STEEPEST = 10.0


def calibrate(logits: Floats, evidence: Evidence, rows: Rows, weights: Floats | None = None) -> Calibration:
    """From logits of rows that the models behind them did not see, by the likelihood of what was released, with a prior around 1 and 0."""
    num_rows, num_classes = logits.shape
    weight = np.ones(num_rows) if weights is None else np.asarray(weights, dtype=np.float64)
    some = np.arange(num_rows)[:: max(1, num_rows * num_classes // 2_000_000)]  # so many tell
    scale = num_rows / len(some)

    def objective(theta: Floats) -> tuple[float, Floats]:
        slope, bias = np.exp(theta[0]), theta[1:]
        value, gradient = float(theta @ theta) / (2 * _DOUBT**2), theta / _DOUBT**2
        for part in pieces(len(some), num_classes):
            at = some[part]
            each, error = loss_and_error(slope * logits[at] + bias, evidence(rows[at]))
            value += scale * float(each @ weight[at])
            error = error * weight[at, None]
            gradient[0] += scale * slope * float((error * logits[at]).sum())
            gradient[1:] += scale * error.sum(axis=0)
        return value / num_rows, gradient / num_rows

    found = minimize(objective, np.zeros(1 + num_classes), maxiter=200, gtol=1e-7)
    slope = float(np.clip(np.exp(found.x[0]), 1 / _STEEPEST, _STEEPEST))
    return Calibration(slope, found.x[1:] - found.x[1:].mean())

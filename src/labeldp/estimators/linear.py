"""Multinomial logistic regression from evidence: L-BFGS on the likelihood of what was released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax

Floats = npt.NDArray[np.float64]
Evidence = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float32]]

_CHUNK = 1 << 22  # numbers of evidence in memory at a time


@dataclass(frozen=True)
class LinearModel:
    """logits = x·W + b."""

    weights: Floats
    bias: Floats
    iterations: int
    converged: bool

    def logits(self, x: Any) -> Floats:
        """Of dense or sparse rows."""
        return np.asarray(x @ self.weights + self.bias)


def fit_linear(
    x: Any, rows: npt.NDArray[np.int64], evidence: Evidence, num_classes: int, *, inverse: float, most: int, tolerance: float
) -> LinearModel:  # fmt: skip
    """Minimise Σ −logsumexp(log_softmax(x·W + b) + evidence) + ‖W‖²/(2·inverse), starting from W = 0.

    x[i] belongs to position rows[i] of the release. Not convex, unlike with clean labels, but started from the uniform
    prediction it goes where the evidence points.
    """
    features = x.shape[1]
    step = max(1, _CHUNK // num_classes)

    def objective(theta: Floats) -> tuple[float, Floats]:
        table = theta.reshape(features + 1, num_classes)
        weights, bias = table[:-1], table[-1]
        loss, gradient = float((weights**2).sum()) / (2 * inverse), np.zeros_like(table)
        gradient[:-1] = weights / inverse
        for start in range(0, len(rows), step):
            part = x[start : start + step]
            prior = log_softmax(np.asarray(part @ weights + bias), axis=1)
            joint = prior + evidence(rows[start : start + step])
            loss -= float(logsumexp(joint, axis=1).sum())
            error = np.exp(prior) - softmax(joint, axis=1)  # ∂loss/∂logits = p − posterior
            gradient[:-1] += part.T @ error
            gradient[-1] += error.sum(axis=0)
        # Per row, so that the tolerance means the same for any number of rows.
        return loss / len(rows), gradient.ravel() / len(rows)

    start = np.zeros((features + 1) * num_classes)
    options = {"maxiter": most, "gtol": tolerance, "ftol": 64 * np.finfo(float).eps, "maxls": 50}
    result = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    table = result.x.reshape(features + 1, num_classes)
    return LinearModel(table[:-1], table[-1], int(result.nit), bool(result.status != 1))

"""Proper scores, row by row: log loss and Brier score from released labels, unbiased; and the likelihood of what was released.

Both scores are linear in the indicators w of the true class (see `labeldp.evaluation.indicators`), so a row's own is unbiased:

    log loss     Σ_c w_c·(−log p_c), with p_c no smaller than 10⁻⁷
    Brier score  p₁² + w₁(1 − 2p₁) for two classes, that is (p₁ − y)²; 1 + Σ_c p_c² − 2·Σ_c w_c·p_c for more, that is Σ_c (p_c − y_c)²

(scikit-learn's conventions.) The indicators of a row are first moved by the same amount, so that they add up to 1 as the truth does: still
unbiased, and with less noise where every class has its own.

The likelihood of an observation, log Σ_c p_c·e^{evidence_c}, needs no indicator: it is known for every mechanism, and it is what training
maximises. To choose between models it is the sharpest of all.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.evaluation.indicators import Indicators
from labeldp.evaluation.inversion import NOTHING, PSEUDO, CentralMoments, Ratio, mean_ratio
from labeldp.mechanisms import Mechanism

Floats = npt.NDArray[np.float64]

LEAST_PROBABILITY = 1e-7  # smaller ones count as this: one sure mistake shall not be infinitely bad
_CHUNK = 1 << 20  # numbers at a time


def _parts(rows: int, classes: int) -> Iterator[slice]:
    step = max(1, _CHUNK // classes)
    return (slice(start, start + step) for start in range(0, rows, step))


def losses(probabilities: npt.NDArray[np.floating], name: str) -> Floats:
    """What each class costs as the true one, where the truth is w: Σ_c w_c·loss_c; for rows of a chunk."""
    p = probabilities.astype(np.float64)
    if name == "log_loss":
        return np.asarray(-np.log(np.maximum(p, LEAST_PROBABILITY)))
    if p.shape[1] == 2:
        return np.asarray((p[:, ::-1]) ** 2)  # the other one's probability, squared
    return np.asarray(1 + (p**2).sum(axis=1, keepdims=True) - 2 * p)


def proper_ratio(name: str, indicators: Indicators, probabilities: npt.NDArray[np.floating]) -> Ratio:
    """The mean of a row's unbiased scores, to be tested."""
    rows, classes = probabilities.shape
    found, second, third = np.empty(rows), 0.0, 0.0
    count, cost_one, cost_two = np.zeros(classes), np.zeros(classes), np.zeros(classes)
    for part in _parts(rows, classes):
        cost = losses(probabilities[part], name)
        chunk = Indicators(indicators.judge, indicators.observations[part], indicators.law)
        w = np.stack([chunk.of_class(c) for c in range(classes)], axis=1)
        w -= (w.sum(axis=1, keepdims=True) - 1) / classes
        found[part] = (w * cost).sum(axis=1)
        count, cost_one, cost_two = count + w.sum(axis=0), cost_one + cost.sum(axis=0), cost_two + (cost**2).sum(axis=0)
        gap = cost[:, -1] - cost[:, 0]
        second, third = second + float(gap @ gap), third + float((gap**2) @ gap)
    # What the mechanism's noise alone adds; of two classes it is known from one number.
    noise = NOTHING
    if classes == 2:
        v, skew = indicators.noise(float(count[1]) / rows)
        noise = CentralMoments(second * v / rows, 0.0, 0.0, third * skew / rows, 0.0, 0.0, 0.0)
    # A class of which no row was seen can have a few all the same: so many are assumed, each with a mean row's cost.
    mean = float(found.mean())
    unseen = np.maximum(PSEUDO - np.maximum(count, 0), 0) / rows
    away = cost_two / rows - 2 * mean * cost_one / rows + mean**2
    return mean_ratio(found, noise, float((unseen * away).max()))


def log_likelihoods(evidence: npt.NDArray[np.floating], probabilities: npt.NDArray[np.floating]) -> Floats:
    """Of each row's observation under a model: log Σ_c p_c·e^{evidence_c}, with p_c no smaller than 10⁻⁷. To compare models: `compare`."""
    if evidence.shape != probabilities.shape or evidence.ndim != 2:
        raise InputError(
            f"evidence and probabilities have one row a row and one column a class, both; got {evidence.shape} and {probabilities.shape}."
        )
    found = np.empty(len(evidence))
    for part in _parts(*evidence.shape):
        logs = np.log(np.maximum(probabilities[part].astype(np.float64), LEAST_PROBABILITY)) + evidence[part]
        most = logs.max(axis=1, keepdims=True)
        found[part] = most[:, 0] + np.log(np.exp(logs - most).sum(axis=1))
    return found


def released_likelihoods(
    mechanism: Mechanism, observations: npt.NDArray[np.generic], probabilities: npt.NDArray[np.floating]
) -> Floats:
    """The same from observations, whose evidence is never all in memory."""
    parts = [
        log_likelihoods(mechanism.evidence(observations[part]), probabilities[part])
        for part in _parts(*probabilities.shape)
    ]
    return np.concatenate(parts)


def compare(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[float, float]:
    """How much larger the numbers of `a` are than those of `b` on average, row by row, and the standard error of that.

    For the log-likelihoods that two models give to the same held-out rows: paired, since most of what varies is common to both.
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 1 or len(first) < 2:
        raise InputError("a comparison needs two models' numbers for the same rows, two or more.")
    difference = first - second
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))

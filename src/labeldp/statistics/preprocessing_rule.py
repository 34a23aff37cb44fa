"""Which preprocessing, by a public rule: from n, the number of classes, μ and the spectrum of the features. No label is asked.

Say the logit is Σ_j β_j u_j, u_j the features along their principal axes in units of their deviation, β_j independent N(0, τ_j²) with
τ_j² = g·λ_j^a/Σλ^a: more signal along axes of more variance.
Scaled by s_j = λ_j^((1−p)/2) and clipped at length R, the moments tell of β_j the information

    I_j = N²/(N + σ²/s_j²),   N = n·v·k,   σ² = m·R²/μ²,   v = (1/C)(1 − 1/C),   k the share of the squared length that clipping leaves,

m = 1 for two classes, 2(1 − 1/C) for more; and the part of the logits' variance that can be known is Σ_{j ≤ d} τ_j²·τ_j²I_j/(1 + τ_j²I_j).
The rule takes the p, d and quantile for R where that is largest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from labeldp.accounting.cost import Cost, check_delta, check_epsilon
from labeldp.errors import InputError
from labeldp.private import check_num_classes
from labeldp.statistics.clusters import number_of_clusters
from labeldp.statistics.whitening import KNOTS, Axes, Floats, Preprocessing

POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)
QUANTILES = (0.5, 0.75, 0.9)
_LOGIT_VARIANCE = 2.0  # g
_DECAY = 1.0  # a: weights on the columns themselves are alike
MOST = 512  # dimensions


@dataclass(frozen=True)
class PreprocessingChoice:
    """What the rule chose, and the share of the logits' variance that it expects to be told."""

    power: float
    dimensions: int
    clip_quantile: float
    told: float


def _candidates(rank: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, 16, …, and all."""
    found = sorted({max(1, round(2 ** (k / 2))) for k in range(2 * 9 + 1)})
    return [one for one in found if one < min(rank, MOST)] + [min(rank, MOST)]


def choose(axes: Axes, num_classes: int, mu: float, rows: int | None = None) -> PreprocessingChoice:
    """By the rule above; `rows` is how many there are, by default those that the axes are of."""
    check_num_classes(num_classes)
    if not (mu > 0 and math.isfinite(mu)):
        raise InputError(f"mu must be a positive number; got {mu}.")
    n, classes = rows or axes.rows, num_classes
    v = (1 / classes) * (1 - 1 / classes)
    times = 1.0 if classes == 2 else 2 * (1 - 1 / classes)
    decay = axes.variances**_DECAY
    tau = _LOGIT_VARIANCE * decay / decay.sum()
    best: PreprocessingChoice | None = None
    for power in POWERS:
        lengths = axes.squared_lengths(power) + axes.constant(power) ** 2
        scale = axes.variances ** (1 - power)
        for d in _candidates(len(tau)):
            squared = lengths[:, d - 1]
            for quantile in QUANTILES:
                limit = float(np.quantile(squared, quantile))
                left = float(np.minimum(squared, limit).mean() / squared.mean())
                information = n * v * left
                told = information**2 / (information + times * limit / mu**2 / scale[:d])
                known = float((tau[:d] ** 2 * told / (1 + tau[:d] * told)).sum()) / _LOGIT_VARIANCE
                if best is None or known > best.told:
                    best = PreprocessingChoice(power, d, quantile, known)
    assert best is not None
    return best


def choose_preprocessing(
    x: Any,
    num_classes: int,
    *,
    mu: float | None = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
    knots: int = KNOTS,
) -> Preprocessing:
    """From public features alone: `mu`, or ε and δ, say how much noise there will be."""
    if (mu is None) == (epsilon is None):
        raise InputError("say `mu`, or `epsilon` (and `delta`): one of the two.")
    if mu is None:
        assert epsilon is not None
        mu = math.sqrt(Cost.gaussian_cap(epsilon, delta).gaussian)
    axes = Axes.of(x, knots=knots)
    chosen = choose(axes, num_classes, mu)
    return axes.preprocessing(chosen.power, chosen.dimensions, chosen.clip_quantile)


# ----------------------------------------------------------------
# Where moments beat rows.


def known_by_moments(num_rows: int, dimensions: int, num_classes: int, mu: float) -> float:
    """The share of the logits' variance that moments tell, where `dimensions` axes are alike: ρ = τ²I/(1 + τ²I), τ² = g/d.

    I = N²/(N + σ²) with N = n·v, in units of a whitened row's deviation: R² = d + 1, σ² = m·R²/μ².
    """
    v = (1 / num_classes) * (1 - 1 / num_classes)
    times = 1.0 if num_classes == 2 else 2 * (1 - 1 / num_classes)
    n = num_rows * v
    told = n**2 / (n + times * (dimensions + 1) / mu**2)
    tau = _LOGIT_VARIANCE / dimensions
    return tau * told / (1 + tau * told)


def known_by_rows(num_rows: int, dimensions: float, num_classes: int, epsilon: float) -> float:
    """The same of randomized response at a pure ε, read as evidence: I = n·v·κ.

    κ is what a released label tells of a logit, relative to the label itself, where classes are alike: a class is observed
    with probability p = e^ε/(e^ε + C − 1) if it is the true one and q = 1/(e^ε + C − 1) if not, 1/C on the whole, so that κ = (p − q)²;
    of two classes ((e^ε − 1)/(e^ε + 1))².
    """
    e = math.exp(epsilon)
    p, q = e / (e + num_classes - 1), 1 / (e + num_classes - 1)
    v = (1 / num_classes) * (1 - 1 / num_classes)
    told = num_rows * v * (p - q) ** 2
    tau = _LOGIT_VARIANCE / dimensions
    return tau * told / (1 + tau * told)


def moments_beat_rows(num_rows: int, dimensions: int, num_classes: int, epsilon: float, delta: float = 1e-5) -> bool:
    """Whether a linear model is told more by one statistic at (ε, δ) than by randomized rows at a pure ε.

    Both informations compare as N²/(N + m(d + 1)/μ²) > N·κ: moments win while d + 1 < n·v·μ²(1/κ − 1)/m. (Trees, and
    networks that learn features, are another matter: they take rows alone.)
    """
    if num_rows < 1 or dimensions < 1:
        raise InputError("moments need at least one row and one dimension.")
    check_num_classes(num_classes)
    mu = math.sqrt(Cost.gaussian_cap(check_epsilon(epsilon), check_delta(delta)).gaussian)
    return known_by_moments(num_rows, dimensions, num_classes, mu) > known_by_rows(
        num_rows, dimensions, num_classes, epsilon
    )


# ----------------------------------------------------------------
# Where a histogram by cluster beats rows, both at a pure ε.


def _falling(dimensions: int) -> Floats:
    """Shares of the variance, along axes of which the j-th has a j-th of the first's."""
    shares = 1.0 / np.arange(1, dimensions + 1)
    return np.asarray(shares / shares.sum())


def _held_by_clusters(shares: Floats, count: int) -> float:
    """The most of a Gaussian's variance that can lie between K cells: reverse water-filling, Σ_j ½·log⁺(λ_j/θ) = log K."""
    low, high = float(shares[-1]) * count ** (-2 / len(shares)), float(shares[0])
    for _ in range(100):
        water = math.sqrt(low * high)
        rate = 0.5 * float(np.log(np.maximum(1.0, shares / water)).sum())
        low, high = (water, high) if rate > math.log(count) else (low, water)
    return float(np.maximum(0.0, shares - high).sum())


def known_by_histogram(num_rows: int, dimensions: int, num_classes: int, epsilon: float) -> float:
    """The share of the logits' variance that a histogram by K public clusters tells, where axes fall as above and signal follows variance.

    Between cells lies c of the variance; of their means, whose variance is g·c, counts of n/K rows with noise of deviation s = √2·m/ε tell
    with an error of 1/N + (s/N)², N = n·v/K; m = 1 for two classes, 2√(1 − 1/C) for more.
    """
    v = (1 / num_classes) * (1 - 1 / num_classes)
    clusters = number_of_clusters(num_rows, num_classes, epsilon)
    held = _held_by_clusters(_falling(dimensions), clusters)
    deviation = math.sqrt(2) * (1 if num_classes == 2 else 2 * math.sqrt(1 - 1 / num_classes)) / epsilon
    n = num_rows * v / clusters
    signal = _LOGIT_VARIANCE * held
    return held * signal / (signal + 1 / n + (deviation / n) ** 2)


def pure_beats_rows(num_rows: int, dimensions: int, num_classes: int, epsilon: float) -> bool:
    """Whether a histogram by cluster tells more than randomized rows tell a linear model of the same axes, both at a pure ε."""
    if num_rows < 1 or dimensions < 1:
        raise InputError("a histogram needs at least one row and one dimension.")
    check_num_classes(num_classes)
    check_epsilon(epsilon)
    # Of an axis with the share λ_j the prior is that of 1/λ_j axes that are alike.
    by_rows = sum(
        share * known_by_rows(num_rows, 1 / share, num_classes, epsilon) for share in _falling(dimensions).tolist()
    )
    return bool(known_by_histogram(num_rows, dimensions, num_classes, epsilon) > by_rows)

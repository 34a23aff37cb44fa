"""Which preprocessing, by a public rule: from n, the number of classes, μ and the spectrum of the features. No label is asked.

Say the logit is Σ_j β_j u_j, u_j the features along their principal axes in units of their deviation, β_j independent N(0, τ_j²) with τ_j² = g·λ_j^a/Σλ^a:
more signal along axes of more variance. Scaled by s_j = λ_j^((1−p)/2) and clipped at length R, the moments tell of β_j the information

    I_j = N²/(N + σ²/s_j²),   N = n·v·k,   σ² = m·R²/μ²,   v = (1/C)(1 − 1/C),   k the share of the squared length that clipping leaves,

m = 1 for two classes, 2(1 − 1/C) for more; and the part of the logits' variance that can be known is Σ_{j ≤ d} τ_j²·τ_j²I_j/(1 + τ_j²I_j). The rule takes the p, d
and quantile for R where that is largest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost
from labeldp.errors import InputError
from labeldp.private import check_num_classes
from labeldp.statistics.whitening import KNOTS, Axes, Preprocessing

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
    x: Any, num_classes: int, *, mu: float | None = None, epsilon: float | None = None, delta: float = 1e-5, knots: int = KNOTS
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


Floats = npt.NDArray[np.float64]

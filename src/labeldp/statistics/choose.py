"""The best of several models, by name alone: the exponential mechanism on a sum of bounded scores, from integers.

Every row gives every model a whole number, its score if the label is c, which is public for every c; a model's total is their sum over rows
at the true labels. Model j is chosen with probability W(g_j)/ΣW, where g_j is how far its total is below the best one's, at most G, and

    W(g) = 2^128·e^(−β·g), rounded,      G = ⌊64·log 2/β⌋, so that W is 2^64 or more

**Cost.** One label moves the totals by δ_j, and with f_j = max(total_j, best − G), which is what counts, f_j moves by something from min δ
to max δ: so does the best total, and so does the larger of two numbers that do. Then P[j]/P′[j] ≤ e^(β·(max δ − min δ)) but for rounding,
which changes each W by at most 2^−65 of it (W is 2^64 or more), and a ratio of four of them by less than e^(3·2^−64). The draw is
one word of 320 bits, scaled by ΣW: no retries, so that how much entropy is used tells nothing of the totals. It gives every unit of ΣW,
which is below 2^138, a share of the words that is off by less than 2^−182 of it. Together less than e^(5·2^−64):

    ε = β·spread + 5·2^−64,     spread = the largest max_j δ_j − min_j δ_j over all rows and all pairs of labels

It is computed from the predictions, which are public. It is at most 2Δ, and less where models agree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost
from labeldp.accounting.rounding import CONTEXT, float_up
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.mechanisms.base import aimed_at
from labeldp.mechanisms.table import WHOLE
from labeldp.statistics.bins import check_predictions

Predictions = npt.NDArray[np.floating[Any]]

SCORES = ("accuracy", "brier", "log_loss")
STEPS = 1000  # a loss is counted in thousandths
LEAST_CHOSEN_PROBABILITY = 0.01  # log loss is clipped here: the largest loss is what noise must hide
MOST_MODELS = 1000
_UNIT = 1 << 128
_WORD = 320  # bits of a draw
_ROUNDING = Decimal(5) / Decimal(WHOLE)
_CHUNK = 1 << 20  # numbers at a time


def row_scores(name: str, probabilities: Predictions) -> npt.NDArray[np.int64]:
    """What each row adds to a model's total if its label is c, one column a class: whole numbers, the larger the better.

    accuracy  1 if c is the most probable class
    brier     minus the Brier score, in thousandths: (p − y)² of two classes, Σ_c (p_c − y_c)² of more
    log_loss  log p_c in thousandths, with p_c no smaller than 0.01
    """
    if name not in SCORES:
        raise InputError(
            f"models are chosen by {', '.join(SCORES)}: sums over rows, of which one label changes little. {name!r} is none: how much one "
            "label changes AUC, average precision, precision or recall depends on the private number of positives. Release every model's "
            "table of counts instead: choosing from those is free, by any metric."
        )
    p = np.asarray(probabilities, dtype=np.float64)
    if name == "accuracy":
        return np.asarray(p.argmax(axis=1)[:, None] == np.arange(p.shape[1]), dtype=np.int64)
    if name == "log_loss":
        return np.asarray(np.rint(STEPS * np.log(np.maximum(p, LEAST_CHOSEN_PROBABILITY))), dtype=np.int64)
    loss = p[:, ::-1] ** 2 if p.shape[1] == 2 else 1 + (p**2).sum(axis=1, keepdims=True) - 2 * p
    return np.asarray(np.rint(-STEPS * loss), dtype=np.int64)


def total_scores(name: str, models: Sequence[npt.ArrayLike], labels: npt.NDArray[np.integer[Any]]) -> list[int]:
    """Every model's total at the true labels: private."""
    checked = _same_rows(models)
    if labels.shape != (len(checked[0]),):
        raise InputError(f"there are {len(labels):,} labels for {len(checked[0]):,} rows of predictions.")
    totals = [0] * len(checked)
    for part in _parts(*checked[0].shape):
        at = np.arange(len(labels[part])), labels[part]
        for j, p in enumerate(checked):
            totals[j] += int(row_scores(name, p[part])[at].sum())
    return totals


def score_spread(name: str, models: Sequence[npt.ArrayLike]) -> int:
    """The largest max_j δ_j − min_j δ_j: δ_j − δ_k is how much one label changes a difference s_j − s_k of two models."""
    checked, most = _same_rows(models), 0
    for part in _parts(*checked[0].shape):
        scores = [row_scores(name, p[part]) for p in checked]
        if scores[0].shape[1] == 2:  # only one pair of labels
            moves = np.stack([s[:, 1] - s[:, 0] for s in scores])
            most = max(most, int((moves.max(axis=0) - moves.min(axis=0)).max()))
            continue
        for j, first in enumerate(scores):
            for second in scores[:j]:
                apart = first - second
                most = max(most, int((apart.max(axis=1) - apart.min(axis=1)).max()))
    return most


def _same_rows(models: Sequence[npt.ArrayLike]) -> list[Predictions]:
    if not 2 <= len(models) <= MOST_MODELS:
        raise InputError(f"a choice is between 2 and {MOST_MODELS:,} models; there are {len(models):,}.")
    checked = [check_predictions(p) for p in models]
    if len({p.shape for p in checked}) > 1:
        raise InputError("models to choose from predict the same rows and the same classes.")
    return checked


def _parts(rows: int, classes: int) -> Iterator[slice]:
    step = max(1, _CHUNK // classes)
    return (slice(start, start + step) for start in range(0, rows, step))


@dataclass(frozen=True)
class ModelChoice:
    """The exponential mechanism over so many models; β is `rate`/2^64. All of it is public."""

    score: str
    models: int
    spread: int
    rate: int

    def __post_init__(self) -> None:
        if self.score not in SCORES:
            row_scores(self.score, np.ones((1, 2)))  # says why
        for name, least, most in (("models", 2, MOST_MODELS), ("spread", 0, 1 << 32), ("rate", 1, WHOLE * 64)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise InputError(f"the {name} of a choice is a whole number from {least:,} to {most:,}.")

    @classmethod
    def calibrated(cls, *, epsilon: float, score: str, models: Sequence[npt.ArrayLike]) -> ModelChoice:
        """The sharpest choice between these models' predictions that costs at most ε."""
        spread = score_spread(score, models)
        with localcontext(CONTEXT):
            rate = int((aimed_at(epsilon) - 2 * _ROUNDING) / max(spread, 1) * WHOLE)
        if rate < 1:
            raise InputError(f"ε = {epsilon:g} is too small for a choice by {score}.")
        return cls(score, len(models), spread, rate)

    def certificate(self) -> Cost:
        """β·spread + 5·2^−64, rounded up; pure."""
        with localcontext(CONTEXT):
            return Cost(float_up(Decimal(self.rate) * self.spread / WHOLE + _ROUNDING))

    def weights(self, totals: Sequence[int]) -> list[int]:
        """W of each model; the chance of each is its part of their sum. Private, as the totals are."""
        if len(totals) != self.models or any(
            isinstance(t, bool) or not isinstance(t, (int, np.integer)) for t in totals
        ):
            raise InputError(f"a choice needs one whole number for each of {self.models:,} models.")
        best = max(int(t) for t in totals)
        with localcontext(CONTEXT):
            beta = Decimal(self.rate) / WHOLE
            furthest = int(64 * Decimal(2).ln() * (1 - Decimal("1e-40")) / beta)
            return [int((_UNIT * (-beta * min(best - int(t), furthest)).exp()).to_integral_value()) for t in totals]

    def draw(self, totals: Sequence[int], entropy: Entropy) -> int:
        """The number of the chosen model. Charge the certificate before."""
        weights = self.weights(totals)
        word = int.from_bytes(entropy.bytes(_WORD // 8), "little") * sum(weights) >> _WORD
        for j, weight in enumerate(weights):
            if word < weight:
                return j
            word -= weight
        raise AssertionError("a word below the sum of the weights falls to one of them")

    def expected_loss(self) -> float:
        """How far below the best total the chosen one is, at most, on average: log(models)/β (McSherry and Talwar)."""
        return math.log(self.models) * WHOLE / self.rate

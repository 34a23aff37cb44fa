"""The memorization attack of the paper, with its own interval for ε: Game 3 and what follows it in the appendix.

A canary i was planted with a wrong label y′. For each of the C−2 other wrong labels y″ the attacker says which of the two was
planted: the one that the model M is surer of. If both confidences are below a threshold τ it abstains:

    A = ⊥ if max(M_y′, M_y″) < τ, else [M_y′ > M_y″]            (so a tie at or above τ is a guess, and a wrong one)

With m_i guesses on canary i, r_i of them right, a_i = r_i/m_i and weights w_i = m_i/Σm over the N canaries that have a guess:

    ā = Σ w_i a_i = Σr/Σm      V = Σ w_i (a_i − ā)² / (1 − Σ w_i²)      interval ā ± 1.96·√(V/N)      ε = log(a/(1 − a))

This interval is what the paper printed, for comparing with it. It is **no proven bound**: it takes the canaries' guesses for
independent and their mean for normal, and it picks the best of seven thresholds and two signs without paying for the choice.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
FEW = 10
_BLOCK = 4096  # canaries looked at together


class FewCanariesWarning(UserWarning):
    """An interval from so few canaries says next to nothing."""


def few_canaries(count: int) -> str:
    """What there is to say of so few."""
    return (
        f"the paper's interval is not to be relied on with fewer than {FEW} canaries; got {count}. The paper plants 1,000, and up to 50 "
        "it discards even a perfect attack as a fluke."
    )


@dataclass(frozen=True)
class PaperInterval:
    """What the attack came to at one threshold. Where nothing was guessed, ε is anywhere from 0 to ∞."""

    epsilon_low: float
    epsilon_high: float  # may be math.inf
    threshold: float
    guesses: int  # comparisons in which the attacker did not abstain
    correct: int  # as reported, so after a flip
    abstained: int
    canaries: int  # N: those with at least one guess
    accuracy: float  # correct / guesses; 0.5 where nothing was guessed
    accuracy_low: float
    accuracy_high: float
    flipped: bool  # wrong more often than right, the attacker says the opposite


def paper_interval(
    confidences: npt.ArrayLike,
    true_label: npt.ArrayLike,
    canary_label: npt.ArrayLike,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
) -> PaperInterval:
    """The paper's ε_m: the threshold with the highest lower end; among equal ones, the largest finite upper end.

    `confidences` (N, C) are the model's probabilities for N canaries, `true_label` (N) their true labels, `canary_label` (N) the
    wrong ones that were planted. Several runs with fewer canaries each (10 × 100) are laid end to end.
    """
    return max(_intervals(confidences, true_label, canary_label, thresholds), key=_preference)  # the first, if equal


def paper_intervals(
    confidences: npt.ArrayLike,
    true_label: npt.ArrayLike,
    canary_label: npt.ArrayLike,
    *,
    thresholds: Sequence[float] = THRESHOLDS,
) -> tuple[PaperInterval, ...]:
    """The interval at every threshold, in the order given."""
    return _intervals(confidences, true_label, canary_label, thresholds)


def comparisons(
    confidences: npt.NDArray[np.floating[Any]],
    true_label: npt.NDArray[np.integer[Any]],
    canary_label: npt.NDArray[np.integer[Any]],
) -> Iterator[tuple[slice, npt.NDArray[np.floating[Any]], npt.NDArray[np.floating[Any]]]]:
    """Block by block: the rows, M_y′ (n), and M_y″ (n, C−2) for every wrong label that was not planted."""
    for start in range(0, len(confidences), _BLOCK):
        rows = slice(start, min(start + _BLOCK, len(confidences)))
        block = confidences[rows]
        here = np.arange(len(block))
        other = np.ones(block.shape, bool)
        other[here, true_label[rows]] = other[here, canary_label[rows]] = False
        yield rows, block[here, canary_label[rows]], block[other].reshape(len(block), -1)


def check_confidences(
    confidences: npt.ArrayLike, true_label: npt.ArrayLike, canary_label: npt.ArrayLike
) -> tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.integer[Any]], npt.NDArray[np.integer[Any]]]:
    """The three as arrays, if the paper's attack can use them."""
    table, true, planted = np.asarray(confidences), np.asarray(true_label), np.asarray(canary_label)
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise InputError(
            f"confidences are a table of numbers, a row for each canary and a column for each class; got shape {table.shape} of "
            f"{table.dtype}."
        )
    n, classes = table.shape
    if classes < 3:
        raise InputError(
            f"the paper's attack compares the planted wrong label with another wrong one, so it needs 3 classes or more; got {classes}. "
            "The default audit, with candidates drawn from all classes, works for 2."
        )
    if n == 0:
        raise InputError("there are no canaries. The paper plants 1,000.")
    for name, labels in (("true_label", true), ("canary_label", planted)):
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise InputError(f"{name} is one class number for each canary; got shape {labels.shape} of {labels.dtype}.")
        if len(labels) != n:
            raise InputError(f"{name} has {len(labels):,} entries for {n:,} rows of confidences.")
        _refuse(
            (labels < 0) | (labels >= classes),
            f"holds a {name} outside the {classes} classes that confidences has columns for; classes count from 0.",
        )
    _refuse(true == planted, "was planted with its true label. In the paper's attack a canary's label is a wrong one.")
    table = table if table.dtype.kind == "f" else table.astype(np.float64)
    _refuse(~np.isfinite(table).all(axis=1), "holds a confidence that is not a number, or infinite.")
    softmax = "These may be logits: apply a softmax first (`logits=True`)."
    _refuse(table.min(axis=1) < 0, f"holds a negative confidence. {softmax}")
    sums = table.sum(axis=1, dtype=np.float64)
    off = np.abs(sums - 1) > 1e-3
    if off.any():
        row = int(off.argmax())
        raise InputError(f"the confidences of row {row:,} add up to {sums[row]:.6g}, not to 1. {softmax}")
    return table, true, planted


def _refuse(bad: npt.NDArray[np.bool_], what: str) -> None:
    if bad.any():
        raise InputError(f"row {int(bad.argmax()):,} {what}")


def _intervals(
    confidences: npt.ArrayLike, true_label: npt.ArrayLike, canary_label: npt.ArrayLike, thresholds: Sequence[float]
) -> tuple[PaperInterval, ...]:
    levels = [float(threshold) for threshold in thresholds]  # Python's floats take the confidences' own precision
    if not levels or not all(0 <= level <= 1 for level in levels):
        raise InputError(f"thresholds are confidences, from 0 to 1; the paper's are {', '.join(map(str, THRESHOLDS))}.")
    table, true, label = check_confidences(confidences, true_label, canary_label)
    n, alternatives = len(table), table.shape[1] - 2
    if n < FEW:
        warnings.warn(few_canaries(n), FewCanariesWarning, stacklevel=3)
    guesses, correct = np.zeros((2, len(levels), n), np.int64)
    for rows, planted, others in comparisons(table, true, label):
        wins = (planted[:, None] > others).sum(axis=1)
        for k, level in enumerate(levels):
            # Sure of y′: a guess about every y″. Else a guess only about a y″ that the model is sure of, hence a wrong one.
            sure = planted >= level
            guesses[k, rows] = np.where(sure, alternatives, (others >= level).sum(axis=1))
            correct[k, rows] = np.where(sure, wins, 0)
    return tuple(_interval(level, guesses[k], correct[k], n * alternatives) for k, level in enumerate(levels))


def _interval(
    threshold: float, guesses: npt.NDArray[np.int64], correct: npt.NDArray[np.int64], asked: int
) -> PaperInterval:
    """The interval from m_i and r_i. ā = 1 is decided on integers: a rounded mean of 0.9999999 would claim ε = 16."""
    correct, guesses = correct[guesses > 0], guesses[guesses > 0]
    n, made, right = len(guesses), int(guesses.sum()), int(correct.sum())
    if n == 0:
        return PaperInterval(0.0, math.inf, threshold, 0, 0, asked, 0, 0.5, 0.5, 1.0, False)
    weights = guesses / made
    variance = 0.0  # one canary does not vary
    if n > 1:
        variance = float(weights @ (correct / guesses - right / made) ** 2 / (1 - weights @ weights))
    flipped = 2 * right < made
    right = made - right if flipped else right
    accuracy, reach = right / made, 1.96 * math.sqrt(variance / n)
    low, high = max(0.5, accuracy - reach), min(1.0, accuracy + reach)
    if right == made:  # three canaries of N could still have gone wrong; with few canaries, a fluke
        low = min(low, 1 - 3 / n) if n > 50 else 0.5
    return PaperInterval(
        _epsilon(low), _epsilon(high), threshold, made, right, asked - made, n, accuracy, low, high, flipped
    )


def _epsilon(accuracy: float) -> float:
    """ε ≥ log(a/(1 − a)), the theorem of the appendix (the main text has a slip)."""
    if accuracy <= 0.5:
        return 0.0
    return math.log(accuracy / (1 - accuracy)) if accuracy < 1 else math.inf


def _preference(interval: PaperInterval) -> tuple[float, bool, float]:
    """Highest lower end, then largest finite upper end; an infinite one only where there is no finite one."""
    finite = math.isfinite(interval.epsilon_high)
    return interval.epsilon_low, finite, interval.epsilon_high if finite else float(interval.guesses > 0)

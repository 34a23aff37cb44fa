"""How sure the model was, and how often it was surer of the planted label: what violins are drawn of.

Each canary's planted label y′ is compared with all other labels y″ that it might have had: the C−2 other wrong ones in the paper's
planting, the K−1 other candidates in a fair draw. The comparisons are sorted by the model's maximal confidence
p = max(M_y′, M_y″), on the scale of its odds p/(1−p): on a plain one nearly all of them crowd at 0 and 1. A guess is right if M_y′ > M_y″.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from labeldp.audit.canaries import Canaries
from labeldp.audit.paper import check_confidences, comparisons

LOWEST, ZOOM, HIGHEST = 0.01, 0.99, 0.99999  # a higher confidence is drawn at the top
BINS = 600  # of a violin, bottom to top
_BANDWIDTH = BINS / 32
# Block by block: the model's confidence in the planted label (n), and in each of the others (n, k).
Block: TypeAlias = tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.floating[Any]]]
Comparisons: TypeAlias = Callable[[], Iterable[Block]]


@dataclass(frozen=True)
class Violins:
    """How many guesses are right and wrong, in equal bins of log-odds from `low` to HIGHEST; and below `low`."""

    low: float
    right: npt.NDArray[np.int64]
    wrong: npt.NDArray[np.int64]
    right_below: int
    wrong_below: int

    def to_json(self) -> dict[str, Any]:
        """For a file."""
        return {
            "low": self.low, "right": self.right.tolist(), "wrong": self.wrong.tolist(),
            "right_below": self.right_below, "wrong_below": self.wrong_below,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Violins:
        """As `to_json` has it."""
        sides = [np.array(data[name], dtype=np.int64) for name in ("right", "wrong")]
        if any(side.shape != (BINS,) or side.min() < 0 for side in sides) or not 0 < float(data["low"]) < HIGHEST:
            raise ValueError
        right, wrong = sides
        return cls(float(data["low"]), right, wrong, int(data["right_below"]), int(data["wrong_below"]))


def papers_comparisons(
    confidences: npt.ArrayLike, true_label: npt.ArrayLike, canary_label: npt.ArrayLike
) -> Comparisons:
    """The paper's planting. The arguments are those of `paper_interval`."""
    arrays = check_confidences(confidences, true_label, canary_label)
    return lambda: ((planted, others) for _, planted, others in comparisons(*arrays))


def canary_comparisons(
    probabilities: npt.NDArray[np.floating[Any]], canaries: Canaries, places: npt.NDArray[np.int64] | None = None
) -> Comparisons:
    """Canaries of a fair draw. `probabilities` are those of all rows; `places` are the canaries' among them, if not their rows."""
    said = np.take_along_axis(probabilities[canaries.rows if places is None else places], canaries.candidates, axis=1)
    planted = canaries.candidates == canaries.planted[:, None]
    block = said[planted], said[~planted].reshape(len(said), -1)
    return lambda: [block]


def count_guesses(compared: Iterable[Block], low: float) -> Violins:
    """Sort the comparisons into bins. A tie is a wrong guess, as in the attack."""
    bottom, top = log_odds(low), log_odds(HIGHEST)
    counts, below = np.zeros((2, BINS), np.int64), np.zeros(2, np.int64)
    for planted, others in compared:
        surer = np.maximum(planted[:, None], others)
        sure, right = surer >= low, planted[:, None] > others
        for k, side in enumerate((right, ~right)):
            chosen = surer[sure & side].astype(np.float64).clip(0, HIGHEST)
            bins = (np.log2(chosen / (1 - chosen)) - bottom) / (top - bottom) * BINS
            counts[k] += np.bincount(bins.astype(np.int64).clip(0, BINS - 1), minlength=BINS)
            below[k] += np.count_nonzero(~sure & side)
    return Violins(low, counts[0], counts[1], int(below[0]), int(below[1]))


def smooth(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """A Gaussian kernel over the bins, reflected at both ends: the area stays the number of guesses."""
    reach = int(4 * _BANDWIDTH)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / _BANDWIDTH) ** 2)
    return np.convolve(np.pad(counts, reach, mode="symmetric"), kernel / kernel.sum(), mode="valid")


def log_odds(confidence: float) -> float:
    """To base 2: one more doubles the odds."""
    return math.log2(confidence / (1 - confidence))

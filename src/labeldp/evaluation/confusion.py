"""Which classes a model takes for which, and how common each class is, from released labels alone. For rows that were not trained on.

For a `Judge`, z_c = (statistic at class c − E₀)/(E₁ − E₀) has mean 1 if c is the true class and 0 if it is not. So the mean
of z_c over rows is the share of class c, and over the rows that a model calls d, the share of those that are truly c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.evaluation.accuracy import AccuracyEstimate, estimate_accuracy
from labeldp.mechanisms import Mechanism, judge_of

Table = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Confusion:
    """shares[c, d]: the estimated share of all rows that are truly c and called d; unbiased, so it may be negative.

    Standard errors are of the noise and of which rows there are, a little too large for cells that are nearly empty. One cell in twenty
    is off by about two of them by chance.
    """

    shares: Table
    standard_errors: Table
    called: npt.NDArray[np.int64]  # how many rows are called each class

    def without_canaries(self, share: float) -> Confusion:
        """If a `share` of the rows has planted labels, drawn uniformly from all classes: the same of the others."""
        if not 0 <= share < 1:
            raise InputError(f"the share of canaries is from 0 to below 1; got {share:g}.")
        planted = share * self.called / self.called.sum() / len(self.called)
        return Confusion((self.shares - planted) / (1 - share), self.standard_errors / (1 - share), self.called)

    def to_json(self) -> dict[str, Any]:
        """As a run keeps it: rows are true classes, columns are what the model says; five decimals."""
        return {
            "shares": np.round(self.shares, 5).tolist(),
            "standard_errors": np.round(self.standard_errors, 5).tolist(),
            "called": self.called.tolist(),
        }


def estimate_confusion(
    mechanism: Mechanism, observations: npt.NDArray[Any], predictions: npt.NDArray[np.integer[Any]]
) -> Confusion:
    """What each class is taken for, judged by observations of rows that were **not** trained on."""
    estimate_accuracy(
        mechanism, observations, predictions
    )  # the same conditions, and the same words where they are not met
    judge, observations = judge_of(mechanism, observations)
    classes, law = judge.num_classes, judge.law()
    gap, mean_other = law.gap, law.mean_other
    called = np.bincount(predictions, minlength=classes)
    shares = np.empty((classes, classes))
    for c in range(classes):
        z = (judge.statistic(observations, np.full(len(observations), c)) - mean_other) / gap
        shares[c] = np.bincount(predictions, weights=z, minlength=classes) / len(predictions)
    rows, of_called = len(predictions), called / len(predictions)
    # X = [called d]·z_c has E[X²] = s(v₁/gap² + 1) + (f − s)·v₀/gap², with f the share that is called d and s that of c among all. The
    # estimate of s may be 0 by chance, where the error is not: one row more is assumed.
    s = np.minimum(np.clip(shares, 0, of_called) + 1 / rows, of_called)
    square = s * (law.variance_true / gap**2 + 1) + (of_called - s) * law.variance_other / gap**2
    errors = np.sqrt(np.maximum(square - s**2, 0) / rows)
    return Confusion(shares, errors, called)


def estimate_class_shares(mechanism: Mechanism, observations: npt.NDArray[Any]) -> list[AccuracyEstimate]:
    """How common each class is: the accuracy of always guessing it."""
    return [
        estimate_accuracy(mechanism, observations, np.full(len(observations), c)) for c in range(mechanism.num_classes)
    ]

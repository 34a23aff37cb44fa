"""The unbiased indicator of "this row is of class c", from what a `Judge` released of it.

Its statistic g has mean E₁ if c is the true class and E₀ if it is not, so w = (g − E₀)/(E₁ − E₀) has mean 1 or 0. Where a share s of the
rows has planted labels, uniform over C classes, that is one more channel before the mechanism's: the statistic at the true class has
the law (1 − s)·true + s·(true/C + (1 − 1/C)·other), at another one (1 − s)·other + s·(the same). So w becomes (w − s/C)/(1 − s).

Of two classes, a mechanism that noises each on its own says twice which one it is: then the statistic is (g₁ + 1 − g₀)/2, whose law is a
convolution, and whose noise has half the variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.mechanisms import Judge, Mechanism, StatisticLaw, judge_of
from labeldp.mechanisms.coordinates import Coordinatewise

Floats = npt.NDArray[np.float64]
Probabilities = npt.NDArray[np.floating[Any]]

_CHUNK = 1 << 22  # numbers at a time
_SUM_TOLERANCE = 1e-3


def with_canaries(law: StatisticLaw, share: float, num_classes: int) -> StatisticLaw:
    """The law of the statistic where a share of the rows has planted labels."""
    if not 0 <= share < 1:
        raise InputError(f"the share of canaries is from 0 to below 1; got {share:g}.")
    if share == 0:
        return law
    true, other = np.array(law.true), np.array(law.other)
    planted = true / num_classes + (1 - 1 / num_classes) * other
    return StatisticLaw(*(tuple(((1 - share) * one + share * planted).tolist()) for one in (true, other)))


def told_twice(law: StatisticLaw) -> StatisticLaw:
    """The law of (g₁ + 1 − g₀)/2, for two classes whose statistics are independent."""
    true, other = np.array(law.true), np.array(law.other)
    both = np.convolve(true, other[::-1]), np.convolve(other, true[::-1])
    return StatisticLaw(*(tuple(one.tolist()) for one in both))


@dataclass(frozen=True)
class Indicators:
    """Of all rows; `law` is the statistic's, planted labels and all."""

    judge: Judge
    observations: npt.NDArray[Any]
    law: StatisticLaw

    @classmethod
    def of(cls, mechanism: Mechanism, observations: npt.NDArray[Any], canary_share: float = 0.0) -> Indicators:
        """Refused where nobody judges, or where observations say nothing."""
        judge, own = judge_of(mechanism, observations)
        law = told_twice(judge.law()) if _twice(judge) else judge.law()
        law = with_canaries(law, canary_share, judge.num_classes)
        if not law.gap > 0:
            raise InputError("this mechanism's observations say nothing about the label, and so nothing about a model.")
        return cls(judge, own, law)

    def __len__(self) -> int:
        return len(self.observations)

    def levels(self, number: int) -> npt.NDArray[np.int64]:
        """The statistic at one class, in whole levels."""
        found = np.empty(len(self), dtype=np.int64)
        step = max(1, _CHUNK // self.judge.num_classes)
        for start in range(0, len(self), step):
            part = self.observations[start : start + step]
            statistic = self.judge.statistic(part, np.full(len(part), number))
            if _twice(self.judge):
                statistic = (statistic + 1 - self.judge.statistic(part, np.full(len(part), 1 - number))) / 2
            found[start : start + step] = np.rint(statistic * self.law.levels)
        return found

    def of_class(self, number: int) -> Floats:
        """w, one number a row."""
        law = self.law
        return np.asarray((self.levels(number) / law.levels - law.mean_other) / law.gap)

    def noise(self, share: float) -> tuple[float, float]:
        """The second and the third central moment of w about what it indicates, where the class has this share."""
        law, share = self.law, min(1.0, max(0.0, share))
        values = np.arange(law.levels + 1) / law.levels
        second, third = (
            sum(
                part * float(np.array(chances) @ ((values - mean) / law.gap) ** power)
                for part, chances, mean in ((share, law.true, law.mean_true), (1 - share, law.other, law.mean_other))
            )
            for power in (2, 3)
        )
        return second, third


def _twice(judge: Judge) -> bool:
    return judge.num_classes == 2 and isinstance(judge, Coordinatewise)


def check_probabilities(
    mechanism: Mechanism, observations: npt.NDArray[Any], probabilities: npt.ArrayLike
) -> Probabilities:
    """One row of probabilities for each row of observations, or a sentence that says what is wrong."""
    p = np.asarray(probabilities)
    if p.dtype.kind != "f" or p.ndim != 2 or p.shape[1] != mechanism.num_classes:
        raise InputError(
            f"probabilities are a table of decimal numbers, one row a row and {mechanism.num_classes} columns, one a class; got shape "
            f"{p.shape} of {p.dtype}."
        )
    if len(p) != len(observations):
        raise InputError(f"there are {len(p):,} rows of probabilities for {len(observations):,} rows.")
    if len(p) < 2:
        raise InputError("a metric needs at least two held-out rows.")
    sums = p.sum(axis=1, dtype=np.float64)
    wrong = ~(np.abs(sums - 1) <= _SUM_TOLERANCE)  # not finite ones, too
    wrong |= p.min(axis=1) < 0
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"row {row:,} is not probabilities: they are from 0 to 1 and add up to 1; these add up to {sums[row]:g}. (Logits become "
            "probabilities by a softmax.)"
        )
    return p


def check_class(positive: int | None, num_classes: int) -> int | None:
    """The class that counts as positive: of two classes the second, if nothing is said."""
    if positive is None:
        return 1 if num_classes == 2 else None
    if not isinstance(positive, (int, np.integer)) or isinstance(positive, bool) or not 0 <= positive < num_classes:
        raise InputError(f"`positive` is a class number, 0 to {num_classes - 1}.")
    return int(positive)

"""Mechanisms that treat all classes alike: from what they released of held-out rows, accuracy is estimated without a clean label.

They offer, beside evidence, a *statistic* of an observation and a class, whose law is known exactly where the class is the true one, and
where it is not.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import NoJudgeError
from labeldp.mechanisms.base import Mechanism, Observations, RowMechanism
from labeldp.mechanisms.joint import Joint
from labeldp.renamed import NowItself, Renamed


@dataclass(frozen=True)
class StatisticLaw:
    """The law of a statistic whose values are 0, 1/L, 2/L … 1: the chance of each, at the true class and at another one."""

    true: tuple[float, ...]
    other: tuple[float, ...]

    @classmethod
    def coin(cls, true: float, other: float) -> StatisticLaw:
        """Of a statistic that is 0 or 1."""
        return cls((1 - true, true), (1 - other, other))

    @property
    def levels(self) -> int:
        """L."""
        return len(self.true) - 1

    @property
    def mean_true(self) -> float:
        """At the true class."""
        return self._mean(self.true)

    @property
    def mean_other(self) -> float:
        """At a class that is not the true one."""
        return self._mean(self.other)

    @property
    def gap(self) -> float:
        """How much larger the statistic is, on average, at the true class."""
        return self.mean_true - self.mean_other

    @property
    def variance_true(self) -> float:
        """At the true class."""
        return self._variance(self.true)

    @property
    def variance_other(self) -> float:
        """At a class that is not the true one."""
        return self._variance(self.other)

    def _values(self) -> npt.NDArray[np.float64]:
        return np.arange(self.levels + 1) / self.levels

    def _mean(self, chances: Sequence[float]) -> float:
        return float(np.array(chances) @ self._values())

    def _variance(self, chances: Sequence[float]) -> float:
        return float(np.array(chances) @ (self._values() - self._mean(chances)) ** 2)

    moments = NowItself("StatisticLaw")


class Judge(Mechanism):
    """A mechanism that treats all classes alike, so that its held-out rows judge predictions."""

    @abstractmethod
    def statistic(self, observations: Observations, classes: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float64]:
        """A number for each row that is larger, on average, if `classes` (one class number a row) names the true one."""

    @abstractmethod
    def law(self) -> StatisticLaw:
        """The exact law of `statistic`, with its means and variances."""

    score = Renamed("statistic")
    score_law = Renamed("law")
    moments = Renamed("law")


class Plain(RowMechanism, Judge):
    """Row by row, from labels alone, and all classes alike."""


def judge_of(mechanism: Mechanism, observations: Observations) -> tuple[Judge, Observations]:
    """Who judges by these rows, with its own observations of them; refused where nobody does."""
    if isinstance(mechanism, Joint):
        parts = [(part, raw) for part, _, raw in mechanism.unpacked(observations)]
        if len(parts) == 1 and isinstance(parts[0][0], Judge):
            return parts[0][0], parts[0][1]
    elif isinstance(mechanism, Judge):
        return mechanism, observations
    raise NoJudgeError(mechanism.no_judge)


def judging_part(mechanism: Joint) -> int | None:
    """The first part that can judge: an estimate has one law."""
    return next((number for number, part in enumerate(mechanism.parts) if isinstance(part, Judge)), None)


def judging_rows(mechanism: Mechanism, observations: Observations) -> npt.NDArray[np.bool_]:
    """Which of these rows can estimate an accuracy, if they are held out; of several parts, those of one."""
    if isinstance(mechanism, Joint):
        number = judging_part(mechanism)
        return (
            np.zeros(len(observations), dtype=np.bool_) if number is None else mechanism.rows_of(number, observations)
        )
    return np.full(len(observations), isinstance(mechanism, Judge))

"""Randomized response: the true class with one probability, each other class with a smaller one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import localcontext
from functools import lru_cache
from math import ceil
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost
from labeldp.accounting.rounding import CONTEXT, log_ratio_up
from labeldp.entropy import Entropy
from labeldp.mechanisms.base import Observations, aimed_at, check_prior, check_word
from labeldp.mechanisms.judge import Plain, StatisticLaw
from labeldp.mechanisms.table import WHOLE, Table
from labeldp.private import Codes, check_num_classes, code_dtype


class SingleClass(Plain):
    """A class number in the smallest type that holds it."""

    one_class: ClassVar[bool] = True

    @property
    def observation_bytes(self) -> int:
        """One class number."""
        return np.dtype(code_dtype(self.num_classes)).itemsize

    def valid(self, observations: Observations) -> bool:
        """Class numbers below C."""
        return bool(observations.size == 0 or observations.max() < self.num_classes)

    def statistic(self, observations: Observations, classes: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float64]:
        """[class = observed]."""
        return np.asarray(observations == classes, dtype=np.float64)


@lru_cache(maxsize=16)
def _offsets(num_classes: int, other: int) -> Table:
    return Table([WHOLE - (num_classes - 1) * other] + [other] * (num_classes - 1))


@dataclass(frozen=True)
class RandomizedResponse(SingleClass):
    """The observed class is c with probability `other`/2^64 for each wrong c, and the true class otherwise."""

    num_classes: int
    other: int
    name: ClassVar[str] = "response"

    def __post_init__(self) -> None:
        check_num_classes(self.num_classes)
        check_word(self.other, "other", high=WHOLE // self.num_classes)

    @classmethod
    def calibrated(cls, *, epsilon: float, num_classes: int) -> RandomizedResponse:
        """The most informative one whose certificate is at most ε: other = 2^64/(e^ε + C − 1), rounded up."""
        check_num_classes(num_classes)
        with localcontext(CONTEXT):
            e = aimed_at(epsilon).exp()
            return cls(int(num_classes), ceil(WHOLE / (e + num_classes - 1)))

    @property
    def _true(self) -> int:
        return WHOLE - (self.num_classes - 1) * self.other

    def certificate(self) -> Cost:
        """log(true/other): the worst ratio between the rows of the table."""
        return Cost(pure=log_ratio_up(self._true, self.other))

    def _observe(self, codes: Codes, entropy: Entropy) -> Observations:
        observed = _offsets(self.num_classes, self.other).sample(len(codes), entropy)
        if self.num_classes == 2:
            return observed ^ codes
        # (label + offset) mod C without leaving the small type: subtract C − label where the sum would reach C.
        rest = (self.num_classes - codes.astype(np.uint32)).astype(np.uint32)
        wrapped = np.where(observed >= rest, observed - rest, observed + codes)
        return wrapped.astype(code_dtype(self.num_classes))

    def evidence(self, observations: Observations) -> npt.NDArray[np.float32]:
        """ε·[c = observed]."""
        table = np.zeros((len(observations), self.num_classes), dtype=np.float32)
        table[np.arange(len(observations)), observations] = self.certificate().pure
        return table

    def law(self) -> StatisticLaw:
        """A coin's."""
        return StatisticLaw.coin(self._true / WHOLE, self.other / WHOLE)

    def probability_kept(self) -> float:
        """The observed class speaks most."""
        return self._true / WHOLE

    def information(self, prior: npt.ArrayLike | None = None) -> float:
        """Σ_y π_y Σ_o p(o|y) log(p(o|y)/p(o))."""
        pi = check_prior(prior, self.num_classes)
        true, other = self._true / WHOLE, self.other / WHOLE
        marginal = other + (true - other) * pi
        total = true * pi @ np.log(true / marginal) + other * (1 - pi) @ np.log(other / marginal)
        return max(0.0, float(total))

    def describe(self) -> str:
        """In a few words."""
        return f"keeps the label with probability {self._true / WHOLE:.4g}"

    def parameters(self) -> dict[str, Any]:
        """The weight of a wrong class; the true one's follows."""
        return {"other": str(self.other), "keep_probability": self._true / WHOLE}

    @classmethod
    def from_parameters(cls, num_classes: int, parameters: Mapping[str, Any]) -> RandomizedResponse:
        """From `other`; the probability beside it is for readers."""
        return cls(num_classes, check_word(parameters.get("other"), "other"))

"""No privacy at all, for baselines: the observation is the label. Never listed, never certified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from labeldp.entropy import Entropy
from labeldp.errors import AccountingError
from labeldp.mechanisms.base import Observations, check_prior
from labeldp.mechanisms.judge import StatisticLaw
from labeldp.mechanisms.response import SingleClass
from labeldp.private import Codes, check_num_classes


@dataclass(frozen=True)
class NoPrivacy(SingleClass):
    """Hands out the true labels. Whatever comes of it is marked insecure."""

    num_classes: int
    name: ClassVar[str] = "none"
    reason: ClassVar[str] = "no privacy: the observations are the true labels"

    def __post_init__(self) -> None:
        check_num_classes(self.num_classes)

    def certificate(self) -> NoReturn:
        """There is none."""
        raise AccountingError(f"no certificate: {self.reason}.")

    def _observe(self, codes: Codes, entropy: Entropy) -> Observations:
        return codes.copy()

    def evidence(self, observations: Observations) -> npt.NDArray[np.float32]:
        """0 at the label, −∞ elsewhere."""
        table = np.full((len(observations), self.num_classes), -np.inf, dtype=np.float32)
        table[np.arange(len(observations)), observations] = 0
        return table

    def law(self) -> StatisticLaw:
        """The statistic is right."""
        return StatisticLaw.coin(1.0, 0.0)

    def probability_kept(self) -> float:
        """Always."""
        return 1.0

    def information(self, prior: npt.ArrayLike | None = None) -> float:
        """The prior's entropy."""
        pi = check_prior(prior, self.num_classes)
        return float(-(pi[pi > 0] @ np.log(pi[pi > 0])))

    def describe(self) -> str:
        """In a few words."""
        return "the label itself"

    def parameters(self) -> dict[str, Any]:
        """None."""
        return {}

    @classmethod
    def from_parameters(cls, num_classes: int, parameters: Mapping[str, Any]) -> NoPrivacy:
        """From nothing."""
        return cls(num_classes)

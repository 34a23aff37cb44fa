"""Mechanisms whose observation is one class number."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.mechanisms.base import Mechanism, Observations
from labeldp.private import code_dtype


class SingleClass(Mechanism):
    """A class number in the smallest type that holds it."""

    one_class: ClassVar[bool] = True

    @property
    def observation_bytes(self) -> int:
        """One class number."""
        return np.dtype(code_dtype(self.num_classes)).itemsize

    def valid(self, observations: Observations) -> bool:
        """Class numbers below C."""
        return bool(observations.size == 0 or observations.max() < self.num_classes)

    def score(self, observations: Observations, classes: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.float64]:
        """[class = observed]."""
        return np.asarray(observations == classes, dtype=np.float64)

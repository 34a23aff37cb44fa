"""A data set for experiments, whatever its files are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.private import PrivateLabels


@dataclass(frozen=True)
class Bundled:
    """`features` and `test_features` are images (n, channels, height, width) as bytes, or rows of numbers."""

    name: str
    features: npt.NDArray[Any]
    labels: PrivateLabels
    test_features: npt.NDArray[Any]
    test_labels: npt.NDArray[np.int64]
    label_names: tuple[str, ...] | None = None

"""`LabelDPHistogram`: a classifier from noisy counts by public cluster, in scikit-learn's manners. No label in sight, no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from labeldp.errors import InputError
from labeldp.estimators.moments import StatisticClassifier
from labeldp.statistics.histogram_file import LabelHistogram


class LabelDPHistogram(StatisticClassifier):
    """Class shares of public clusters, from a histogram of labels at a pure ε.

    histogram    what the label owner handed over: `LabelHistogram.load(path)`

    `fit(X)` takes the public features of the very rows whose labels were counted, in any order, and no label: y is there for pipelines
    and is refused unless None. How far a cluster's shares are drawn towards those of all rows follows from the noise.
    """

    def __init__(self, histogram: LabelHistogram | None = None) -> None:
        self.histogram = histogram

    def fit(self, X: Any, y: Any = None) -> LabelDPHistogram:
        """X are the rows that the statistic is of; labels are in the statistic, and nowhere else."""
        self._forget(y)
        if self.histogram is None:
            raise InputError("give LabelDPHistogram the histogram that the label owner handed over.")
        self.model_ = self.histogram.fit(self._validated(X, reset=True))
        self.classes_ = self._classes(self.histogram)
        self.class_shares_ = self.model_.class_shares
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Class probabilities, in the order of `classes_`."""
        check_is_fitted(self, "model_")
        return np.asarray(self.model_.probabilities(self._validated(X, reset=False)), dtype=np.float64)

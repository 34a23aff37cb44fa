"""Any classifier that takes sample weights: fitted to what was released, its probabilities led back through the channel.

For a mechanism that treats classes alike, the statistic g_c of an observation at class c has mean E₁ if c is the true class and E₀ if not,
so Σ_c g_c has the same mean for every label. A row is given to the classifier once for each class with g_c > 0, with that weight. What
it then learns is m_c = (E₀ + (E₁ − E₀)·p_c)/(E₁ + (C − 1)·E₀), and p follows. The rows are copied, and what the row tells is not used
twice: boosting and the linear model, which read evidence, do better.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.mechanisms import StatisticLaw, judge_of
from labeldp.release.release import Release

_LEAST = 1e-6  # no probability is 0: a log loss would be infinite


class Inverted:
    """A fitted classifier, and the law that leads back from what it predicts."""

    def __init__(self, estimator: Any, law: StatisticLaw, num_classes: int) -> None:
        self.estimator, self._law, self._classes = estimator, law, num_classes

    @classmethod
    def fit(
        cls,
        estimator: Any,
        x: Any,
        rows: npt.NDArray[np.int64],
        release: Release,
        weight: npt.NDArray[np.float64] | None,
    ) -> Inverted:
        """`estimator` is fitted; x[i] belongs to position rows[i] of the release."""
        from sklearn.utils import _safe_indexing
        from sklearn.utils.validation import has_fit_parameter

        if not has_fit_parameter(estimator, "sample_weight") or not hasattr(estimator, "predict_proba"):
            raise InputError(
                f"{type(estimator).__name__} takes no sample_weight in fit, or has no predict_proba, and so cannot learn from a release."
            )
        judge, observations = judge_of(release.mechanism, release.observations[rows])
        classes = judge.num_classes
        spoken = np.stack(
            [judge.statistic(observations, np.full(len(rows), c, dtype=np.int64)) for c in range(classes)], axis=1
        )
        which, codes = np.nonzero(spoken)
        weights = spoken[which, codes] * (1.0 if weight is None else weight[which])
        estimator.fit(_safe_indexing(x, which), codes, sample_weight=weights)
        return cls(estimator, judge.law(), classes)

    def probabilities(self, x: Any) -> npt.NDArray[np.float64]:
        """Of the true labels."""
        spoken = np.zeros((x.shape[0], self._classes))
        spoken[:, np.asarray(self.estimator.classes_, dtype=np.int64)] = self.estimator.predict_proba(x)
        law = self._law
        total = law.mean_true + (self._classes - 1) * law.mean_other
        found = np.clip((spoken * total - law.mean_other) / law.gap, _LEAST, None)
        return np.asarray(found / found.sum(axis=1, keepdims=True))

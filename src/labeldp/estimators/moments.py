"""`LabelDPMoments`: a linear classifier from one noisy statistic, in scikit-learn's manners. No label in sight, no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.errors import InputError
from labeldp.statistics.fit import fit_moments
from labeldp.statistics.moments_file import Moments
from labeldp.statistics.statistic import StatisticFile


class StatisticClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What estimators that are fitted to one statistic have in common: features alone, and no label."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = False
        return tags

    def _forget(self, y: Any) -> None:
        for name in ("model_", "coef_", "classes_"):  # whatever fails from here on, nothing answers for an old fit
            self.__dict__.pop(name, None)
        if y is not None:
            raise InputError(f"{type(self).__name__} takes no y: what labels told is in the statistic. Leave it out.")

    def _validated(self, X: Any, *, reset: bool) -> npt.NDArray[Any]:
        found = validate_data(self, X, dtype=(np.float64, np.float32), reset=reset, ensure_all_finite="allow-nan")
        return np.asarray(found)

    @staticmethod
    def _classes(statistic: StatisticFile) -> npt.NDArray[Any]:
        names = statistic.class_names
        numbers = tuple(str(number) for number in range(len(names)))
        return np.arange(len(names)) if names == numbers else np.array(names)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The likeliest class."""
        likeliest = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])


class LabelDPMoments(StatisticClassifier):
    """Logistic or softmax regression from noisy moments T = XᵀY.

    moments      what the label owner handed over: `Moments.load(path)`
    tol          when to stop, in standard errors of a weight
    max_iter     steps of L-BFGS at most

    `fit(X)` takes the public features of the very rows that the moments were summed over, in any order, and no label: y is there for
    pipelines and is refused unless None. All tuning is free: labels were paid for once. Predictions integrate what noise and sampling
    leave open, and so are calibrated, and cautious at a small ε.
    """

    def __init__(self, moments: Moments | None = None, *, tol: float = 1e-2, max_iter: int = 200) -> None:
        self.moments = moments
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any = None) -> LabelDPMoments:
        """X are the rows that the statistic is of; labels are in the statistic, and nowhere else."""
        self._forget(y)
        moments = self.moments
        if moments is None:
            raise InputError("give LabelDPMoments the moments that the label owner handed over.")
        if not 0 < self.tol < 1 or self.max_iter < 1:
            raise InputError(f"`tol` is between 0 and 1 and `max_iter` at least 1; got {self.tol} and {self.max_iter}.")
        X = self._validated(X, reset=True)
        plan = moments.statistic
        self.model_ = fit_moments(
            moments.made_ready(X),
            moments.sums,
            plan.noise,
            plan.preprocessing.variances,
            tolerance=self.tol,
            most=self.max_iter,
        )
        self.classes_ = self._classes(moments)
        self.coef_ = self.model_.weights.T  # on the preprocessed columns, in units of R, the constant one last
        self.n_iter_ = max(1, self.model_.iterations)
        self.class_shares_ = self.model_.shares
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Class probabilities, in the order of `classes_`."""
        check_is_fitted(self, "model_")
        assert self.moments is not None
        return self.model_.probabilities(self.moments.statistic.preprocessing.apply(self._validated(X, reset=False)))

"""scikit-learn's own estimator checks.

They pass plain labels to `fit`, which `LabelDPClassifier` refuses by design. So they run on a subclass whose only difference is that
`fit` first makes an (insecure, noiseless) release of the labels it is given: all else is the class as users have it.
"""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import ClassifierMixin
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, validate_data

import labeldp
from labeldp.estimators import LabelDPClassifier

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class OfLabels(LabelDPClassifier):
    def fit(self, X, y=None):
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=(np.float64, np.float32))
        y = _check_y(y, multi_output=False, estimator=self)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError("a classifier needs more than one class")
        with tempfile.TemporaryDirectory() as folder:
            release = labeldp.NoPrivacy(len(classes)).release(
                codes, data_set="check", ids=np.arange(len(codes)), ledger=Path(folder) / "l"
            )
        self._fit(X, release, np.arange(len(codes)))
        self.classes_ = classes
        return self

    score = ClassifierMixin.score  # the checks score with plain labels too


# No check is expected to fail: what cannot apply, plain labels in `fit` and `score`, is what the subclass replaces.
@parametrize_with_checks([OfLabels(C=1.0, max_iter=100)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)

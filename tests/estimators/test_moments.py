"""`LabelDPMoments`: scikit-learn's manners, and no label."""

import tempfile

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import (
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_parameters_default_constructible,
    check_set_params,
)

from labeldp.entropy import SeededEntropy
from labeldp.errors import InputError
from labeldp.estimators import LabelDPMoments
from labeldp.statistics.moments_file import moments


def released(x, y, classes, epsilon, names=None):
    labels = y if names is None else [names[one] for one in y]
    with tempfile.TemporaryDirectory() as scratch:
        return moments(
            x, labels, num_classes=classes, epsilon=epsilon, data_set="digits", ledger=f"{scratch}/labels.ledger",
            ids=np.arange(len(y)), label_names=names, entropy=SeededEntropy(1),
        )  # fmt: skip


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    return x[:1400], y[:1400], x[1400:], y[1400:]


@pytest.mark.parametrize(("epsilon", "least"), [(0.5, 0.65), (2.0, 0.8), (8.0, 0.85)])
def test_digits(digits, epsilon, least):
    """Test rows are the last ones, by other writers."""
    x, y, test, truth = digits
    model = LabelDPMoments(released(x, y, 10, epsilon)).fit(x)
    assert (model.predict(test) == truth).mean() > least
    p = model.predict_proba(test)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-6)
    assert model.coef_.shape == (10, model.moments.statistic.noise.dimensions)
    assert model.class_shares_.sum() == pytest.approx(1, abs=1e-4)


def test_two_named_classes_in_any_order_of_rows(digits):
    x, y, test, truth = digits
    two = (y == 3).astype(int)
    model = LabelDPMoments(released(x, two, 2, 4.0, names=("no", "yes"))).fit(x)
    assert set(model.predict(test)) <= {"no", "yes"}
    assert ((model.predict(test) == "yes") == (truth == 3)).mean() > 0.9
    turned = clone(model).fit(x[::-1])
    np.testing.assert_allclose(turned.predict_proba(test), model.predict_proba(test), atol=0.02)
    assert LabelDPMoments.__name__ in repr(model)


def test_labels_are_refused(digits):
    x, y, _, _ = digits
    held = released(x, y, 10, 1.0)
    with pytest.raises(InputError, match="takes no y"):
        LabelDPMoments(held).fit(x, y)
    with pytest.raises(InputError, match="handed over"):
        LabelDPMoments().fit(x)
    with pytest.raises(NotFittedError):
        LabelDPMoments(held).predict(x)
    with pytest.raises(InputError, match="tol"):
        LabelDPMoments(held, tol=0).fit(x)
    with pytest.raises(InputError, match="64 columns"):
        LabelDPMoments(held).fit(x[:, :5])
    with pytest.raises(InputError, match="1,400 rows"):
        LabelDPMoments(held).fit(x[:5])
    fitted = LabelDPMoments(held).fit(x)
    with pytest.raises(ValueError, match="features"):
        fitted.predict(x[:, :5])


def test_a_failed_fit_forgets_the_one_before(digits):
    x, y, _, _ = digits
    model = LabelDPMoments(released(x, y, 10, 1.0)).fit(x)
    with pytest.raises(InputError):
        model.fit(x, y)
    with pytest.raises(NotFittedError):
        model.predict(x)


def test_the_checks_of_scikit_learn_that_need_no_labels():
    check_parameters_default_constructible("LabelDPMoments", LabelDPMoments())
    for check in (check_no_attributes_set_in_init, check_get_params_invariance, check_set_params):
        check("LabelDPMoments", LabelDPMoments())

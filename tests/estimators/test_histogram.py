"""`LabelDPHistogram`: scikit-learn's manners, and no label."""

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
from labeldp.estimators import LabelDPHistogram
from labeldp.statistics import histogram


def released(x, y, classes, epsilon, ledger, names=None):
    labels = y if names is None else [names[one] for one in y]
    return histogram(
        x, labels, num_classes=classes, epsilon=epsilon, data_set="digits", ledger=ledger, ids=np.arange(len(y)), label_names=names,
        entropy=SeededEntropy(1),
    )  # fmt: skip


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    return x[:1400], y[:1400], x[1400:], y[1400:]


@pytest.fixture(scope="module")
def held(digits, tmp_path_factory):
    x, y, _, _ = digits
    return released(x, y, 10, 2.0, tmp_path_factory.mktemp("h") / "l")


def test_digits(digits, held):
    """Test rows are the last ones, by other writers."""
    x, _, test, truth = digits
    model = LabelDPHistogram(held).fit(x)
    assert (model.predict(test) == truth).mean() > 0.6
    np.testing.assert_allclose(model.predict_proba(test).sum(axis=1), 1, rtol=1e-5)
    assert model.class_shares_.sum() == pytest.approx(1)


def test_two_named_classes_in_any_order_of_rows(digits, tmp_path):
    x, y, test, truth = digits
    model = LabelDPHistogram(released(x, (y == 3).astype(int), 2, 8.0, tmp_path / "l", names=("no", "yes"))).fit(x)
    assert set(model.classes_) == {"no", "yes"}
    p = model.predict_proba(test)[:, 1]
    assert (p[truth == 3][:, None] > p[truth != 3][None]).mean() > 0.8
    np.testing.assert_array_equal(clone(model).fit(x[::-1]).predict_proba(test), model.predict_proba(test))
    assert LabelDPHistogram.__name__ in repr(model)


def test_what_is_refused(digits, held):
    x, y, _, _ = digits
    with pytest.raises(InputError, match="LabelDPHistogram takes no y"):
        LabelDPHistogram(held).fit(x, y)
    with pytest.raises(InputError, match="handed over"):
        LabelDPHistogram().fit(x)
    with pytest.raises(NotFittedError):
        LabelDPHistogram(held).predict(x)
    with pytest.raises(InputError, match="64 columns"):
        LabelDPHistogram(held).fit(x[:, :5])
    with pytest.raises(InputError, match="1,400 rows"):
        LabelDPHistogram(held).fit(x[:5])
    fitted = LabelDPHistogram(held).fit(x)
    with pytest.raises(ValueError, match="features"):
        fitted.predict(x[:, :5])
    with pytest.raises(InputError):
        fitted.fit(x, y)
    with pytest.raises(NotFittedError):
        fitted.predict(x)


def test_the_checks_of_scikit_learn_that_need_no_labels():
    check_parameters_default_constructible("LabelDPHistogram", LabelDPHistogram())
    for check in (check_no_attributes_set_in_init, check_get_params_invariance, check_set_params):
        check("LabelDPHistogram", LabelDPHistogram())

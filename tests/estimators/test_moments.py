"""`LabelDPMoments`: scikit-learn's manners, and no label."""

from dataclasses import dataclass
from typing import Any

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
from labeldp.private import PrivateLabels
from labeldp.statistics.moment_noise import MomentNoise, exact_moments
from labeldp.statistics.preprocessing_rule import choose_preprocessing


@dataclass(frozen=True)
class Held:
    """As a file of moments will be."""

    preprocessing: Any
    noise: Any
    values: Any
    label_names: Any = None


def released(x, y, classes, epsilon, seed=0, names=None):
    made = choose_preprocessing(x, classes, epsilon=epsilon)
    q = made.apply(x)
    noise = MomentNoise.calibrated(
        epsilon=epsilon, delta=1e-5, radius=made.radius, dimensions=made.dimensions, num_classes=classes
    )
    values = exact_moments(q, PrivateLabels(y, classes), noise) + noise.sample(SeededEntropy(seed))
    return Held(made, noise, values, names)


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
    assert model.coef_.shape == (10, model.moments.noise.dimensions)
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
    with pytest.raises((InputError, ValueError)):
        LabelDPMoments(held).fit(x[:, :5])
    fitted = LabelDPMoments(held).fit(x)
    with pytest.raises(ValueError, match="features"):
        fitted.predict(x[:, :5])


def test_other_rows_are_noticed_by_nobody_but_say_less(digits):
    """The fit takes what it is given; a failed one forgets the one before."""
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

"""scikit-learn's tools on a release: no label in sight, and none accepted."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, check_cv, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import type_of_target

import labeldp
from labeldp.errors import InputError
from labeldp.estimators import LabelDPClassifier
from labeldp.estimators.linear import fit_linear


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    return x[order] / 16, y[order]


@pytest.fixture
def made(digits, tmp_path):
    """A classifier at ε = 3, made by the label owner."""
    _, y = digits
    return LabelDPClassifier.from_labels(
        y, epsilon=3.0, num_classes=10, data_set="digits", ids=np.arange(len(y)), ledger=tmp_path / "l.ledger",
        entropy=labeldp.SeededEntropy(0), C=1.0,
    )  # fmt: skip


def test_it_learns_and_scores_without_a_label(made, digits):
    x, y = digits
    target = made.release.target()
    x_train, x_test, t_train, t_test, _, y_test = train_test_split(x, target, y, random_state=0)
    made.fit(x_train, t_train)
    truth = (made.predict(x_test) == y_test).mean()
    assert truth > 0.88
    estimate = made.estimate_accuracy(x_test, t_test)
    assert made.score(x_test, t_test) == estimate.accuracy
    assert abs(estimate.accuracy - truth) < 4 * estimate.standard_error
    np.testing.assert_allclose(made.predict_proba(x_test).sum(axis=1), 1)


def test_cross_validation_search_and_pipelines_cost_nothing(made, digits, tmp_path):
    x, y = digits
    target = made.release.target()
    before = (tmp_path / "l.ledger").read_bytes()
    scores = cross_val_score(make_pipeline(StandardScaler(), made), x, target, cv=4)
    assert (scores > 0.75).all()
    search = GridSearchCV(made, {"C": [0.01, 1.0]}, cv=3, n_jobs=2).fit(x, target)
    assert search.best_params_["C"] in (0.01, 1.0)
    assert abs(search.best_score_ - (search.predict(x) == y).mean()) < 0.15
    assert (tmp_path / "l.ledger").read_bytes() == before


def test_a_target_is_split_by_kfold(made):
    target = made.release.target()
    assert type_of_target(target) == "multiclass-multioutput"
    assert isinstance(check_cv(3, target, classifier=True), KFold)
    np.testing.assert_array_equal(made.release.target([4, 2])[:, 1], [4, 2])
    np.testing.assert_array_equal(made.release.target(slice(3, 5))[:, 1], [3, 4])


def test_labels_are_refused_with_the_right_line(made, digits):
    x, y = digits
    for wrong in (y, y.tolist(), y.astype(str), y[:, None], np.stack((y, y), axis=1), y.astype(float)):
        with pytest.raises(InputError, match="target"):
            made.fit(x, wrong)
    with pytest.raises(InputError, match=r"from_labels\(y, epsilon="):
        cross_val_score(made, x, y, error_score="raise")
    with pytest.raises(InputError, match=r"clf.release.target\(\)"):
        LabelDPClassifier().fit(x, y)
    with pytest.raises(InputError, match="there is no release"):
        LabelDPClassifier().fit(x)
    made.fit(x, made.release.target())
    with pytest.raises(InputError, match="target"):
        made.score(x, y)


def test_no_label_is_in_the_message(made, digits):
    x, _ = digits
    with pytest.raises(InputError) as caught:
        made.fit(x, np.full(len(x), 7654))
    assert "7654" not in str(caught.value)


def test_rows_that_were_trained_on_do_not_score(made, digits):
    x, _ = digits
    made.fit(x, made.release.target())
    with pytest.raises(InputError, match="were trained on"):
        made.score(x[:50], made.release.target()[:50])
    with pytest.raises(InputError, match="no sample weights"):
        made.score(x, made.release.target(), np.ones(len(x)))


def test_another_release_and_other_rows_are_refused(made, digits, tmp_path):
    x, y = digits
    other = LabelDPClassifier.from_labels(
        y[:100], epsilon=1.0, num_classes=10, data_set="o", ids=np.arange(100), ledger=tmp_path / "o"
    )
    with pytest.raises(InputError, match="another release"):
        made.fit(x[:100], other.release.target())
    with pytest.raises(InputError, match="X has 99 rows"):
        other.fit(x[:99])
    with pytest.raises(InputError, match="positions from 0"):
        other.fit(x[:1], other.release.target()[:1] + np.array([[0, 100]]))


def test_clones_and_pickles(made, digits):
    x, _ = digits
    assert clone(made).release is made.release
    made.fit(x)
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(again.predict(x), made.predict(x))
    np.testing.assert_array_equal(again.release.target(), made.release.target())


def test_without_noise_it_is_logistic_regression(digits, tmp_path):
    """The same optimum as scikit-learn's own, where the evidence is certain."""
    x, y = digits
    release = labeldp.NoPrivacy(10).release(y, data_set="d", ids=np.arange(len(y)), ledger=tmp_path / "l")
    ours = LabelDPClassifier(release, C=0.5, tol=1e-8, max_iter=3000).fit(x)
    theirs = LogisticRegression(C=0.5, tol=1e-8, max_iter=3000).fit(x, y)
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=2e-4)


def test_sparse_rows_and_chunks_make_no_difference(made, digits, monkeypatch):
    x, _ = digits
    whole = clone(made).fit(x).predict_proba(x)
    np.testing.assert_allclose(
        clone(made).fit(sparse.csr_array(x)).predict_proba(sparse.csr_array(x)), whole, atol=3e-3
    )
    monkeypatch.setattr("labeldp.estimators.linear._CHUNK", 3000)
    np.testing.assert_allclose(clone(made).fit(x).predict_proba(x), whole, atol=3e-3)


def test_the_gradient_is_the_objectives(made, digits):
    """Against finite differences, by way of scipy's check."""
    from scipy.optimize import check_grad

    x, rows = digits[0][:60, 20:26], np.arange(60)
    seen = {}

    def capture(objective, start, **options):
        seen["error"] = check_grad(
            lambda t: objective(t)[0], lambda t: objective(t)[1], np.random.default_rng(0).normal(size=len(start))
        )
        raise StopIteration

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labeldp.estimators.linear.minimize", capture)
        with pytest.raises(StopIteration):
            fit_linear(x, rows, made.release.evidence, 10, inverse=2.0, most=5, tolerance=1e-6)
    assert seen["error"] < 1e-5


def test_names_of_classes(digits, tmp_path):
    x, y = digits
    names = [f"digit {i}" for i in range(10)]
    made = LabelDPClassifier.from_labels(
        y, epsilon=5.0, num_classes=10, data_set="d", ids=np.arange(len(y)), ledger=tmp_path / "l", label_names=names,
        mechanism="laplace", delta=None,
    ).fit(x)  # fmt: skip
    assert list(made.classes_) == names
    assert set(made.predict(x)) <= set(names)
    assert made.release.mechanism.name == "laplace"


def test_the_ledger_is_asked(digits, tmp_path):
    _, y = digits
    given = {"num_classes": 10, "data_set": "d", "ids": np.arange(len(y)), "ledger": tmp_path / "l"}
    LabelDPClassifier.from_labels(y, epsilon=1.0, **given)
    with pytest.raises(labeldp.AlreadyReleasedError):
        LabelDPClassifier.from_labels(y, epsilon=2.0, **given)
    strong = labeldp.RandomizedResponse.calibrated(epsilon=3.0, num_classes=10)
    with pytest.raises(InputError, match="ε = 3"):
        LabelDPClassifier.from_labels(y, epsilon=1.0, mechanism=strong, **given)


def test_a_torch_model(made, digits):
    x, y = digits
    target = made.release.target()
    made.set_params(model="mlp", epochs=8, random_state=0).fit(x[:1400], target[:1400])
    assert (made.predict(x[1400:]) == y[1400:]).mean() > 0.85
    assert made.score(x[1400:], target[1400:]) > 0.7
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(again.predict_proba(x), made.predict_proba(x))
    np.testing.assert_array_equal(clone(made).fit(x[:1400], target[:1400]).predict_proba(x), made.predict_proba(x))


def test_not_converged_is_said(made, digits):
    with pytest.warns(ConvergenceWarning, match="scale the features"):
        made.set_params(max_iter=2).fit(digits[0])
    with pytest.raises(InputError, match="C must be positive"):
        made.set_params(C=0).fit(digits[0])

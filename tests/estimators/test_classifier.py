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
    monkeypatch.setattr("labeldp.estimators.likelihood.CHUNK", 3000)
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


# ── tables: two classes, trees, any classifier ──


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Two classes, 20% positives, columns that matter in ways no line follows; a release at ε = 2."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3000, 5))
    score = 2.5 * (x[:, 0] * x[:, 1] > 0.3) + x[:, 2] - 2.6
    y = (rng.random(3000) < 1 / (1 + np.exp(-score))).astype(int)
    mechanism = labeldp.RandomizedResponse.calibrated(epsilon=2.0, num_classes=2)
    release = mechanism.release(
        y,
        data_set="t",
        ids=np.arange(3000),
        ledger=tmp_path_factory.mktemp("t") / "l",
        entropy=labeldp.SeededEntropy(3),
    )
    return x, y, release


def auc(scores, y):
    from sklearn.metrics import roc_auc_score

    return roc_auc_score(y, scores)


@pytest.mark.parametrize(
    ("given", "least"),
    [({"model": "lightgbm"}, 0.75), ({"estimator": "booster"}, 0.75), ({"estimator": "forest"}, 0.75), ({}, 0.6)],
)  # fmt: skip
def test_every_kind_of_model_learns_true_labels(table, given, least):
    lightgbm = pytest.importorskip("lightgbm")
    from sklearn.ensemble import RandomForestClassifier

    estimators = {
        "booster": lightgbm.LGBMClassifier(n_estimators=40, num_leaves=8, n_jobs=1, random_state=0),
        "forest": RandomForestClassifier(60, min_samples_leaf=30, random_state=0),
    }
    given = {**given, "estimator": estimators.get(given.get("estimator"))}
    x, y, release = table
    made = LabelDPClassifier(release, random_state=0, **given).fit(x[:2400], release.target(slice(0, 2400)))
    found = made.predict_proba(x[2400:])
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-5)
    assert auc(found[:, 1], y[2400:]) > least
    # Of the labels, not of what was released: one class in six is flipped there.
    assert abs(found[:, 1].mean() - y.mean()) < 0.06
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_allclose(again.predict_proba(x), made.predict_proba(x))
    estimate = made.estimate_metric("roc_auc", x[2400:], release.target(slice(2400, 3000)))
    assert estimate.interval_95[0] <= auc(found[:, 1], y[2400:]) <= estimate.interval_95[1]


def test_rows_may_stand_for_y(table):
    """cross_val_predict numbers the columns of a two-column y anew for predict_proba; rows beside X are left alone."""
    from sklearn.model_selection import cross_val_predict

    x, y, release = table
    made = LabelDPClassifier(release, C=0.1)
    rows = release.positions(np.arange(3000))
    found = cross_val_predict(made, x, params={"rows": rows}, method="predict_proba", cv=3)
    assert auc(found[:, 1], y) > 0.6
    with pytest.raises(InputError, match=r"params=\{\"rows\": rows\}"):
        cross_val_predict(made, x, release.target(), method="predict_proba", cv=3)
    with pytest.raises(InputError, match="one of the two"):
        made.fit(x, release.target(), rows=rows)


def test_rows_are_routed(table):
    import sklearn
    from sklearn.model_selection import cross_validate

    x, _, release = table
    with sklearn.config_context(enable_metadata_routing=True):
        made = LabelDPClassifier(release, C=0.1).set_fit_request(rows=True).set_score_request(rows=True)
        scores = cross_validate(made, x, params={"rows": np.arange(3000)}, cv=3)["test_score"]
    assert (scores > 0.6).all()


@pytest.mark.parametrize("name", ["log_likelihood", "roc_auc", "log_loss", "brier", "average_precision", "accuracy"])
def test_scorers_of_the_release_choose(table, name):
    x, _, release = table
    search = GridSearchCV(LabelDPClassifier(release), {"C": [1e-6, 0.1]}, scoring=release.scorer(name), cv=3)
    search.fit(x, release.target())
    assert np.isfinite(search.best_score_)
    # A penalty hardly changes how rows rank, and accuracy is nearly blind where one class is common.
    if name in ("log_likelihood", "log_loss", "brier"):
        assert search.best_params_ == {"C": 0.1}


def test_scorers_agree_with_scikit_learn_where_labels_are_known(table, tmp_path):
    x, y, _ = table
    release = labeldp.NoPrivacy(2).release(y, data_set="clear", ids=np.arange(3000), ledger=tmp_path / "l")
    made = LabelDPClassifier(release, C=0.1).fit(x[:2000], release.target(slice(0, 2000)))
    from sklearn.metrics import get_scorer

    held_out = release.target(slice(2000, 3000))
    for ours, theirs in (
        ("roc_auc", "roc_auc"), ("log_loss", "neg_log_loss"), ("brier", "neg_brier_score"), ("average_precision", "average_precision"),
        ("accuracy", "accuracy"),
    ):  # fmt: skip
        expected = get_scorer(theirs)(made, x[2000:], y[2000:])
        assert release.scorer(ours)(made, x[2000:], held_out) == pytest.approx(expected, abs=1e-6)
    assert release.scorer("neg_log_loss")(made, x[2000:], held_out) < 0
    with pytest.raises(InputError, match="were trained on"):
        release.scorer("roc_auc")(made, x[:10], release.target(slice(0, 10)))
    with pytest.raises(InputError, match="choose one of log_likelihood"):
        release.scorer("f1")


def test_a_metric_of_labels_is_refused_with_the_right_line(table):
    x, y, release = table
    made = LabelDPClassifier(release, C=0.1)
    for scoring in ("roc_auc", "neg_log_loss", "f1"):
        with pytest.raises(InputError, match=r"release.scorer\("):
            cross_val_score(made, x, release.target(), scoring=scoring, error_score="raise")
    from sklearn.metrics import get_scorer

    made.fit(x[:2000], release.target(slice(0, 2000)))
    assert get_scorer("roc_auc")(made, x[2000:], y[2000:]) > 0.6  # public test labels are nobody's business


def test_one_of_model_and_estimator(table):
    x, _, release = table
    with pytest.raises(InputError, match="one of the two"):
        LabelDPClassifier(release, model="linear", estimator=LogisticRegression()).fit(x)
    from sklearn.neighbors import KNeighborsClassifier

    with pytest.raises(InputError, match="takes no sample_weight"):
        LabelDPClassifier(release, estimator=KNeighborsClassifier()).fit(x)
    lightgbm = pytest.importorskip("lightgbm")
    with pytest.raises(InputError, match="leave `objective` out"):
        LabelDPClassifier(release, estimator=lightgbm.LGBMClassifier(objective="binary")).fit(x)


def test_class_weights_move_decisions_and_not_training(table):
    x, y, release = table
    plain = LabelDPClassifier(release, C=0.1).fit(x[:2400], rows=np.arange(2400))
    balanced = clone(plain).set_params(class_weight="balanced").fit(x[:2400], rows=np.arange(2400))
    assert abs(plain.class_shares_[1] - y[:2400].mean()) < 0.05
    p, q = plain.predict_proba(x)[:, 1], balanced.predict_proba(x)[:, 1]
    shift = np.log(plain.class_shares_[0] / plain.class_shares_[1])
    np.testing.assert_allclose(np.log(q / (1 - q)) - np.log(p / (1 - p)), shift, atol=1e-4)
    assert balanced.predict(x).mean() > plain.predict(x).mean()
    heavy = clone(plain).set_params(class_weight={1: 2.0}).fit(x)
    assert heavy.predict_proba(x)[:, 1].mean() > clone(plain).fit(x).predict_proba(x)[:, 1].mean()
    for wrong, message in (({7: 1.0}, "no class"), ({1: -1.0}, "positive"), ("fair", "balanced")):
        with pytest.raises(InputError, match=message):
            plain.set_params(class_weight=wrong).predict_proba(x)


@pytest.mark.parametrize("C", [None, 0.1])
def test_coefficients_are_of_the_features_as_given(table, C):
    x, _, release = table
    x = 10 * x[:, :3] + 7
    made = LabelDPClassifier(release, C=C, random_state=0, max_iter=2000).fit(x)
    assert (made.coef_.shape, made.intercept_.shape) == ((1, 3), (1,))
    odds = np.log(made.predict_proba(x)[:, 1] / made.predict_proba(x)[:, 0])
    np.testing.assert_allclose(x @ made.coef_[0] + made.intercept_[0], odds, atol=2e-3)
    with pytest.raises(AttributeError, match="linear model"):
        _ = LabelDPClassifier(release, model="mlp").coef_


def test_sample_weights_are_as_copies(table):
    x, _, release = table
    rows = np.arange(1000)
    weighted = LabelDPClassifier(release, C=1.0, tol=1e-9).fit(x[:1000], rows=rows, sample_weight=1.0 + (rows < 500))
    twice = np.concatenate((rows, rows[:500]))
    copied = LabelDPClassifier(release, C=1.0, tol=1e-9).fit(x[twice], rows=release.rows(twice))
    np.testing.assert_allclose(weighted.coef_, copied.coef_, atol=1e-4)
    with pytest.raises(InputError, match="one a row"):
        weighted.fit(x[:1000], rows=rows, sample_weight=np.ones(3))
    with pytest.raises(InputError, match="PosteriorLoss"):
        LabelDPClassifier(release, model="mlp").fit(x[:1000], rows=rows, sample_weight=np.ones(1000))


def test_frames_with_categories_and_gaps(table):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("lightgbm")
    x, y, release = table
    frame = pandas.DataFrame(x[:, :2], columns=["a", "b"])
    frame["kind"] = pandas.Categorical(
        np.where(y == 1, "q", "p"), categories=["p", "q", "r"]
    )  # it gives the label away
    frame.loc[::7, "a"] = np.nan
    made = LabelDPClassifier(release, model="lightgbm", random_state=0).fit(frame[:2000], rows=np.arange(2000))
    assert list(made.feature_names_in_) == ["a", "b", "kind"]
    assert auc(made.predict_proba(frame[2000:])[:, 1], y[2000:]) > 0.95
    # Other rows have other categories, in another order.
    later = frame[2000:].copy()
    later["kind"] = pandas.Categorical(later["kind"].astype(str).replace("p", "new"), categories=["new", "q"])
    assert made.predict_proba(later)[(y[2000:] == 1), 1].mean() > 0.7
    frame["kind"] = frame["kind"].astype(str)
    with pytest.raises(InputError, match="column 'kind' holds text"):
        made.fit(frame)


def test_text_labels_name_the_argument(tmp_path):
    with pytest.raises(InputError, match="label_names"):
        LabelDPClassifier.from_labels(
            ["yes", "no"] * 10, epsilon=1.0, num_classes=2, data_set="d", ids=np.arange(20), ledger=tmp_path / "l"
        )


# ── what a hostile review found, each as a test that fails without its mend ──


def test_scorers_look_through_wrappers(table):
    x, _, release = table
    target = release.target()
    search = GridSearchCV(LabelDPClassifier(release), {"C": [0.1]}, scoring=release.scorer(), cv=3).fit(
        x[:2000], target[:2000]
    )
    nested = make_pipeline(make_pipeline(StandardScaler(), LabelDPClassifier(release, C=0.1))).fit(
        x[:2000], target[:2000]
    )
    for wrapped in (search, nested, make_pipeline(StandardScaler(), search).fit(x[:2000], target[:2000])):
        with pytest.raises(InputError, match="were trained on"):
            release.scorer("roc_auc")(wrapped, x[:500], target[:500])
        assert 0 <= release.scorer("roc_auc")(wrapped, x[2000:], target[2000:]) <= 1
    plain = LogisticRegression().fit(x, np.arange(len(x)) % 2)
    with pytest.raises(InputError, match="says which rows it was trained on"):
        release.scorer("roc_auc")(plain, x, target)


def test_a_row_judges_once(table):
    x, _, release = table
    made = LabelDPClassifier(release, C=0.1).fit(x[:2000], rows=np.arange(2000))
    twice = release.rows(np.tile(np.arange(2000, 2100), 2))
    with pytest.raises(InputError, match="only once"):
        made.estimate_metric("roc_auc", x[np.asarray(twice)], rows=twice)


def test_labels_in_place_of_rows_are_refused(table):
    x, y, release = table
    for given in ({}, {"C": 1.0}, {"model": "mlp", "epochs": 1}):
        with pytest.raises(InputError, match="look like class labels"):
            LabelDPClassifier(release, **given).fit(x, rows=y)

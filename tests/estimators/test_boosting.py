"""LightGBM on evidence: its gradient, its subsets, and what is refused."""

import subprocess
import sys

import lightgbm
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit

from labeldp.errors import InputError
from labeldp.estimators import boosting, likelihood
from labeldp.mechanisms import Laplace, NoPrivacy, SubsetSelection
from tests.estimators.releases import released, table

QUIET = {"verbosity": -1, "num_threads": 1, "num_leaves": 7, "seed": 0, "lambda_l2": 1.0}


def trained(x, release, rounds=20, rows=slice(None), **more):
    data = boosting.dataset(x, release, rows)
    return lightgbm.train({**QUIET, **more, "objective": boosting.objective(data)}, data, rounds)


def asked(release, scores):
    """What the objective answers, for scores that are not the first ones."""
    data = boosting.dataset(np.arange(len(release), dtype=float)[:, None], release, params=QUIET).construct()
    return boosting.objective(data)(scores, data)


@given(st.integers(0, 1000), st.sampled_from([0.1, 1.0, 4.0]), st.sampled_from([2, 3, 7]))
@settings(max_examples=30, deadline=None)
def test_the_gradient_is_that_of_the_likelihood(seed, epsilon, classes):
    generator = np.random.default_rng(seed)
    release = released(np.arange(40) % classes, epsilon, classes, seed)
    scores = np.asfortranarray(3 * generator.normal(size=(40,) if classes == 2 else (40, classes)))
    gradient, curvature = asked(release, scores)
    assert gradient.dtype == curvature.dtype == np.float32
    assert gradient.shape == curvature.shape == scores.shape
    assert (curvature > 0).all()
    _, error = likelihood.loss_and_error(likelihood.as_logits(scores), release.evidence())
    np.testing.assert_allclose(gradient, error[:, 1] if classes == 2 else error, atol=1e-6)
    for column in range(classes) if classes > 2 else [0]:
        step = 1e-4 * (np.eye(classes)[column] if classes > 2 else 1)
        values = [likelihood.loss(likelihood.as_logits(scores + sign * step), release.evidence()) for sign in (1, -1)]
        slope = (values[0] - values[1]) / 2e-4
        np.testing.assert_allclose(gradient if classes == 2 else gradient[:, column], slope, atol=1e-5)


def test_the_curvature_is_the_expected_one():
    """[(a − b)p(1 − p)]²/(m(1 − m)), m = b + (a − b)p, where it is not held up."""
    release = released(np.arange(4000) % 2, 1.0)
    score = np.linspace(-1.5, 1.5, 4000)
    _, curvature = asked(release, score)
    p, a = expit(score), expit(1.0)
    m = (1 - a) + (2 * a - 1) * p
    np.testing.assert_allclose(curvature, ((2 * a - 1) * p * (1 - p)) ** 2 / (m * (1 - m)), rtol=0.01)
    _, clean = asked(released(np.arange(4000) % 2, mechanism=NoPrivacy(2)), score)
    np.testing.assert_allclose(clean, p * (1 - p), rtol=1e-3)


def test_clean_labels_are_plain_logistic_boosting():
    x, y = table()
    params = {**QUIET, "boost_from_average": True}
    ours = boosting.predict_proba(trained(x, released(y, mechanism=NoPrivacy(2)), 30, lambda_l2=0.0), x)
    plain = lightgbm.train({**params, "objective": "binary", "lambda_l2": 0.0}, lightgbm.Dataset(x, y), 30).predict(x)
    assert np.abs(ours[:, 1] - plain).mean() < 0.02  # trees part where splits are nearly equal


@pytest.mark.parametrize("classes", [2, 4])
def test_it_learns_starts_at_the_shares_and_is_saved_whole(classes, tmp_path):
    x, y = table(4000, classes)
    release = released(y, 2.0, classes)
    more = {} if classes == 2 else {"num_class": classes}
    first = boosting.predict_proba(trained(x, release, 1, **more), x)
    np.testing.assert_allclose(first.mean(axis=0), np.bincount(y) / len(y), atol=0.05)
    booster = trained(x, release, 40, **more)
    p = boosting.predict_proba(booster, x)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    shares = np.bincount(y) / len(y)
    assert -np.log(p[np.arange(len(y)), y]).mean() < -np.log(shares[y]).mean() - 0.15
    booster.save_model(tmp_path / "model.txt")
    again = lightgbm.Booster(model_file=tmp_path / "model.txt")
    np.testing.assert_allclose(boosting.predict_proba(again, x), p)


def test_two_classes_grow_one_tree_a_round():
    x, y = table(500)
    assert trained(x, released(y), 5).num_trees() == 5


@pytest.mark.parametrize("classes", [2, 3])
def test_the_metric_is_the_likelihood_and_stops(classes):
    x, y = table(3000, classes)
    release = released(y, 1.0, classes, mechanism=SubsetSelection.calibrated(epsilon=1.0, num_classes=classes))
    data = boosting.dataset(x[:2000], release, np.arange(2000))
    held_out = boosting.dataset(x[2000:], release, np.arange(2000, 3000), reference=data)
    seen = {}
    params = {**QUIET, "objective": boosting.objective(data), **({} if classes == 2 else {"num_class": classes})}
    callbacks = [lightgbm.record_evaluation(seen), lightgbm.early_stopping(5, verbose=False)]
    booster = lightgbm.train(params, data, 200, valid_sets=[held_out], feval=boosting.metric(), callbacks=callbacks)
    assert booster.best_iteration < 200
    scores = booster.predict(x[2000:], raw_score=True)
    expected = likelihood.loss(likelihood.as_logits(scores), release.evidence(np.arange(2000, 3000))).mean()
    assert seen["valid_0"]["released_loss"][booster.best_iteration - 1] == pytest.approx(expected, abs=1e-5)


def test_cross_validation_and_bags_follow_their_rows():
    """Subsets in `lgb.cv` read their own rows: as good as fits of those rows alone, and far from those with other rows."""
    x, y = table(2000)
    release = released(y, 3.0)
    data = boosting.dataset(x, release)
    folds = [(np.arange(1000, 2000), np.arange(1000)), (np.arange(1000), np.arange(1000, 2000))]
    params = {**QUIET, "objective": boosting.objective(data), "bagging_fraction": 0.5, "bagging_freq": 1}
    found = lightgbm.cv(params, data, 15, folds=folds, feval=boosting.metric())
    (losses,) = (value for name, value in found.items() if name.endswith("mean"))
    constant = boosting.mean_loss(np.full(2000, np.log(y.mean() / (1 - y.mean()))), boosting.known(data))
    assert losses[-1] < losses[0] < constant + 0.02
    assert losses[-1] < constant - 0.1
    part = data.subset([5, 3, 8]).subset([0, 2])
    np.testing.assert_array_equal(boosting.known(part).rows, [3, 8])


def test_stratified_cross_validation_by_default():
    x, y = table(400)
    data = boosting.dataset(x, released(y))
    assert lightgbm.cv({**QUIET, "objective": boosting.objective(data)}, data, 3, nfold=2, feval=boosting.metric())


def test_weights_multiply_the_loss():
    x, y = table(2000)
    release = released(y)
    twice = boosting.dataset(np.concatenate((x, x[:500])), release, np.concatenate((np.arange(2000), np.arange(500))))
    weighted = boosting.dataset(x, release, weight=np.where(np.arange(2000) < 500, 2.0, 1.0))
    ours, theirs = (
        boosting.objective(data)(np.ones(len(boosting.known(data).rows)), data)
        for data in (weighted.construct(), twice.construct())
    )
    assert ours[0].sum() == pytest.approx(theirs[0].sum(), rel=1e-3)
    with pytest.raises(InputError, match="one a row"):
        boosting.dataset(x, release, weight=-np.ones(2000))


@pytest.mark.parametrize("kind", ["sparse", "arrow", "pandas", "missing"])
def test_tables_as_lightgbm_takes_them(kind):
    x, y = table(1500)
    x[:, 4] = np.random.default_rng(1).integers(0, 6, len(x))
    y = np.where(x[:, 4] == 3, 1, y)
    release = released(y, 3.0)
    options = {}
    if kind == "sparse":
        given = sparse.csr_matrix(np.where(np.abs(x) < 0.5, 0, x))
    elif kind == "arrow":
        pytest.importorskip("cffi", reason="LightGBM takes Arrow tables with cffi only: pip install lightgbm[arrow]")
        given = pa.table({f"c{column}": x[:, column].astype(np.float64) for column in range(5)})
    elif kind == "pandas":
        pandas = pytest.importorskip("pandas")
        given = pandas.DataFrame({f"c{column}": x[:, column] for column in range(4)})
        given["kind"] = pandas.Categorical(x[:, 4].astype(int).astype(str))
    else:
        given, options = x.copy(), {"categorical_feature": [4]}
        given[::7, 1:] = np.nan
    data = boosting.dataset(given, release, **options)
    booster = lightgbm.train({**QUIET, "objective": boosting.objective(data)}, data, 20)
    p = boosting.predict_proba(booster, given)[:, 1]
    assert p[y == 1].mean() > p[y == 0].mean() + 0.2


def test_what_is_refused():
    x, y = table(300, 3)
    release, two = released(y, 1.0, 3), released(y % 2)
    with pytest.raises(InputError, match="X has 299 rows, and 300"):
        boosting.dataset(x[:299], release)
    with pytest.raises(InputError, match="positions from 0 to 299"):
        boosting.dataset(x, release, np.arange(1, 301))
    with pytest.raises(InputError, match="leave out `label`"):
        boosting.dataset(x, release, label=y)
    with pytest.raises(InputError, match="is a release"):
        boosting.dataset(x, y)
    with pytest.raises(InputError, match="no rows"):
        boosting.dataset(x[:0], release, [])
    data, other = boosting.dataset(x, release), boosting.dataset(x, released(y, 1.0, 3, seed=1))
    with pytest.raises(InputError, match="has 2 classes, and the one of `reference` 3"):
        boosting.dataset(x, two, reference=data)
    with pytest.raises(InputError, match="knows no release"):
        boosting.objective(lightgbm.Dataset(x, y))
    with pytest.raises(InputError, match='add "num_class": 3'):
        lightgbm.train({**QUIET, "objective": boosting.objective(data)}, data, 1)
    with pytest.raises(InputError, match="another release"):
        lightgbm.train({**QUIET, "num_class": 3, "objective": boosting.objective(data)}, other, 1)
    with pytest.raises(InputError, match='leave "num_class" out'):
        boosting.check_scores(np.zeros((300, 2)), 300, 2)
    with pytest.raises(InputError, match="300 rows"):
        boosting.check_scores(np.zeros(299), 300, 2)


def test_an_ordinary_booster_is_refused():
    x, y = table(300)
    for objective in ("binary", "cross_entropy"):
        plain = lightgbm.train({**QUIET, "objective": objective}, lightgbm.Dataset(x, y), 2)
        with pytest.raises(InputError, match=r"not with boosting\.objective"):
            boosting.predict_proba(plain, x)


def test_additive_noise_too():
    x, y = table(3000, 3)
    release = released(y, 6.0, 3, mechanism=Laplace.calibrated(epsilon=6.0, num_classes=3))
    p = boosting.predict_proba(trained(x, release, 30, num_class=3), x)
    assert (p.argmax(axis=1) == y).mean() > (y == np.bincount(y).argmax()).mean() + 0.05


def test_without_lightgbm_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    x, y = table(10)
    with pytest.raises(ImportError, match=r"labeldp\[lightgbm\]"):
        boosting.dataset(x, released(y))


def test_neither_torch_nor_scikit_learn_is_needed():
    code = """
import sys
sys.modules["sklearn"] = None
from labeldp.estimators import boosting
from labeldp.estimators import boosted, linear
assert "torch" not in sys.modules
try:
    from labeldp.estimators import LabelDPClassifier
except ImportError as error:
    assert "labeldp[sklearn]" in str(error)
else:
    raise SystemExit(1)
"""
    subprocess.run([sys.executable, "-c", code], check=True)

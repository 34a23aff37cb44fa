"""The linear model: its path, its files, and what it is on clean labels."""

import io

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from labeldp.errors import InputError
from labeldp.estimators.linear import LinearModel, LinearRecipe, fit_linear, fit_linear_path, spread, standardized
from labeldp.mechanisms import NoPrivacy
from tests.estimators.releases import released, table


@pytest.mark.parametrize("classes", [2, 3])
def test_clean_labels_are_logistic_regression(classes):
    x, y = table(1000, classes)
    release = released(y, classes=classes, mechanism=NoPrivacy(classes))
    ours = fit_linear(
        x.astype(float), np.arange(1000), release.evidence, classes, inverse=0.1, most=500, tolerance=1e-8
    )
    # W = (−w/2, w/2) has half the square of w: scikit-learn's two-class penalty is twice ours.
    theirs = LogisticRegression(C=0.2 if classes == 2 else 0.1, tol=1e-8).fit(x, y)
    p = np.exp(ours.logits(x))
    np.testing.assert_allclose(p / p.sum(axis=1, keepdims=True), theirs.predict_proba(x), atol=1e-3)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["dense", "sparse", "missing"])
def test_the_path(kind, classes):
    x, y = table(2000, classes)
    x[:, 3] = 1000 + 300 * x[:, 3]
    if kind == "sparse":
        x = sparse.csr_matrix(np.where(np.abs(x) < 0.3, 0, x))
    elif kind == "missing":
        x[::9, 2] = np.nan
    release = released(y, 2.0, classes)
    model = fit_linear_path(x, np.arange(2000), release.evidence, classes, LinearRecipe(folds=3))
    p = model.probabilities(x)
    shares = np.bincount(y) / len(y)
    assert -np.log(p[np.arange(len(y)), y]).mean() < -np.log(shares[y]).mean() - 0.15
    assert model.inverse in [point.inverse for point in model.path]
    least = min(model.path, key=lambda point: point.loss)
    (chosen,) = (point for point in model.path if point.inverse == model.inverse)
    assert chosen.inverse <= least.inverse
    assert chosen.loss <= least.loss + chosen.standard_error
    again = LinearModel.from_bytes(model.to_bytes())
    np.testing.assert_array_equal(again.probabilities(x), p)
    assert again.path == model.path


def test_a_fixed_strength_and_weights():
    x, y = table(2000)
    wrong = np.where(np.arange(2000) < 1000, 1 - y, y)
    weight = (np.arange(2000) >= 1000).astype(float)
    release = released(wrong, 4.0)
    model = fit_linear_path(x, np.arange(2000), release.evidence, 2, LinearRecipe(inverse=0.5), weight=weight)
    assert model.inverse == 0.5
    p = model.probabilities(x)[:, 1]
    assert p[y == 1].mean() > p[y == 0].mean() + 0.2


def test_standardised_by_public_features():
    x = np.random.default_rng(0).normal(3, 5, size=(1000, 2))
    x[:, 1] = 7
    mean, scale = spread(x)
    z = standardized(np.concatenate((x, [[1e6, np.nan]])), mean, scale)
    assert z[:1000, 0].std() == pytest.approx(1)
    assert z[-1].tolist() == [10.0, 0.0]
    assert (z[:1000, 1] == 0).all()


@pytest.mark.parametrize("wrong", [{"inverse": 0}, {"folds": 1}, {"max_iter": 0}, {"tolerance": -1}, {"seed": 1.5}])
def test_recipes_are_checked(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} is a"):
        LinearRecipe(**wrong)
    assert LinearRecipe(seed=3).to_json()["seed"] == 3


def test_input_is_checked():
    x, y = table(100)
    release = released(y)
    with pytest.raises(InputError, match="one row for each of the 100"):
        fit_linear_path(x[:50], np.arange(100), release.evidence, 2)
    with pytest.raises(InputError, match="weights are 100"):
        fit_linear_path(x, np.arange(100), release.evidence, 2, weight=np.zeros(100))
    model = fit_linear_path(x, np.arange(100), release.evidence, 2, LinearRecipe(inverse=1.0))
    with pytest.raises(InputError, match="fitted on 5 columns"):
        model.probabilities(x[:, :3])


def test_damaged_files_are_refused():
    x, y = table(100)
    content = fit_linear_path(x, np.arange(100), released(y).evidence, 2, LinearRecipe(inverse=1.0)).to_bytes()
    file = io.BytesIO()
    np.savez_compressed(file, **np.load(io.BytesIO(content)))
    pickled = io.BytesIO()
    np.savez(pickled, weights=np.array([{}], dtype=object), said=np.zeros(3, np.uint8))
    for raw in (b"", b"PK", content[:-30], content[:100], file.getvalue(), pickled.getvalue()):
        with pytest.raises(InputError, match="damaged"):
            LinearModel.from_bytes(raw)
    with np.load(io.BytesIO(content)) as read:
        arrays = dict(read)
    for change in (
        {"weights": arrays["weights"][:, :1]}, {"bias": np.zeros(3)}, {"mean": np.zeros(2)}, {"scale": np.full(5, np.nan)},
        {"weights": arrays["weights"].astype(np.float32)}, {"more": np.zeros(1)}, {"said": np.zeros(2, np.uint8)},
    ):  # fmt: skip
        file = io.BytesIO()
        np.savez(file, **{**arrays, **change})
        with pytest.raises(InputError, match="damaged"):
            LinearModel.from_bytes(file.getvalue())

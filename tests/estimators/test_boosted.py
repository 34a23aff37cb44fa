"""Boosted trees of our own: recipes, fits, and files."""

import json
import sys

import numpy as np
import pytest

from labeldp.errors import InputError
from labeldp.estimators.boosted import BoostedTrees, BoostingRecipe, fit_boosted, recipe_for
from labeldp.mechanisms import RandomizedResponse, SubsetSelection
from tests.estimators.releases import released, table

QUICK = BoostingRecipe(rounds=30, bags=3, rate=0.2)


def fitted(classes=2, rows=2000, recipe=QUICK, epsilon=2.0, **more):
    x, y = table(rows, classes)
    return x, y, fit_boosted(x, np.arange(rows), released(y, epsilon, classes), recipe, threads=1, **more)


@pytest.mark.parametrize("classes", [2, 4])
def test_it_learns_and_survives_its_file(classes):
    x, y, model = fitted(classes)
    p = model.probabilities(x)
    assert p.dtype == np.float32
    assert p.shape == (len(x), classes)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    shares = np.bincount(y) / len(y)
    np.testing.assert_allclose(model.class_shares, shares, atol=0.06)
    assert -np.log(p[np.arange(len(y)), y]).mean() < -np.log(shares[y]).mean() - 0.15
    assert model.history[model.rounds] == min(model.history)
    again = BoostedTrees.from_bytes(model.to_bytes())
    np.testing.assert_array_equal(again.probabilities(x), p)
    assert again.recipe == model.recipe
    assert model.importance().sum() == pytest.approx(1)


def test_the_seed_decides():
    one, other = (fitted(rows=800)[2].to_bytes() for _ in range(2))
    assert one == other


def test_rows_are_positions():
    x, y = table(2000)
    release, order = released(y, 2.0), np.random.default_rng(0).permutation(2000)[:1500]
    model = fit_boosted(x[order], order, release, QUICK, threads=1)
    p = model.probabilities(x)[:, 1]
    assert p[y == 1].mean() > p[y == 0].mean() + 0.2


def test_nothing_to_learn_gives_the_shares():
    y = (np.arange(600) % 4 == 0).astype(int)
    model = fit_boosted(np.zeros((600, 2)), np.arange(600), released(y, 2.0), QUICK, threads=1)
    p = BoostedTrees.from_bytes(model.to_bytes()).probabilities(np.ones((3, 2)))
    assert model.rounds == 0
    np.testing.assert_allclose(p[:, 1], 0.25, atol=0.12)


@pytest.mark.parametrize("count", [6, 60])
def test_categories_few_and_many_missing_and_unseen(count):
    generator = np.random.default_rng(0)
    kind = generator.choice(count, size=4000, p=np.arange(1, count + 1) / np.arange(1, count + 1).sum())
    y = (generator.random(4000) < np.where(kind > count / 2, 0.9, 0.1)).astype(int)
    x = np.stack((kind, generator.normal(size=4000)), axis=1).astype(np.float32)
    x[::50, 0] = np.nan
    model = fit_boosted(x, np.arange(4000), released(y, 3.0), QUICK, categorical=(0,), threads=1)
    assert set(model.orders) == ({0} if count > 30 else set())
    model = BoostedTrees.from_bytes(model.to_bytes())
    p = model.probabilities(np.array([[0, 0], [count - 1, 0], [count + 7, 0], [np.nan, 0]], dtype=np.float32))[:, 1]
    assert p[0] < 0.35 < 0.65 < p[1]
    assert np.isfinite(p).all()


def test_weights_that_are_zero_count_for_nothing():
    x, y = table(2000)
    wrong = np.where(np.arange(2000) < 1000, 1 - y, y)
    weight = (np.arange(2000) >= 1000).astype(float)
    model = fit_boosted(x, np.arange(2000), released(wrong, 4.0), QUICK, weight=weight, threads=1)
    p = model.probabilities(x)[:, 1]
    assert p[y == 1].mean() > p[y == 0].mean() + 0.2


def test_progress_is_told():
    said = []
    _, _, model = fitted(rows=600, progress=said.append)
    assert [one["round"] for one in said] == list(range(len(model.history)))
    assert said[-1]["best_round"] == model.rounds


def test_recipes_follow_from_what_is_told():
    little, much = (
        recipe_for(RandomizedResponse.calibrated(epsilon=epsilon, num_classes=2), 30_000, 20, shares=[0.9, 0.1])
        for epsilon in (0.5, 4.0)
    )
    assert little.leaves < much.leaves
    assert None not in little.to_json().values()
    assert BoostingRecipe.from_json(json.loads(json.dumps(little.to_json()))) == little
    kept = recipe_for(SubsetSelection.calibrated(epsilon=1, num_classes=5), 10, 2, given=BoostingRecipe(leaves=3))
    assert kept.leaves == 3


@pytest.mark.parametrize(
    "wrong", [{"leaves": 1}, {"rate": 0}, {"bags": 1}, {"rounds": 2.5}, {"seed": None}, {"penalty": -1}, {"rate": True}]
)
def test_recipes_are_checked(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} is a"):
        BoostingRecipe(**wrong)


def test_features_are_checked():
    x, y = table(100)
    release = released(y)
    for given, rows, categorical, match in (
        (x[:50], np.arange(100), (), "50 rows of features, and 100"),
        (x[:, 0], np.arange(100), (), "a table of numbers"),
        (x.astype(str), np.arange(100), (), "a table of numbers"),
        (np.where(x > 1, np.inf, x), np.arange(100), (), "infinite"),
        (x, np.arange(100) + 1, (), "positions from 0"),
        (x, np.arange(100), (5,), "from 0 to 4"),
        (x[:5], np.arange(5), (), "too few for"),
    ):
        with pytest.raises(InputError, match=match):
            fit_boosted(given, rows, release, categorical=categorical)
    model = fitted(rows=300)[2]
    with pytest.raises(InputError, match="trained on 5 columns"):
        model.probabilities(x[:, :4])


def test_damaged_files_are_refused():
    content = json.loads(fitted(rows=600)[2].to_bytes())
    changes = [
        {"format": "x"}, {"class_shares": [1.0]}, {"class_shares": [0.5, 0.6]}, {"bias": [0.0]}, {"slope": -1.0}, {"slope": None},
        {"rounds": content["rounds"] + 1}, {"rounds": True}, {"num_features": 4}, {"models": []}, {"models": ["tree"]},
        {"models": [content["models"][0][:-40]]}, {"orders": {"9": [1.0]}}, {"orders": {"a": [1.0]}}, {"history": [None]},
        {"recipe": {"leaves": 1}}, {"recipe": {"colour": 1}}, {"rounds": 0},
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(InputError):
            BoostedTrees.from_bytes(json.dumps({**content, **change}).encode())
    for raw in (b"", b"{", b"[]", b"\xff", b"[" * 100_000):
        with pytest.raises(InputError, match="damaged"):
            BoostedTrees.from_bytes(raw)


def test_without_lightgbm_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    x, y = table(10)
    with pytest.raises(ImportError, match=r"labeldp\[lightgbm\]"):
        fit_boosted(x, np.arange(10), released(y))

"""Texts of trees: what LightGBM writes is read, what would lead its reader astray is not."""

import re

import lightgbm
import numpy as np
import pytest

from labeldp.estimators.trees import check_trees, only_trees


@pytest.fixture(scope="module")
def text():
    generator = np.random.default_rng(0)
    x = generator.normal(size=(500, 3))
    x[:, 2] = generator.integers(0, 8, 500)
    data = lightgbm.Dataset(x, (x[:, 2] % 3 == 0) + x[:, 0], categorical_feature=[2])
    params = {"verbosity": -1, "num_threads": 1, "num_leaves": 5, "min_data_per_group": 5}
    return only_trees(lightgbm.train(params, data, 3).model_to_string().replace("objective=regression\n", ""))


def changed(text, name, value, tree=1):
    """With one line of a tree replaced, and its stated size with it."""
    sizes = [int(size) for size in re.search("tree_sizes=(.*)", text)[1].split()]
    head, body = text.split("\n\n", 1)
    start = sum(sizes[:tree])
    block = re.sub(rf"(?m)^{name}=.*$", f"{name}={value}", body[start : start + sizes[tree]])
    body = body[:start] + block + body[start + sizes[tree] :]
    sizes[tree] = len(block)
    return re.sub("tree_sizes=.*", f"tree_sizes={' '.join(map(str, sizes))}", head) + "\n\n" + body


def test_what_lightgbm_writes_is_read(text):
    check_trees(text, 3, 1, 3)
    assert lightgbm.Booster(model_str=text).num_trees() == 3
    check_trees(changed(text, "shrinkage", "0.5"), 3, 1, 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("left_child", "0 -2 -3 -4"), ("left_child", "9 -2 -3 -4"), ("right_child", "-99 -2 -3 -4"), ("split_feature", "0 0 0 3"),
        ("split_feature", "0 0 -1 0"), ("leaf_value", "1 2"), ("leaf_value", "nan 1 1 1 1"), ("num_leaves", "6"), ("num_leaves", "0"),
        ("threshold", "1e9 1e9 1e9 1e9"), ("decision_type", "1 1 1 16"), ("is_linear", "1"), ("cat_boundaries", "0 999"),
        ("cat_threshold", "1 2 3 4 5 6 7 8 9"), ("num_cat", "100000"), ("num_cat", "-1"), ("Tree", "7"),
    ],
)  # fmt: skip
def test_what_leads_astray_is_not(text, name, value):
    with pytest.raises((ValueError, LookupError)):
        check_trees(changed(text, name, value), 3, 1, 3)


def test_other_shapes(text):
    for features, per_round, rounds in ((2, 1, 3), (3, 2, 3), (3, 1, 2)):
        with pytest.raises(ValueError):
            check_trees(text, features, per_round, rounds)
    for other in (
        "",
        text[:-3],
        text.replace("tree_sizes=", "tree_sizes=1 "),
        text.replace("version=v4", "version=v9"),
        7,
    ):
        with pytest.raises((ValueError, LookupError)):
            check_trees(other, 3, 1, 3)

"""A model text whose numbers Python and LightGBM read differently never reaches LightGBM."""

import json
import re

import numpy as np
import pytest

pytest.importorskip("lightgbm")

import labeldp
from labeldp.errors import InputError
from labeldp.estimators.boosted import BoostedTrees, BoostingRecipe, fit_boosted


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3)).astype(np.float32)
    labels = (x[:, 0] * x[:, 1] > 0).astype(int)
    release = labeldp.RandomizedResponse.calibrated(epsilon=4.0, num_classes=2).release(
        labels,
        data_set="d",
        ids=np.arange(400),
        ledger=tmp_path_factory.mktemp("l") / "l",
        entropy=labeldp.SeededEntropy(0),
    )
    return fit_boosted(x, np.arange(400), release, BoostingRecipe(rounds=3), threads=1).to_bytes()


def resized(text):
    """With the sizes of its trees stated anew."""
    head, _, rest = text.partition("\n\n")
    trees = re.split(r"(?=Tree=)", rest[: -len("end of trees\n\n")])[1:]
    return re.sub(r"tree_sizes=.*", "tree_sizes=" + " ".join(str(len(one)) for one in trees), head) + "\n\n" + rest


@pytest.mark.parametrize(
    "spelt", ["{}00000000e-8", "{}e0", "0_{}", "+{}", "0{}", "\t{}", "{}.0", "{}\t", "0x{}", "{}\u0661"]
)
@pytest.mark.parametrize(
    "field", ["split_feature", "left_child", "right_child", "num_leaves", "num_cat", "decision_type", "leaf_count"]
)
def test_other_spellings_of_whole_numbers_are_refused(content, field, spelt):
    model = json.loads(content)
    text = model["models"][0]
    said = re.search(rf"^{field}=(.*)$", text, re.M)
    assert said is not None
    words = said[1].split(" ")
    forged = text.replace(said[0], f"{field}=" + " ".join([spelt.format(words[0]), *words[1:]]), 1)
    model["models"][0] = resized(forged)
    with pytest.raises(InputError, match="damaged"):
        BoostedTrees.from_bytes(json.dumps(model).encode())


def test_a_name_that_would_be_trimmed_is_refused(content):
    model = json.loads(content)
    model["models"][0] = resized(model["models"][0].replace("num_cat=0\n", "num_cat=0\nnum_leaves =9\n", 1))
    with pytest.raises(InputError, match="damaged"):
        BoostedTrees.from_bytes(json.dumps(model).encode())


def test_the_original_is_taken(content):
    assert BoostedTrees.from_bytes(content).to_bytes() == content

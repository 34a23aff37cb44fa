"""LightGBM's model texts, checked before LightGBM reads them: its reader follows whatever a tree says, to wherever it points."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

_END = "end of trees\n\n"
_MOST_LEAVES = 1 << 16
_MOST_CATEGORIES = 1 << 24
_MISSING = 0b1100  # how a split treats missing values
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"-?[0-9]{1,25}(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?")
_OF_A_TREE = {
    "Tree", "num_leaves", "num_cat", "split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child",
    "leaf_value", "leaf_weight", "leaf_count", "internal_value", "internal_weight", "internal_count", "cat_boundaries",
    "cat_threshold", "is_linear", "shrinkage",
}  # fmt: skip


def only_trees(text: str) -> str:
    """Without what follows the trees: parameters, which a prediction does not need."""
    return text[: text.index(_END)] + _END


def check_trees(text: str, num_features: int, per_round: int, rounds: int) -> None:
    """ValueError unless this is a text of so many whole trees, each of which ends, on columns that there are."""
    if not isinstance(text, str) or not text.isascii() or not text.endswith(_END) or "\r" in text:
        raise ValueError
    head, _, rest = text[: -len(_END)].partition("\n\n")
    stated = _lines(head.removeprefix("tree\n"))
    wanted = {
        "version": "v4", "num_class": str(per_round), "num_tree_per_iteration": str(per_round), "label_index": "0",
        "max_feature_idx": str(num_features - 1),
    }  # fmt: skip
    if any(stated.get(name) != value for name, value in wanted.items()):
        raise ValueError
    if set(stated) != {*wanted, "feature_names", "feature_infos", "tree_sizes"} or not head.startswith("tree\n"):
        raise ValueError
    if any(len(stated[name].split(" ")) != num_features for name in ("feature_names", "feature_infos")):
        raise ValueError
    sizes = _whole(stated["tree_sizes"], per_round * rounds, 1, len(rest))
    if int(sizes.sum()) != len(rest):
        raise ValueError
    place = 0
    for number, size in enumerate(sizes.astype(np.int64).tolist()):
        _check_tree(rest[place : place + size], number, num_features)
        place += size


def _check_tree(text: str, number: int, num_features: int) -> None:
    lines = _lines(text.rstrip("\n"))
    if lines.get("Tree") != str(number) or lines.get("is_linear") != "0" or not text.endswith("\n\n\n"):
        raise ValueError
    if not set(lines) <= _OF_A_TREE:  # LightGBM trims names: `num_leaves ` would be another num_leaves
        raise ValueError
    leaves = int(_whole(lines["num_leaves"], 1, 1, _MOST_LEAVES)[0])
    categories = int(_whole(lines["num_cat"], 1, 0, _MOST_LEAVES)[0])
    _numbers(lines["leaf_value"], leaves)
    _numbers(lines["shrinkage"], 1)
    nodes = leaves - 1
    if not nodes:
        return
    _whole(lines["split_feature"], nodes, 0, num_features - 1)
    kind = _whole(lines["decision_type"], nodes, 0, 15).astype(np.int64)
    threshold = _numbers(lines["threshold"], nodes)
    for name, count in (
        ("split_gain", nodes),
        ("internal_value", nodes),
        ("leaf_weight", leaves),
        ("internal_weight", nodes),
    ):
        _numbers(lines[name], count)
    for name, count in (("leaf_count", leaves), ("internal_count", nodes)):
        _whole(lines[name], count, 0, 2**31 - 1)
    if (kind & _MISSING == _MISSING).any():
        raise ValueError
    # Every node but the first, and every leaf, has one parent, which comes before it: so each walk ends.
    children = np.concatenate(
        [_whole(lines[side], nodes, -leaves, nodes - 1) for side in ("left_child", "right_child")]
    )
    parents = np.tile(np.arange(nodes), 2)
    inner = children >= 0
    if sorted(children.tolist()) != [*range(-leaves, 0), *range(1, nodes)] or (children[inner] <= parents[inner]).any():
        raise ValueError
    by_category = (kind & 1).astype(bool)
    if not categories:
        if by_category.any():
            raise ValueError
        return
    bounds = _whole(lines["cat_boundaries"], categories + 1, 0, _MOST_CATEGORIES)
    if bounds[0] != 0 or (np.diff(bounds) <= 0).any():
        raise ValueError
    _whole(lines["cat_threshold"], int(bounds[-1]), 0, 2**32 - 1)
    chosen = threshold[by_category]
    if (chosen != np.floor(chosen)).any() or (chosen < 0).any() or (chosen >= categories).any():
        raise ValueError


def _lines(text: str) -> dict[str, str]:
    pairs = [line.split("=", 1) for line in text.split("\n")]
    found = {pair[0]: pair[1] for pair in pairs}  # a line without "=" is an IndexError
    if len(found) != len(pairs):
        raise ValueError
    return found


def _numbers(text: str, count: int, spelling: re.Pattern[str] = _DECIMAL) -> Numbers:
    """Spelt as LightGBM spells them: 100000000e-8 is 1 to Python, and a hundred million to LightGBM, which stops at the letter."""
    words = text.split(" ") if text else []
    if not all(spelling.fullmatch(word) for word in words):
        raise ValueError
    values = np.array([float(word) for word in words], dtype=np.float64)
    if values.shape != (count,) or not np.isfinite(values).all():
        raise ValueError
    return values


def _whole(text: str, count: int, low: int, high: int) -> Numbers:
    values = _numbers(text, count, _INTEGER)
    if (values < low).any() or (values > high).any():
        raise ValueError
    return values

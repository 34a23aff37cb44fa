"""Linear teachers: the batched solve against one that does nothing clever, and what the privacy proof needs of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.errors import InputError
from labeldp.pate import linear
from labeldp.pate.linear import teacher_predictions, teacher_votes

Array = npt.NDArray[Any]


def naive(features: Array, rows: Array, codes: Array, queries: Array, classes: int, ridge: float) -> Array:
    """One teacher, in the primal, from the definition."""
    x, y = features[rows].astype(np.float64), np.eye(classes)[codes]
    a, b = x - x.mean(axis=0), y - y.mean(axis=0)
    strength = max(ridge * np.trace(a @ a.T) / len(rows), 1e-12)
    weights = np.linalg.solve(a.T @ a + strength * np.eye(a.shape[1]), a.T @ b)
    scores = (features[queries] - x.mean(axis=0)) @ weights + y.mean(axis=0)
    scores[:, y.sum(axis=0) == 0] = -np.inf
    return np.asarray(scores.argmax(axis=1))


def material(rows: int, width: int, classes: int, seed: int = 0) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, classes, rows)
    features = generator.normal(size=(classes, width))[codes] + generator.normal(size=(rows, width)) + 5
    return features.astype(np.float32), codes


@pytest.mark.parametrize(("size", "width"), [(12, 40), (40, 12), (20, 20), (1, 5)])
@pytest.mark.parametrize("ridge", [1e-3, 0.1, 3.0])
def test_the_batched_solve_is_each_teachers_own(size: int, width: int, ridge: float) -> None:
    features, codes = material(15 * size + 50, width, 4)
    shards = np.random.default_rng(1).permutation(15 * size).reshape(15, size)
    queries = np.arange(15 * size, 15 * size + 50)
    said = np.concatenate(list(teacher_predictions(features, shards, codes[shards], queries, 4, ridge=ridge)))
    expected = np.stack([naive(features, rows, codes[rows], queries, 4, ridge) for rows in shards])
    np.testing.assert_array_equal(said, expected)
    votes = teacher_votes(features, shards, codes[shards], queries, 4, ridge=ridge)
    np.testing.assert_array_equal(votes, np.stack([(expected == c).sum(axis=0) for c in range(4)], axis=1))


def test_shards_of_different_lengths_are_each_solved_alone() -> None:
    features, codes = material(200, 30, 3)
    shards = np.split(np.random.default_rng(2).permutation(150), [3, 50, 51, 90])
    queries = np.arange(150, 200)
    own = [codes[rows] for rows in shards]
    said = np.concatenate(list(teacher_predictions(features, shards, own, queries, 3, ridge=0.05)))
    np.testing.assert_array_equal(said, [naive(features, rows, codes[rows], queries, 3, 0.05) for rows in shards])


def test_memory_is_bounded_and_the_bound_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    features, codes = material(400, 25, 5)
    shards = np.arange(400).reshape(40, 10)
    queries = np.arange(0, 400, 3)
    whole = list(teacher_predictions(features, shards, codes[shards], queries, 5))
    monkeypatch.setattr(linear, "_NUMBERS", 10_000)
    parts = list(teacher_predictions(features, shards, codes[shards], queries, 5))
    assert len(whole) == 1
    assert len(parts) > 5
    np.testing.assert_array_equal(np.concatenate(parts), whole[0])


def test_each_teacher_votes_once_for_a_class_it_has_seen() -> None:
    features, codes = material(300, 20, 6)
    shards = np.arange(300).reshape(60, 5)  # no shard can have all of 6 classes
    queries = np.arange(300)
    votes = teacher_votes(features, shards, codes[shards], queries, 6)
    assert votes.dtype == np.int64
    assert (votes.sum(axis=1) == 60).all()
    (said,) = teacher_predictions(features, shards, codes[shards], queries, 6)
    for own, labels in zip(said, codes[shards], strict=True):
        assert set(own) <= set(labels)


def test_a_class_that_nobody_has_gets_no_vote_and_no_error() -> None:
    features, codes = material(100, 10, 3)
    votes = teacher_votes(features, np.arange(100).reshape(10, 10), codes.reshape(10, 10), np.arange(100), 7)
    assert votes[:, 3:].sum() == 0


def test_equal_scores_go_to_the_lowest_class() -> None:
    features = np.array([[0.0], [1.0], [0.0], [1.0]], np.float32)
    # Symmetric: at 0.5 classes 1 and 2 are equal; rows that say nothing at all leave the shares, equal as well.
    queries = np.array([4])
    middle = np.concatenate((features, [[0.5]])).astype(np.float32)
    assert teacher_votes(middle, np.array([[0, 1]]), np.array([[2, 1]]), queries, 3).tolist() == [[0, 1, 0]]
    assert teacher_votes(middle, np.array([[0, 2]]), np.array([[2, 1]]), queries, 3).tolist() == [[0, 1, 0]]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 119), st.integers(1, 3), st.sampled_from([(12, 10), (4, 30)]))
def test_one_label_moves_one_teacher(seed: int, place: int, by: int, shape: tuple[int, int]) -> None:
    """What the proof rests on: whichever label changes, only the teacher whose shard holds it may say something else."""
    features, codes = material(180, 16, 4, seed)
    shards = np.random.default_rng(seed).permutation(120).reshape(shape)
    queries = np.arange(120, 180)
    changed = codes[shards].copy()
    changed.flat[place] = (changed.flat[place] + by) % 4
    before = np.concatenate(list(teacher_predictions(features, shards, codes[shards], queries, 4)))
    after = np.concatenate(list(teacher_predictions(features, shards, changed, queries, 4)))
    others = np.arange(len(shards)) != place // shards.shape[1]
    np.testing.assert_array_equal(before[others], after[others])
    moved = teacher_votes(features, shards, changed, queries, 4) - teacher_votes(
        features, shards, codes[shards], queries, 4
    )
    assert np.abs(moved).sum(axis=1).max() <= 2
    assert np.abs(moved).max() <= 1


def test_features_in_other_units_give_the_same_votes() -> None:
    features, codes = material(120, 16, 4)
    shards, queries = np.arange(100).reshape(5, 20), np.arange(100, 120)
    votes = teacher_votes(features, shards, codes[shards], queries, 4)
    np.testing.assert_array_equal(teacher_votes(features * 1000, shards, codes[shards], queries, 4), votes)


def test_rows_that_are_all_alike_leave_the_majority() -> None:
    features = np.ones((9, 4), np.float32)
    assert (
        teacher_votes(features, np.arange(9)[None], np.array([[0, 2, 2, 2, 1, 1, 0, 2, 1]]), np.array([0]), 3)[0, 2]
        == 1
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shards": np.array([[0, 1], [1, 2]])}, "row 1 is in the shards more than once"),
        ({"shards": np.array([[0, 1], [2, 99]])}, "shards must name rows from 0 to 9"),
        ({"shards": np.zeros((0, 2), int), "codes": np.zeros((0, 2), int)}, "more teachers than rows"),
        ({"shards": [np.array([0, 1]), np.array([], int)]}, "more teachers than rows"),
        ({"codes": np.array([[0, 1]])}, "in the shape of the shards"),
        ({"codes": np.array([[0, 1], [1, 7]])}, "row 3 holds a label outside the 3 declared classes"),
        ({"queries": np.array([-1])}, "queries must name rows"),
        ({"queries": np.array([], int)}, "queries must name rows"),
        ({"ridge": 0.0}, "ridge must be a positive number; got 0.0"),
        ({"ridge": float("nan")}, "ridge must be a positive number"),
        ({"num_classes": 1}, "num_classes must be from 2"),
        ({"features": np.zeros((10, 1, 4, 4), np.float32)}, "learn_features"),
        ({"features": np.zeros((10, 3), np.int64)}, "rows of numbers"),
    ],
)
def test_what_is_refused_is_said_and_no_label_with_it(change: dict[str, Any], message: str) -> None:
    call: dict[str, Any] = {
        "features": np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32),
        "shards": np.array([[0, 1], [2, 3]]), "codes": np.array([[0, 1], [1, 2]]), "queries": np.array([5, 6]), "num_classes": 3,
    } | change  # fmt: skip
    with pytest.raises(InputError, match=message):
        teacher_votes(**call)


def test_a_number_that_is_not_finite_is_found() -> None:
    features, codes = material(20, 4, 2)
    features[7, 2] = np.nan
    with pytest.raises(InputError, match="row 7 of the features"):
        teacher_votes(features, np.arange(10).reshape(2, 5), codes[:10].reshape(2, 5), np.array([15]), 2)

"""Boosted trees with our own defaults: bags that each leave out a fold, stopped by the held-out likelihood of what was released."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.estimators import boosting
from labeldp.estimators.likelihood import (
    FOLDS_AT_MOST,
    Calibration,
    Marginal,
    Rows,
    as_logits,
    calibrate,
    folds,
    probabilities,
)
from labeldp.estimators.trees import check_trees, only_trees
from labeldp.mechanisms.base import Mechanism, RowMechanism
from labeldp.release.release import Release

# ----------------------------------------------------------------
# The recipe.

_RANGES: dict[str, tuple[float, float]] = {
    "seed": (0, 2**31 - 1),
    "rounds": (1, 100_000),
    "patience": (1, 100_000),
    "rate": (1e-4, 1.0),
    "leaves": (2, 4096),
    "least_rows": (1, 10**9),
    "least_information": (0.0, 1e9),
    "penalty": (0.0, 1e9),
    "category_penalty": (0.0, 1e9),
    "feature_fraction": (0.01, 1.0),
    "bags": (2, FOLDS_AT_MOST),
}
_WHOLE = ("seed", "rounds", "patience", "leaves", "least_rows", "bags")


@dataclass(frozen=True)
class BoostingRecipe:
    """How to boost; what is None follows from how much the release tells.

    rounds             at most so many; the held-out likelihood says when to stop
    patience           rounds without a better held-out likelihood after which it stops
    rate               the share of a Newton step that a tree takes
    leaves             of a tree
    least_rows         in a leaf
    least_information  in a leaf: its curvature, which is what its rows tell of their score, in clean labels' p(1 − p)
    penalty            ℓ2 on a leaf's value, in the same unit
    category_penalty   the same beside it for splits of categories
    feature_fraction   the share of the columns that a tree sees
    bags               models, each of which leaves out one fold of the rows; their scores are averaged
    """

    seed: int = 0
    rounds: int | None = None
    patience: int | None = None
    rate: float | None = None
    leaves: int | None = None
    least_rows: int | None = None
    least_information: float | None = None
    penalty: float | None = None
    category_penalty: float | None = None
    feature_fraction: float | None = None
    bags: int | None = None

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if value is None and name != "seed":
                continue
            whole = name in _WHOLE
            good = isinstance(value, (int, np.integer) if whole else (int, float, np.integer, np.floating))
            if not good or isinstance(value, bool) or not low <= value <= high:
                raise InputError(
                    f"{name} is a {'whole ' if whole else ''}number from {low:g} to {high:g}; got {value!r}."
                )
            object.__setattr__(self, name, int(value) if whole else float(value))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, given: Any) -> BoostingRecipe:
        """The inverse."""
        if not isinstance(given, Mapping) or not set(given) <= {one.name for one in fields(cls)}:
            raise InputError("this is no recipe of boosted trees.")
        return cls(**given)

    def filled(self, nats: float, num_rows: int, num_features: int) -> BoostingRecipe:
        """With everything that is None chosen. `nats`: what all rows together tell of their labels."""
        told = max(nats, 1.0)
        chosen: dict[str, Any] = {
            "rounds": 2000,
            "patience": 40,
            "rate": 0.05 if told < 5000 else 0.1,
            "leaves": int(np.clip(math.sqrt(told) / 6, 4, 16)),
            "least_rows": int(np.clip(num_rows // 50, 1, 20)),
            "least_information": 1e-3,  # not 0: LightGBM would take a split for one that leaves a side empty
            "penalty": 2.0,
            "category_penalty": 1.0,
            "feature_fraction": 0.5 if num_features >= 4 else 1.0,
            "bags": 5 if num_rows <= 200_000 else 3,
        }
        return replace(self, **{name: value for name, value in chosen.items() if getattr(self, name) is None})

    def parameters(self, num_classes: int) -> dict[str, Any]:
        """As LightGBM calls them."""
        names = {
            "learning_rate": self.rate, "num_leaves": self.leaves, "min_data_in_leaf": self.least_rows,
            "min_sum_hessian_in_leaf": self.least_information, "lambda_l2": self.penalty, "feature_fraction": self.feature_fraction,
            "cat_smooth": self.category_penalty, "cat_l2": self.category_penalty,
        }  # fmt: skip
        some = {name: value for name, value in names.items() if value is not None}
        return {
            **some,
            **({"num_class": num_classes} if num_classes > 2 else {}),
            "seed": self.seed,
            "verbosity": -1,
            "objective": "none",
        }


def recipe_for(
    mechanism: Mechanism, num_rows: int, num_features: int, *, shares: npt.ArrayLike | None = None, given: BoostingRecipe | None = None
) -> BoostingRecipe:  # fmt: skip
    """The recipe for so many rows of such a release. `fit_boosted` does the same with class shares that it estimates."""
    if isinstance(mechanism, RowMechanism):
        nats = mechanism.information(shares)
    else:  # what several parts, or teachers, tell is seen from their rows; here, as if they told half
        nats = math.log(mechanism.num_classes) / 2
    return (given or BoostingRecipe()).filled(nats * num_rows, num_rows, num_features)


# ----------------------------------------------------------------
# The fit.


def fit_boosted(
    x: npt.NDArray[Any],
    rows: Rows,
    release: Release,
    recipe: BoostingRecipe | None = None,
    *,
    categorical: tuple[int, ...] = (),
    weight: npt.ArrayLike | None = None,
    threads: int | None = None,
    progress: Callable[[dict[str, Any]], None] = lambda said: None,
) -> BoostedTrees:
    """Boosted trees for x[i] at position rows[i] of the release.

    categorical  columns of x that hold codes 0, 1, 2 … of categories; NaN is a missing value, there and elsewhere. Up to 30 of a column
                 are split as sets, more by how common they are
    weight       public weights, one a row
    progress     is told {"round", "held_out_loss", "best_round"} after every round
    """
    lightgbm = boosting.lightgbm()
    x, of, given = _checked(x, rows, release, categorical, weight)
    orders = {column: _by_count(x[:, column]) for column in categorical}
    orders = {column: order for column, order in orders.items() if len(order) > MANY}
    x, native = _ordered(x, orders), [column for column in categorical if column not in orders]
    start, classes = of.start, of.num_classes
    given_recipe = recipe or BoostingRecipe()
    recipe = given_recipe.filled(start.nats * len(of.rows), *x.shape)
    assert recipe.bags is not None
    assert recipe.rate is not None
    assert recipe.leaves is not None
    parameters = {
        **recipe.parameters(classes),
        "objective": "none",
        **({} if threads is None else {"num_threads": threads}),
    }
    fold = folds(len(of.rows), recipe.bags, recipe.seed)
    whole = boosting.dataset(
        x, release, of.rows, weight=given, params={**parameters, "feature_pre_filter": False},
        categorical_feature=native or "auto", free_raw_data=True,
    )  # fmt: skip
    first = _first_scores(start, len(fold))
    whole.set_init_score(first)
    whole.construct()
    if not (x != x[0]).any():  # NaN differs from itself
        # LightGBM refuses a table that says nothing.
        nothing = (boosting.mean_loss(first, of, given),)
        grown = _Grown(("",) * recipe.bags, 0, nothing, first.astype(np.float32), recipe)
    else:
        grown = _grow(lightgbm, parameters, whole, fold, recipe, start, progress)
        # Best after a few rounds means that each took too much.
        while (
            given_recipe.rate is None and given_recipe.leaves is None and grown.rounds < _HASTY and recipe.rate > 0.02
        ):
            recipe = replace(recipe, rate=recipe.rate / 2, leaves=max(2, recipe.leaves // 2))
            slower = _grow(lightgbm, {**parameters, **recipe.parameters(classes)}, whole, fold, recipe, start, progress)
            grown = min(grown, slower, key=lambda one: one.history[one.rounds])
    correction = calibrate(_centred(as_logits(grown.held_out)), release.evidence, of.rows, given)
    return BoostedTrees(
        models=grown.models,
        num_features=x.shape[1],
        orders=orders,
        class_shares=start.shares,
        calibration=correction,
        rounds=grown.rounds,
        history=grown.history,
        recipe=grown.recipe,
    )


_HASTY = 25


@dataclass(frozen=True)
class _Grown:
    """Bags of trees, and the scores of each row from the bag that left it out."""

    models: tuple[str, ...]
    rounds: int
    history: tuple[float, ...]
    held_out: npt.NDArray[np.float32]
    recipe: BoostingRecipe


def _grow(
    lightgbm: Any, parameters: dict[str, Any], whole: Any, fold: npt.NDArray[np.int64], recipe: BoostingRecipe, start: Marginal,
    progress: Callable[[dict[str, Any]], None],
) -> _Grown:  # fmt: skip
    """All bags, round by round, until the sum of their held-out losses has not improved for a while."""
    assert recipe.bags is not None
    assert recipe.rounds is not None
    assert recipe.patience is not None
    bags = [_Bag(lightgbm, parameters, whole, fold, number, start) for number in range(recipe.bags)]
    weight = whole.get_weight()
    total = len(fold) if weight is None else float(weight.sum(dtype=np.float64))
    held_out = np.empty(_shape(len(fold), len(start.shares)), dtype=np.float32)
    history: list[float] = []
    best = 0
    for bag in bags:
        bag.look()
    while True:
        history.append(sum(bag.loss for bag in bags) / total)
        done = len(history) - 1
        if done == 0 or history[-1] < history[best]:
            best = done
            for bag in bags:
                held_out[bag.left_out] = bag.scores
        progress({"round": done, "held_out_loss": history[-1], "best_round": best})
        if done - best >= recipe.patience or done == recipe.rounds:
            break
        split = [bag.boost() for bag in bags]
        if not any(split):
            break
    models = tuple(only_trees(bag.booster.model_to_string(num_iteration=best)) if best else "" for bag in bags)
    return _Grown(models, best, tuple(history), held_out, recipe)


MANY = 30  # categories; trees that may gather any of more than these gather noise


def _by_count(column: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The codes of a column, the commonest first."""
    codes, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    return codes[np.argsort(-counts, kind="stable")]


def _ordered(x: npt.NDArray[np.float32], orders: Mapping[int, npt.NDArray[np.float32]]) -> npt.NDArray[np.float32]:
    """Columns of many categories by how common a category is: 0 the commonest, unseen ones last. A split is then a cut in that order."""
    if not orders:
        return x
    x = x.copy()
    for column, order in orders.items():
        there = ~np.isnan(x[:, column])
        codes, sorter = x[there, column], np.argsort(order)
        place = np.minimum(np.searchsorted(order, codes, sorter=sorter), len(order) - 1)
        x[there, column] = np.where(order[sorter[place]] == codes, sorter[place], len(order))
    return x


def _shape(count: int, classes: int) -> tuple[int, ...]:
    return (count,) if classes == 2 else (count, classes)


def _first_scores(start: Marginal, count: int) -> npt.NDArray[np.float64]:
    """The class shares, as scores."""
    logits = start.logits
    if len(logits) == 2:
        return np.full(count, logits[1] - logits[0])
    return np.asfortranarray(np.broadcast_to(logits - logits.mean(), (count, len(logits))))


def _centred(logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A slope turns about 0, so the classes' logits add up to 0."""
    return np.asarray(logits - logits.mean(axis=1, keepdims=True))


def _checked(
    x: Any, rows: Any, release: Release, categorical: tuple[int, ...], weight: Any
) -> tuple[npt.NDArray[np.float32], boosting.Known, npt.NDArray[np.float64] | None]:
    values = np.asarray(x)
    if values.ndim != 2 or values.dtype.kind not in "fiub" or values.shape[1] == 0:
        raise InputError(
            "features are a table of numbers, one row a released row; codes for categories, NaN for what is missing."
        )
    if np.isinf(values).any():
        raise InputError("some features are infinite; NaN stands for what is missing.")
    if any(not 0 <= column < values.shape[1] for column in categorical):
        raise InputError(f"categorical columns are numbers from 0 to {values.shape[1] - 1}.")
    positions = release.target(rows)[:, 1]
    if len(positions) != len(values):
        raise InputError(f"there are {len(values):,} rows of features, and {len(positions):,} released ones are named.")
    given = None if weight is None else boosting.checked_weights(weight, len(values))
    return np.ascontiguousarray(values, dtype=np.float32), boosting.Known(release, positions), given


class _Bag:
    """One booster, and the fold that it leaves out."""

    def __init__(
        self, lightgbm: Any, parameters: dict[str, Any], whole: Any, fold: Any, number: int, start: Marginal
    ) -> None:
        self.left_out = np.flatnonzero(fold == number)
        learned = whole.subset(np.flatnonzero(fold != number))
        of = boosting.known(learned)
        of.__dict__["start"] = start  # of all rows: shares are no secret of a fold
        self._objective = boosting.Objective(of)
        self.booster = lightgbm.Booster({**parameters, "seed": parameters["seed"] + number}, learned)
        self.booster.add_valid(whole.subset(self.left_out), "held out")
        self.loss, self.scores = 0.0, np.empty(0)

    def boost(self) -> bool:
        """One more round; False if no tree split."""
        try:
            stuck = self.booster.update(fobj=self._objective)
        except boosting.lightgbm().basic.LightGBMError as error:  # it has seen no label that it could quote
            raise InputError(
                f"LightGBM could not grow a tree from these rows: {error}. More rows in a leaf may help."
            ) from None
        self.look()
        return not stuck

    def look(self) -> None:
        """At the fold left out: the sum of its losses, and its scores."""
        self.booster.eval_valid(feval=self._see)

    def _see(self, scores: npt.NDArray[np.float64], data: Any) -> tuple[str, float, bool]:
        weight = data.get_weight()
        mean = boosting.mean_loss(scores, boosting.known(data), weight)
        self.loss, self.scores = mean * (len(self.left_out) if weight is None else float(weight.sum())), scores
        return "loss", mean, False


# ----------------------------------------------------------------
# What it becomes.

_FORMAT = "labeldp boosted trees 1"
_LARGEST = 1 << 30  # bytes of a file


@dataclass(frozen=True)
class BoostedTrees:
    """p(label | x): the bags' scores averaged, added to the class shares', calibrated.

    `history` is the held-out loss, −log p(what was released) a row, after 0, 1, 2 … rounds; `rounds` of them are kept, in every bag.
    """

    models: tuple[str, ...]  # LightGBM's own texts
    num_features: int
    orders: dict[int, npt.NDArray[np.float32]]  # of columns with many categories: their codes, the commonest first
    class_shares: npt.NDArray[np.float64]
    calibration: Calibration
    rounds: int
    history: tuple[float, ...]
    recipe: BoostingRecipe

    @property
    def num_classes(self) -> int:
        """As released."""
        return len(self.class_shares)

    @cached_property
    def _boosters(self) -> list[Any]:
        lightgbm = boosting.lightgbm()
        return [lightgbm.Booster(model_str=text) for text in self.models if text]

    def logits(self, x: npt.NDArray[Any], *, threads: int | None = None) -> npt.NDArray[np.float64]:
        """(n, C), whose softmax are the probabilities."""
        values = np.ascontiguousarray(x, dtype=np.float32)
        if values.ndim != 2 or values.shape[1] != self.num_features:
            raise InputError(
                f"these trees were trained on {self.num_features} columns; got a table of shape {values.shape}."
            )
        values = _ordered(values, self.orders)
        scores = np.zeros(_shape(len(values), self.num_classes))
        options = {} if threads is None else {"num_threads": threads}
        for booster in self._boosters if len(values) else []:
            scores += booster.predict(values, raw_score=True, **options) / len(self._boosters)
        shares = np.log(self.class_shares)
        return np.asarray(self.calibration(_centred(as_logits(scores) + shares)), dtype=np.float64)

    def probabilities(self, x: npt.NDArray[Any], *, threads: int | None = None) -> npt.NDArray[np.float32]:
        """Of every class, (n, C)."""
        return probabilities(self.logits(x, threads=threads)).astype(np.float32)

    def importance(self) -> npt.NDArray[np.float64]:
        """How much each column's splits gained, as shares."""
        gains = np.zeros(self.num_features)
        for booster in self._boosters:
            gains += booster.feature_importance("gain")
        return gains / gains.sum() if gains.any() else gains

    def to_bytes(self) -> bytes:
        """One self-contained file: JSON."""
        content = {
            "format": _FORMAT,
            "num_features": self.num_features,
            "orders": {str(column): order.tolist() for column, order in self.orders.items()},
            "class_shares": self.class_shares.tolist(),
            "slope": self.calibration.slope,
            "bias": self.calibration.bias.tolist(),
            "rounds": self.rounds,
            "history": list(self.history),
            "recipe": self.recipe.to_json(),
            "models": list(self.models),
        }
        return json.dumps(content).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> BoostedTrees:
        """The inverse, perhaps of another party's file: every tree is checked before LightGBM reads it."""
        try:
            if len(content) > _LARGEST:
                raise ValueError
            read = json.loads(content)
            if read["format"] != _FORMAT:
                raise ValueError
            shares, bias = _numbers(read["class_shares"]), _numbers(read["bias"])
            features, rounds, slope, models = read["num_features"], read["rounds"], read["slope"], read["models"]
            whole = all(type(number) is int for number in (features, rounds))
            if not whole or not 1 <= features <= 10**6 or not 0 <= rounds <= _RANGES["rounds"][1]:
                raise ValueError
            if len(shares) < 2 or len(bias) != len(shares) or (shares <= 0).any() or not abs(shares.sum() - 1) < 1e-6:
                raise ValueError
            if not isinstance(slope, float) or not 0 < slope < 1e3 or not 1 <= len(models) <= FOLDS_AT_MOST:
                raise ValueError
            for text in models if rounds else ():
                check_trees(text, features, 1 if len(shares) == 2 else len(shares), rounds)
            if not rounds and any(models):
                raise ValueError
            orders = {int(column): _numbers(order).astype(np.float32) for column, order in read["orders"].items()}
            if any(not 0 <= column < features or not len(order) for column, order in orders.items()):
                raise ValueError
            history = tuple(_numbers(read["history"]).tolist())
            recipe = BoostingRecipe.from_json(read["recipe"])
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
            raise InputError("this is no model of boosted trees, or it is damaged: train it again.") from None
        return cls(tuple(models), features, orders, shares, Calibration(slope, bias), rounds, history, recipe)


def _numbers(values: Any) -> npt.NDArray[np.float64]:
    if not isinstance(values, list) or any(type(value) not in (int, float) for value in values):
        raise ValueError
    numbers = np.array(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError
    return numbers

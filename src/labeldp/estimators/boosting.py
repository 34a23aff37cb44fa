"""LightGBM on the likelihood of what was released, for whoever has their own LightGBM code:

    data = boosting.dataset(X, release, rows)
    booster = lightgbm.train(params | {"objective": boosting.objective(data)}, data, feval=boosting.metric())
    boosting.predict_proba(booster, X_new)

with `params` as LightGBM has them; where a release tells little they should hold back, as those of
`labeldp.estimators.boosted.recipe_for(release.mechanism, num_rows, num_features).parameters(num_classes)` do.

The loss of a row is −log Σ_c p_c(x) e^{evidence_c}. With the posterior q ∝ p·e^evidence its gradient in the scores is p − q. No row is
copied, for however many classes. Two classes have one score, the log-odds of the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.estimators.likelihood import CHUNK, Marginal, Rows, loss, pieces, probabilities, start_of
from labeldp.release.release import Release

Gradients = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]


def lightgbm() -> Any:
    """The library, or a sentence that says how to get it."""
    try:
        import lightgbm
    except ImportError as error:
        raise ImportError('boosted trees need LightGBM: pip install "labeldp[lightgbm]"') from error
    return lightgbm


# ----------------------------------------------------------------
# What a data set knows.


@dataclass(frozen=True)
class Known:
    """Which released rows a data set's rows are. LightGBM's own fields could not say: their float32 ends at row 2^24."""

    release: Release
    rows: Rows

    @property
    def num_classes(self) -> int:
        """As the release declares."""
        return self.release.mechanism.num_classes

    def evidence(self, part: slice) -> npt.NDArray[np.float32]:
        """log p(observation | class) of some of its rows."""
        return self.release.evidence(self.rows[part])

    @cached_property
    def odds(self) -> npt.NDArray[np.float32]:
        """Of two classes: evidence for the second, less that for the first; ±60 where the label is known."""
        odds = np.empty(len(self.rows), dtype=np.float32)
        for part in pieces(len(self.rows), 2):
            evidence = self.evidence(part)
            odds[part] = np.clip(evidence[:, 1] - evidence[:, 0], -60, 60)
        return odds

    @cached_property
    def likelier(self) -> npt.NDArray[np.float32]:
        """The larger evidence of each row."""
        return np.concatenate([self.evidence(part).max(axis=1) for part in pieces(len(self.rows), self.num_classes)])

    @cached_property
    def start(self) -> Marginal:
        """What it says with no features."""
        return start_of(self.release.evidence, self.rows, self.num_classes)

    def of(self, positions: npt.NDArray[np.int64]) -> Known:
        """A subset."""
        return Known(self.release, self.rows[positions])


_KNOWN = "labeldp_known"  # the attribute of a lightgbm.Dataset that carries it


def dataset(
    X: Any,
    release: Release,
    rows: Any = slice(None),
    *,
    reference: Any = None,
    weight: Any = None,
    **options: Any,
) -> Any:
    """A `lightgbm.Dataset` that knows its evidence.

    X          what LightGBM takes: arrays, pandas, Arrow tables, sparse matrices; with its own categories and missing values
    rows       X[i] is of this position in the release (`release.positions(ids)` finds it); all, in order, by default
    reference  for a validation set: the data set that is trained on
    weight     public weights, one a row, which multiply its loss
    options    `categorical_feature`, `feature_name`, `params`, `free_raw_data`, as LightGBM has them
    """
    if "label" in options or "init_score" in options:
        raise InputError("labels and first scores come from the release: leave out `label` and `init_score`.")
    if not isinstance(release, Release):
        raise InputError("the second argument is a release: labeldp.Release.load(path).")
    positions = release.target(rows)[:, 1]
    count = X.num_rows if hasattr(X, "num_rows") else X.shape[0] if hasattr(X, "shape") else len(X)
    if len(positions) != count:
        raise InputError(
            f"X has {count:,} rows, and {len(positions):,} released ones are named; X[i] belongs to rows[i]."
        )
    if count == 0:
        raise InputError("there are no rows to train on.")
    if reference is not None and (other := known(reference)).num_classes != release.mechanism.num_classes:
        raise InputError(
            f"this release has {release.mechanism.num_classes} classes, and the one of `reference` {other.num_classes}."
        )
    given = None if weight is None else checked_weights(weight, count)
    if options.get("params"):  # LightGBM checks them against an objective before it hears of ours
        options["params"] = {**options["params"], "objective": "none"}
    # LightGBM wants labels; it gets zeros, which nothing reads.
    data = lightgbm().Dataset(X, label=np.zeros(count, dtype=np.float32), weight=given, reference=reference, **options)
    setattr(data, _KNOWN, Known(release, positions))
    return data


def checked_weights(weight: Any, count: int) -> npt.NDArray[np.float64]:
    """One finite weight a row, none negative, not all 0."""
    values = np.asarray(weight, dtype=np.float64)
    if values.shape != (count,) or not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise InputError(f"weights are {count:,} numbers, one a row, finite, not negative and not all 0.")
    return values


def known(data: Any) -> Known:
    """What a data set, or a subset of one (`lgb.cv` makes them), knows."""
    found = getattr(data, _KNOWN, None)
    if isinstance(found, Known):
        return found
    used, reference = getattr(data, "used_indices", None), getattr(data, "reference", None)
    if used is None or reference is None:
        raise InputError(
            "this data set knows no release: make it with labeldp.estimators.boosting.dataset(X, release, rows)."
        )
    part = known(reference).of(np.asarray(used, dtype=np.int64))
    setattr(data, _KNOWN, part)
    return part


# ----------------------------------------------------------------
# The objective.


def objective(data: Any) -> Objective:
    """What goes into `params["objective"]`; for more than two classes, `params["num_class"]` says how many."""
    return Objective(known(data))


class Objective:
    """Gradient p − q, and the curvature that a released row is expected to have at p.

    With v = p(1 − p), a clean label has curvature v, and the majoriser of ours is v too: safe, and far too slow where a row tells
    little. Expected over what could have been released it is v·v/(v + t); for two-class response t = e^ε/(e^ε − 1)², and for any
    mechanism it is read from the release (`Marginal.dulling`). Its factor v/(v + t) is not let below an eighth of what it is at the class
    shares, or scores
    would fly off where p is near 0 or 1. Compared with others in benchmarks/results/boosting-hessians.json.
    """

    def __init__(self, of: Known) -> None:
        self._known = of
        self._buffers: dict[int, Gradients] = {}

    def __call__(self, scores: npt.NDArray[np.float64], data: Any) -> Gradients:
        """As LightGBM calls it: raw scores, (n,) or (n, C)."""
        of = known(data)
        if of.release.checksum != self._known.release.checksum:
            raise InputError(
                "this objective was made for rows of another release: boosting.objective(data) of what is trained on."
            )
        start, classes, count = self._known.start, of.num_classes, len(of.rows)
        check_scores(scores, count, classes)
        gradient, curvature = self._room(count, classes)
        if classes == 2:
            binary_gradients(scores, of.odds, float(start.dulling[1]), float(start.shares[1]), gradient, curvature)
        else:
            many_gradients(scores, of.evidence, start, gradient, curvature)
        if not scores.any():
            self._begin(start, gradient, curvature, data)
        weight = data.get_weight()
        if weight is not None:
            factor = np.asarray(weight, dtype=np.float32)
            gradient *= factor
            curvature *= factor
        return gradient.T, curvature.T

    def _room(self, count: int, classes: int) -> Gradients:
        """One row of memory a class: as LightGBM wants it, without a copy. LightGBM reads it before it asks again."""
        if count not in self._buffers:
            shape = (count,) if classes == 2 else (classes, count)
            self._buffers = {count: (np.empty(shape, dtype=np.float32), np.empty(shape, dtype=np.float32))}
        return self._buffers[count]

    @staticmethod
    def _begin(start: Marginal, gradient: Any, curvature: Any, data: Any) -> None:
        """Let the first trees carry the class shares: the model is whole, saved or not, and nobody has to add them back.

        A leaf's value is −rate·ΣG/(ΣH + λ). With G − H·s/rate for G it is larger by s, and no split changes, if λ is small beside ΣH: so
        all of it is made large, once. Where something else enters a leaf's value the trees that follow learn the rest.
        """
        if gradient.ndim == 1:
            shift = np.log(start.shares[1] / start.shares[0])
        else:
            shift = (start.logits - start.logits.mean())[:, None]
        gradient -= curvature * np.asarray(shift / _rate(data), dtype=np.float32)
        gradient *= _LARGE
        curvature *= _LARGE

    def __deepcopy__(self, memo: dict[int, Any]) -> Objective:
        return self  # lightgbm.train copies its parameters; the release stays one


_LARGE = np.float32(2**16)


def _rate(data: Any) -> float:
    """The learning rate that LightGBM was given, where its data set says so."""
    given = getattr(data, "params", None) or {}
    for name in ("learning_rate", "eta", "shrinkage_rate"):
        if isinstance(given.get(name), (int, float)) and given[name] > 0:
            return float(given[name])
    return 0.1


def check_scores(scores: npt.NDArray[Any], count: int, classes: int) -> None:
    """As many as there are rows, and a column a class if there are more than two."""
    if classes > 2 and scores.shape == (count,):
        raise InputError(f'the release has {classes} classes: add "num_class": {classes} to the parameters.')
    if classes == 2 and scores.shape == (count, 2):
        raise InputError('two classes have one score here: leave "num_class" out of the parameters.')
    if scores.shape != ((count,) if classes == 2 else (count, classes)):
        raise InputError(
            f"LightGBM asks about {scores.shape} scores, and these are {count:,} rows and {classes} classes."
        )


def binary_gradients(
    scores: npt.NDArray[np.float64], odds: npt.NDArray[np.float32], dulling: float, share: float, gradient: Any, curvature: Any
) -> None:  # fmt: skip
    """p − q and the curvature, chunk by chunk, into the arrays given. σ(s) = (1 + tanh(s/2))/2."""
    least = np.float32(share * (1 - share) / (share * (1 - share) + dulling) / _LEAST)
    half, other = np.empty(CHUNK // 8, dtype=np.float32), np.empty(CHUNK // 8, dtype=np.float32)
    for first in range(0, len(scores), len(half)):
        part = slice(first, first + len(half))
        tanh, posterior = half[: len(scores[part])], other[: len(scores[part])]
        np.multiply(scores[part], 0.5, out=tanh, casting="same_kind")
        np.multiply(odds[part], np.float32(0.5), out=posterior)
        np.tanh(np.add(posterior, tanh, out=posterior), out=posterior)
        np.tanh(tanh, out=tanh)
        np.multiply(np.subtract(tanh, posterior, out=posterior), np.float32(0.5), out=gradient[part])
        variance = np.multiply(tanh, tanh, out=tanh)
        np.multiply(np.subtract(np.float32(1), variance, out=variance), np.float32(0.25), out=variance)
        curve(variance, np.float32(dulling), least, posterior, curvature[part])


def many_gradients(
    scores: npt.NDArray[np.float64], evidence: Callable[[slice], npt.NDArray[np.float32]], start: Marginal, gradient: Any, curvature: Any
) -> None:  # fmt: skip
    """The same for three classes and more; one row of memory a class."""
    count, classes = scores.shape
    dulling = start.dulling.astype(np.float32)[:, None]
    variance = start.shares * (1 - start.shares)
    least = (variance / (variance + start.dulling) / _LEAST).astype(np.float32)[:, None]
    for part in pieces(count, 4 * classes):
        prior = scores[part].T.astype(np.float32)
        prior -= prior.max(axis=0)
        np.exp(prior, out=prior)
        likelihood = np.ascontiguousarray(evidence(part).T)
        likelihood -= likelihood.max(axis=0)
        np.exp(likelihood, out=likelihood)
        likelihood *= prior  # the posterior, not yet normalised
        prior /= prior.sum(axis=0)
        total = likelihood.sum(axis=0)
        likelihood /= np.maximum(total, np.float32(1e-37), out=total)  # 0 only if the scores call it impossible
        np.subtract(prior, likelihood, out=gradient[:, part])
        np.multiply(prior, 1 - prior, out=prior)
        curve(prior, dulling, least, likelihood, curvature[:, part])
        curvature[:, part] *= np.float32(classes / (classes - 1))  # as LightGBM does, for what the diagonal leaves out


_LEAST = 8


def curve(variance: Any, dulling: Any, least: Any, room: Any, out: Any) -> None:
    """v·max(v/(v + t), least), and at least 1e-7, so that no leaf divides by 0."""
    np.maximum(variance, np.float32(1e-7), out=variance)
    np.divide(variance, np.add(variance, dulling, out=room), out=room)
    np.multiply(np.maximum(room, least, out=room), variance, out=out)
    np.maximum(out, np.float32(1e-7), out=out)


# ----------------------------------------------------------------
# Held-out likelihood, and prediction.


def metric(name: str = "released_loss") -> Callable[[npt.NDArray[np.float64], Any], tuple[str, float, bool]]:
    """For `feval`: −log p(what was released), on average; smaller is better. Early stopping on held-out rows costs no privacy."""

    def released_loss(scores: npt.NDArray[np.float64], data: Any) -> tuple[str, float, bool]:
        of = known(data)
        check_scores(scores, len(of.rows), of.num_classes)
        return name, mean_loss(scores, of, data.get_weight()), False

    return released_loss


def mean_loss(scores: npt.NDArray[np.float64], of: Known, weight: Any = None) -> float:
    """−log Σ_c p_c e^{evidence_c}, on average over its rows."""
    total = 0.0
    for part in pieces(len(of.rows), of.num_classes):
        if of.num_classes == 2:
            # log(1 + e^s) − log(1 + e^{s+d}) + max(d, 0) − max(evidence), d = evidence₁ − evidence₀
            score, odds = scores[part].astype(np.float32), of.odds[part]
            each = _softplus(score) - _softplus(score + odds) + np.maximum(odds, 0) - of.likelier[part]
        else:
            each = loss(scores[part], of.evidence(part))
        total += float(each.sum(dtype=np.float64) if weight is None else each @ weight[part])
    return total / (len(of.rows) if weight is None else float(np.sum(weight)))


def _softplus(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.asarray(np.maximum(x, 0) + np.log(1 + np.exp(-np.abs(x))))


def predict_proba(booster: Any, X: Any, **options: Any) -> npt.NDArray[np.float64]:
    """Probabilities of the true labels, (n, C). `options` are those of `Booster.predict` (`num_iteration` …)."""
    trained_with = booster.dump_model(num_iteration=1).get("objective", "custom")
    if not str(trained_with).startswith("custom"):
        raise InputError(
            f"this booster was trained with the objective {trained_with!r}, not with boosting.objective(data): it predicts what was "
            "released, not the true labels, and booster.predict says so."
        )
    scores = np.asarray(booster.predict(X, **{**options, "raw_score": True}))
    return probabilities(scores)

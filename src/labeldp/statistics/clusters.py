"""Pure ε: a histogram of labels by public cluster. Clusters are k-means on public features; a row's weight is spread over the nearest ones.

A row's weights are whole numbers that add up to G. One label that is replaced moves, of two classes, the one column that is kept by G in
ℓ1; of more, two columns: 2G. Two-sided geometric noise on whole numbers, whose cost is G (or 2G) times that of a step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import check_epsilon
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.private import PrivateLabels, check_num_classes
from labeldp.statistics.noise import GeometricNoise
from labeldp.statistics.whitening import RADIUS, Preprocessing

Floats = npt.NDArray[np.float64]
Weights = npt.NDArray[np.int64]

PARTS = 4  # G
MOST_PARTS = 1 << 10
CLUSTER_AXES = 32  # along which rows are near or far
_NEAREST = 3
_ENOUGH = 20_000
_ROUNDS = 15
_CHUNK = 1 << 21
MOST_CLUSTERS = 1 << 12
_LEAST_WIDTH, _MOST_WIDTH = 1e-12, 4.0 * RADIUS**2


@dataclass(frozen=True, eq=False)
class Clusters:
    """Centres in the space of public features, and how far a row's weight spreads: exp(−distance²/(2·width))."""

    centres: npt.NDArray[np.float32]  # (K, d)
    width: float
    parts: int = PARTS

    def __post_init__(self) -> None:
        if self.centres.ndim != 2 or not 1 <= len(self.centres) <= MOST_CLUSTERS or 0 in self.centres.shape:
            raise InputError(f"clusters are from 1 to {MOST_CLUSTERS:,} rows of numbers.")
        if not (np.abs(self.centres) <= RADIUS).all():  # means of rows are where rows are; NaN is nowhere
            raise InputError(f"clusters are made of finite numbers, of {RADIUS:,} at most.")
        if not _LEAST_WIDTH <= self.width <= _MOST_WIDTH:
            raise InputError("clusters have a positive width, and one that rows can have.")
        if isinstance(self.parts, bool) or not isinstance(self.parts, int) or not 1 <= self.parts <= MOST_PARTS:
            raise InputError(f"a row has from 1 to {MOST_PARTS:,} parts.")

    @classmethod
    def of(cls, features: npt.NDArray[Any], count: int, *, seed: int = 0, parts: int = PARTS) -> Clusters:
        """k-means (Lloyd's, 15 rounds, on at most 20,000 rows), from rows drawn by a public seed."""
        if features.ndim != 2 or not 1 <= count <= MOST_CLUSTERS:
            raise InputError(f"clusters are made of a table of numbers, 1 to {MOST_CLUSTERS:,} of them; got {count}.")
        rng = np.random.default_rng([2024, seed])
        chosen = rng.permutation(len(features))[:_ENOUGH]
        some = features[np.sort(chosen)].astype(np.float32)
        centres = some[rng.permutation(len(some))[: min(count, len(some))]].copy()
        for _ in range(_ROUNDS):
            nearest = np.concatenate([_distances(part, centres).argmin(axis=1) for part in _split(some, len(centres))])
            sizes = np.bincount(nearest, minlength=len(centres))
            sums = np.zeros(centres.shape)
            np.add.at(sums, nearest, some)
            centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres).astype(np.float32)
        least = np.concatenate([_distances(part, centres).min(axis=1) for part in _split(some, len(centres))])
        return cls(centres, max(float(least.mean()) / 2, _LEAST_WIDTH), parts)

    @property
    def count(self) -> int:
        """How many."""
        return len(self.centres)

    def spread(self, features: npt.NDArray[Any]) -> tuple[Weights, Weights]:
        """(n, m) nearest clusters, and whole weights that add up to `parts` in every row."""
        most = min(_NEAREST, self.count)
        where, weights = [np.empty((0, most), np.int64)], [np.empty((0, most), np.int64)]
        for part in _split(features.astype(np.float32, copy=False), self.count):
            distances = _distances(part, self.centres)
            near = np.argpartition(distances, most - 1, axis=1)[:, :most]
            far = np.take_along_axis(distances, near, axis=1)
            order = np.argsort(far, axis=1)
            near, far = np.take_along_axis(near, order, axis=1), np.take_along_axis(far, order, axis=1)
            soft = np.exp(-(far - far[:, :1]) / (2 * self.width))
            whole = np.floor(soft / soft.sum(axis=1, keepdims=True) * self.parts).astype(np.int64)
            whole[:, 0] += self.parts - whole.sum(axis=1)  # the nearest has the rest
            where.append(near)
            weights.append(whole)
        return np.concatenate(where), np.concatenate(weights)


def _split(rows: npt.NDArray[np.float32], columns: int) -> list[npt.NDArray[np.float32]]:
    step = max(1, _CHUNK // max(columns, rows.shape[1]))
    return [rows[start : start + step] for start in range(0, len(rows), step)]


def _distances(rows: npt.NDArray[np.float32], centres: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Squared."""
    found = (rows**2).sum(axis=1)[:, None] - 2 * (rows @ centres.T) + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(found, 0))


def number_of_clusters(num_rows: int, num_classes: int, epsilon: float) -> int:
    """A public rule: as many as leave, in each, so many rows as 4 standard deviations of the noise, and 20 at least; 20 standard deviations
    for two classes, whose shares differ less from cluster to cluster."""
    deviation = math.sqrt(2) * (1 if num_classes == 2 else 2) / check_epsilon(epsilon)
    return int(min(1024, max(2, num_rows / max((20 if num_classes == 2 else 4) * deviation, 20.0))))


def public_clusters(x: Any, num_classes: int, epsilon: float, *, seed: int = 0) -> tuple[Preprocessing, Clusters]:
    """How features are made ready, and their clusters: from public features, n, C and ε alone."""
    preprocessing = Preprocessing.of(x, power=0.5, dimensions=CLUSTER_AXES)
    count = number_of_clusters(len(x), check_num_classes(num_classes), epsilon)
    return preprocessing, Clusters.of(preprocessing.apply(x), count, seed=seed)


# ----------------------------------------------------------------
# The histogram.


def moved_by_a_label(parts: int, num_classes: int) -> int:
    """G for two classes, 2G for more: for `GeometricNoise`, whose cost is by the step."""
    return parts * (1 if check_num_classes(num_classes) == 2 else 2)


def cluster_sizes(where: Weights, weights: Weights, clusters: int) -> npt.NDArray[np.int64]:
    """Of each cluster, the parts of rows that lie in it: public, and exact, since sums of floats below 2^53 are."""
    return np.bincount(where.ravel(), weights=weights.ravel(), minlength=clusters).astype(np.int64)


def check_weights(where: Weights, weights: Weights, clusters: int, parts: int) -> None:
    """Σ_m w_im = G for every row, in whole numbers; the proof needs nothing else of the clusters."""
    if (
        where.shape != weights.shape
        or where.ndim != 2
        or where.dtype.kind not in "iu"
        or weights.dtype.kind not in "iu"
    ):
        raise InputError("a histogram needs one row of clusters and whole weights for each label.")
    if (weights < 0).any() or (weights.sum(axis=1) != parts).any() or (where < 0).any() or (where >= clusters).any():
        raise InputError(f"a row's weights must add up to {parts}, over clusters that there are.")


def exact_histogram(
    where: Weights, weights: Weights, labels: PrivateLabels, clusters: int, parts: int
) -> npt.NDArray[np.int64]:
    """Weights by cluster and class (of two: of the second): private. Each row's weights are checked to be whole and to add up to G."""
    if len(where) != len(labels):
        raise InputError("a histogram needs one row of clusters and whole weights for each label.")
    check_weights(where, weights, clusters, parts)
    classes = labels.num_classes
    columns = 1 if classes == 2 else classes
    codes = labels.reveal().astype(np.int64)
    table = np.zeros(clusters * classes, dtype=np.int64)
    for m in range(where.shape[1]):
        np.add.at(table, where[:, m].astype(np.int64) * classes + codes, weights[:, m].astype(np.int64))
    return table.reshape(clusters, classes)[:, -columns:]


def noisy_histogram(exact: npt.NDArray[np.int64], noise: GeometricNoise, entropy: Entropy) -> npt.NDArray[np.int64]:
    """With its noise."""
    return np.asarray(exact + noise.sample(exact.size, entropy).reshape(exact.shape).astype(np.int64))


# ----------------------------------------------------------------
# A classifier from it.


@dataclass(frozen=True, eq=False)
class ClusterModel:
    """Class shares of every cluster; a row's are those of its nearest ones."""

    clusters: Clusters
    shares: Floats  # (K, C)

    def probabilities(self, features: npt.NDArray[Any]) -> Floats:
        """(n, C)."""
        found = np.zeros((len(features), self.shares.shape[1]))
        step = max(1, _CHUNK // self.shares.shape[1])
        for start in range(0, len(features), step):
            where, weights = self.clusters.spread(features[start : start + step])
            found[start : start + step] = np.einsum("nm,nmc->nc", weights / self.clusters.parts, self.shares[where])
        return found


def fit_clusters(
    clusters: Clusters,
    noisy: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    noise: GeometricNoise,
    num_classes: int,
) -> ClusterModel:
    """Shares, drawn towards those of all rows as far as noise and sampling demand (empirical Bayes, by the table itself).

    `sizes` are each cluster's public total of weights. Counts of all classes add up to it, so that noise is projected.
    """
    total, g = sizes.astype(np.float64), clusters.parts
    counts = noisy.astype(np.float64)
    if num_classes == 2:
        counts = np.concatenate((total[:, None] - counts, counts), axis=1)
        variance = noise.variance
    else:
        counts = counts + (total - counts.sum(axis=1))[:, None] / num_classes
        variance = noise.variance * (1 - 1 / num_classes)
    equal = 1 / num_classes
    overall = counts.sum(axis=0) / total.sum()
    doubt = len(total) * variance / total.sum() ** 2
    overall = np.maximum(equal + (overall - equal) * equal**2 / (equal**2 + doubt), 1e-4 * equal)
    overall /= overall.sum()
    spread = overall * (1 - overall)
    known = total > 0
    # Of one cluster and class: residual ~ N(0, N²τ² + G·N·p(1 − p) + v); τ² by its likelihood, over a grid.
    n = total[known, None]
    residual = counts[known] - n * overall
    sampling = g * n * spread + variance
    candidates = np.exp(np.linspace(math.log(1e-5), math.log(1.0), 60))
    likelihood = [
        -0.5 * float((np.log(v) + residual**2 / v).sum()) for v in (n**2 * (t * spread) + sampling for t in candidates)
    ]
    tau = candidates[int(np.argmax(likelihood))] * spread
    shares = np.tile(overall, (len(total), 1))
    shares[known] += residual / n * (n**2 * tau / (n**2 * tau + sampling))
    shares = np.maximum(shares, 1e-3 * overall)
    return ClusterModel(clusters, shares / shares.sum(axis=1, keepdims=True))

"""`LabelHistogram`: noisy counts of labels by public cluster of the features. Pure ε, where moments need a δ.

Clusters, and how much of which rows lies in each, are public. A row's weights are whole and add up to G, so that one label that is replaced
moves G of the counts' units where there are two classes, and 2G where there are more.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost
from labeldp.accounting.ledger import Ledger
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.mechanisms.base import Guarantee
from labeldp.private import PrivateLabels, check_num_classes
from labeldp.release.header import NOBODY_SAID, HandedOver
from labeldp.release.sealed import Sealed
from labeldp.release.source import Source
from labeldp.statistics.arrays import array_rows, make_from_arrays
from labeldp.statistics.clusters import (
    MOST_CLUSTERS,
    PARTS,
    ClusterModel,
    Clusters,
    Weights,
    check_weights,
    cluster_sizes,
    exact_histogram,
    fit_clusters,
    moved_by_a_label,
    noisy_histogram,
    public_clusters,
)
from labeldp.statistics.fit import stored_arrays
from labeldp.statistics.moments_file import check_columns, in_one_order, stated_columns
from labeldp.statistics.noise import GeometricNoise, noise_from_json
from labeldp.statistics.statistic import Places, PublicRows, Statistic, StatisticFile, StatisticOrder
from labeldp.statistics.whitening import Preprocessing, check_table

_COUNT, _SIZE, _CENTRES, _WIDTH = "count", "size", "centres", "width"
_SHARES, _PARTS = "shares", "parts"
_CHUNK = 1 << 16  # rows at a time
_SHARE_OFF = 0.001  # of the rows may lie in another cluster: another machine's last bits
_DAMAGED = "this is no model from a histogram, or it is damaged: fit it again."


@dataclass(frozen=True, eq=False)
class HistogramPlan(Statistic):
    """Labels counted by public cluster, each count with geometric noise. `columns` are what the features are called, where they are.

    sizes  of each cluster, how many parts of rows lie in it: public
    """

    preprocessing: Preprocessing
    clusters: Clusters
    sizes: npt.NDArray[np.int64]
    noise: GeometricNoise
    num_classes: int
    columns: tuple[str, ...] = ()
    name: ClassVar[str] = "histogram"

    def __post_init__(self) -> None:
        check_num_classes(self.num_classes)
        if self.clusters.centres.shape[1] != self.preprocessing.dimensions:
            raise InputError("the clusters are of other features than these")
        if self.sizes.shape != (self.clusters.count,) or (self.sizes < 0).any():
            raise InputError("every cluster has its size")
        check_columns(self.columns, self.preprocessing)

    @property
    def moved(self) -> int:
        """By how much one label moves the counts, all of them together."""
        return moved_by_a_label(self.clusters.parts, self.num_classes)

    @property
    def shape(self) -> tuple[int, int]:
        """Clusters, and classes that are counted: of two the second alone, since both add up to the sizes."""
        return self.clusters.count, 1 if self.num_classes == 2 else self.num_classes

    def certificate(self) -> Cost:
        """The noise's, for what a label moves."""
        return self.noise.certificate(self.moved)

    def guarantee(self) -> Guarantee:
        """Pure."""
        return self.noise.guarantee(self.moved)

    def describe(self) -> str:
        """In a few words."""
        deviation = self.noise.variance**0.5 / self.clusters.parts
        return (
            f"{self.shape[0] * self.shape[1]:,} counts of labels in {self.shape[0]:,} public clusters, each with geometric noise "
            f"of deviation {deviation:.3g}"
        )

    def to_json(self) -> dict[str, Any]:
        """What the certificate follows from; clusters, and how features are made ready, are in the arrays."""
        return {
            "name": self.name,
            "num_classes": self.num_classes,
            "noise": self.noise.to_json(),
            "parts": self.clusters.parts,
            "columns": list(self.columns),
        }

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The counts, the clusters with their sizes, and how features are made ready."""
        return {
            _COUNT: np.zeros(self.shape, dtype=np.int64),
            _SIZE: self.sizes,
            _CENTRES: self.clusters.centres.astype(np.float64),
            _WIDTH: np.array([self.clusters.width]),
            **self.preprocessing.to_arrays(),
        }

    @classmethod
    def read(cls, sealed: Sealed) -> HistogramPlan:
        """From a file that may be anybody's: its sizes are checked to be those of all rows, in whole numbers."""
        said, arrays = sealed.header["statistic"], sealed.arrays
        noise, parts, rows = noise_from_json(said.get("noise")), said.get("parts"), sealed.header["rows"]
        if not isinstance(noise, GeometricNoise):
            raise InputError("its noise is not geometric")
        if any(name not in arrays for name in (_COUNT, _SIZE, _CENTRES, _WIDTH)):
            raise InputError("it lacks its counts or its clusters")
        clusters, sizes = _clusters(arrays[_CENTRES], arrays[_WIDTH], parts), arrays[_SIZE]
        if sizes.dtype.kind != "i":
            raise InputError("its sizes are no whole numbers")
        plan = cls(
            Preprocessing.from_arrays(arrays), clusters, sizes, noise, check_num_classes(said.get("num_classes")), stated_columns(said),
        )  # fmt: skip
        if not rows or sum(sizes.tolist()) != clusters.parts * rows:
            raise InputError("the weights of its rows do not add up to what a label is said to move")
        counts = arrays[_COUNT]
        if arrays.keys() != plan.arrays().keys() or counts.shape != plan.shape or counts.dtype.kind != "i":
            raise InputError("its counts are of another shape, or no whole numbers")
        if max(int(counts.max()), -int(counts.min())) > 1 << 52:
            raise InputError("its counts are beyond all files")
        return plan


def _clusters(centres: npt.NDArray[Any], width: npt.NDArray[Any], parts: Any) -> Clusters:
    """From numbers that may be anybody's."""
    if centres.ndim != 2 or not 1 <= len(centres) <= MOST_CLUSTERS or centres.dtype.kind != "f" or width.shape != (1,):
        raise InputError("its clusters are of another shape")
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = centres.astype(np.float32)
    if not np.array_equal(narrow, centres) or width.dtype.kind != "f":
        raise InputError("its clusters are no numbers of 32 bits")
    return Clusters(narrow, float(width[0]), parts)


class HistogramGathering:
    """Counts labels by cluster. Private until the noise is in."""

    def __init__(self, plan: HistogramPlan, where: Weights, weights: Weights) -> None:
        """Of every public row, its clusters and its weights there."""
        self._plan, self._where, self._weights = plan, where, weights
        self._counts = np.zeros(plan.shape, dtype=np.int64)

    def add(self, labels: PrivateLabels, places: Places) -> None:
        """Some more rows; the weights of each are checked before it counts."""
        clusters = self._plan.clusters
        self._counts += exact_histogram(
            self._where[places], self._weights[places], labels, clusters.count, clusters.parts
        )

    def finish(self, entropy: Entropy) -> dict[str, npt.NDArray[Any]]:
        """With noise on every count."""
        return {**self._plan.arrays(), _COUNT: noisy_histogram(self._counts, self._plan.noise, entropy)}


@dataclass(frozen=True, eq=False)
class SharesFromHistogram:
    """Class shares of every cluster, as a histogram tells them, and how features are made ready for it."""

    preprocessing: Preprocessing
    model: ClusterModel
    class_shares: npt.NDArray[np.float64]  # of the rows that it was fitted to
    iterations: ClassVar[int] = 1

    def probabilities(self, x: Any) -> npt.NDArray[np.float32]:
        """(rows, classes)."""
        found = self.model.probabilities(self.preprocessing.apply(x))
        return np.asarray(found / found.sum(axis=1, keepdims=True), dtype=np.float32)

    def to_bytes(self) -> bytes:
        """One self-contained file: NumPy's .npz, without pickles."""
        file, clusters = io.BytesIO(), self.model.clusters
        own = {
            _CENTRES: clusters.centres.astype(np.float64), _WIDTH: np.array([clusters.width]), _SHARES: self.model.shares,
            "class_shares": self.class_shares, _PARTS: np.array([clusters.parts], dtype=np.int64),
        }  # fmt: skip
        np.savez(file, **own, **self.preprocessing.to_arrays())  # type: ignore[arg-type]
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> SharesFromHistogram:
        """The inverse, perhaps of another party's file; nothing in it is executed."""
        try:
            return cls._read(stored_arrays(content))
        except Exception:  # whatever NumPy says of a damaged archive, and whatever its numbers cannot be
            raise InputError(_DAMAGED) from None

    @classmethod
    def _read(cls, arrays: dict[str, npt.NDArray[Any]]) -> SharesFromHistogram:
        parts, shares, every = arrays[_PARTS], arrays[_SHARES], arrays["class_shares"]
        preprocessing = Preprocessing.from_arrays(arrays)
        clusters = _clusters(arrays[_CENTRES], arrays[_WIDTH], int(parts[0]))
        if parts.shape != (1,) or parts.dtype != np.int64 or clusters.centres.shape[1] != preprocessing.dimensions:
            raise ValueError
        if shares.shape != (clusters.count, check_num_classes(len(every))) or every.ndim != 1:
            raise ValueError
        for one in (shares, every):
            if one.dtype.kind != "f" or not ((one >= 0) & (one <= 1)).all() or not np.allclose(one.sum(axis=-1), 1):
                raise ValueError
        return cls(preprocessing, ClusterModel(clusters, shares.astype(np.float64)), every.astype(np.float64))


class LabelHistogram(StatisticFile):
    """Noisy counts of labels by public cluster, and what features they are of."""

    statistic: HistogramPlan

    plan = HistogramPlan
    noun = "histogram of labels"

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Noisy, in parts of a row, (clusters, columns): of two classes one column, the second class's."""
        return self._arrays[_COUNT]

    def made_ready(self, x: Any) -> npt.NDArray[Any]:
        """These features, if they can be those whose labels were counted, in any order; others are refused."""
        plan = self.statistic
        table = check_table(x, plan.preprocessing.inputs)
        if len(table) != self.rows:
            raise InputError(f"this histogram was counted over {self.rows:,} rows; the features have {len(table):,}.")
        where, weights = _spread(plan.preprocessing, plan.clusters, table)
        off = np.abs(cluster_sizes(where, weights, plan.clusters.count) - plan.sizes).sum()
        if off > plan.clusters.parts * (1 + _SHARE_OFF * self.rows):
            raise InputError(
                "these are not the features whose labels were counted: bring the same rows, in any order, with the same columns in the "
                "same order and the same numbers in them."
            )
        return table

    def fit(self, x: Any) -> SharesFromHistogram:
        """The classifier of these features: those whose labels were counted, in any order. Free, as often as you like."""
        return self.fit_ready(self.made_ready(x))

    def fit_ready(self, features: npt.NDArray[Any]) -> SharesFromHistogram:
        """The same, of features that were looked at. Their sizes are the owner's: another machine may round a row to another cluster,
        and then they would not fit the counts."""
        plan = self.statistic
        model = fit_clusters(plan.clusters, self.counts, plan.sizes, plan.noise, plan.num_classes)
        every = plan.sizes @ model.shares
        return SharesFromHistogram(plan.preprocessing, model, np.asarray(every / every.sum()))


def histogram(
    x: Any,
    labels: PrivateLabels | npt.ArrayLike,
    *,
    num_classes: int,
    epsilon: float,
    data_set: str,
    ledger: Ledger | str | os.PathLike[str],
    ids: Sequence[Any] | npt.NDArray[Any] | None = None,
    label: str | None = None,
    label_names: Sequence[str] | None = None,
    entropy: Entropy | None = None,
    again: str | None = None,
    ids_as_written: bool = False,
    handed_over: HandedOver = NOBODY_SAID,
) -> LabelHistogram:
    """Count secret labels by public cluster of the features once: charge a pure ε, add noise, return what may be handed over.

    x       public features, a row for each label; NaN where something is missing
    labels  class numbers 0 … C − 1, or texts where `label_names` are given; private
    The others are as for `mechanism.release`. Asked for the same again, the first histogram is returned, and nothing is charged.
    """
    table = check_table(x)
    source, rows = array_rows(labels, len(table), num_classes, ids, label, label_names, ids_as_written, data_set)
    order = histogram_order(source, data_set, table, rows, epsilon=epsilon, handed_over=handed_over)
    return LabelHistogram.load(make_from_arrays(order, ledger, entropy, again))


def histogram_order(
    source: Source,
    data_set: str,
    x: Any,
    rows: PublicRows,
    *,
    epsilon: float,
    columns: Sequence[str] = (),
    handed_over: HandedOver = NOBODY_SAID,
) -> StatisticOrder:
    """What the ledger is asked for: noisy counts of labels by cluster of these features. The clusters follow from public facts."""
    stamp, classes = source.stamp(), source.classes.count
    table, rows = in_one_order(check_table(x), rows, source)
    noise = GeometricNoise.calibrated(epsilon=epsilon, moved=moved_by_a_label(PARTS, classes))
    preprocessing, clusters = public_clusters(table, classes, epsilon)
    where, weights = _spread(preprocessing, clusters, table)
    check_weights(where, weights, clusters.count, clusters.parts)  # here, too: before anything is charged
    sizes = cluster_sizes(where, weights, clusters.count)
    plan = HistogramPlan(preprocessing, clusters, sizes, noise, classes, tuple(columns))
    # By the features themselves: clusters that another machine rounds otherwise are still those that were asked for.
    known_by = {"features": _digest(table)}
    return StatisticOrder(
        source, plan, data_set, rows, lambda: HistogramGathering(plan, where, weights), known_by=known_by,
        requested_epsilon=epsilon, stamp=stamp, handed_over=handed_over,
    )  # fmt: skip


def _spread(preprocessing: Preprocessing, clusters: Clusters, x: npt.NDArray[Any]) -> tuple[Weights, Weights]:
    """Some rows at a time, in two bytes a number: neither a cluster's number nor a weight takes more."""
    found = [clusters.spread(preprocessing.apply(x[start : start + _CHUNK])) for start in range(0, len(x), _CHUNK)]
    where, weights = (np.concatenate([one[k].astype(np.int16) for one in found]) for k in (0, 1))
    return where, weights


def _digest(x: npt.NDArray[Any]) -> str:
    total = hashlib.sha256(repr(x.shape).encode())
    for start in range(0, len(x), _CHUNK):
        part = np.array(x[start : start + _CHUNK], dtype="<f8")
        part[np.isnan(part)] = np.nan  # of one kind
        total.update((part + 0.0).tobytes())  # and zero of one sign
    return total.hexdigest()[:32]

"""`Moments`: a noisy XᵀY, all that a linear model ever asks of labels. Any fit, any regulariser, any repetition is then free."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost
from labeldp.accounting.ledger import Ledger
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.mechanisms.base import Guarantee
from labeldp.private import PrivateLabels
from labeldp.release.header import NOBODY_SAID, HandedOver, is_text
from labeldp.release.sealed import Sealed
from labeldp.release.source import Source
from labeldp.statistics.arrays import array_rows, make_from_arrays
from labeldp.statistics.fit import MomentModel, fit_moments, stored_arrays
from labeldp.statistics.moment_noise import MomentNoise, check_lengths, exact_moments
from labeldp.statistics.preprocessing_rule import choose_preprocessing
from labeldp.statistics.statistic import Places, PublicRows, Statistic, StatisticFile, StatisticOrder
from labeldp.statistics.whitening import Preprocessing, Quantised, check_table

_SUMS = "moments"
_FEATURES = "feature_sums"
_SHARE_OFF = 0.01  # of a column's entries may be a step off: another machine's last bits
_MOST_NAMES = 1 << 14
_LONGEST_NAME = 500


def check_columns(columns: tuple[str, ...], preprocessing: Preprocessing) -> None:
    """What features are called, if anything: every column by a printable name of its own."""
    if columns and len(columns) != preprocessing.inputs:
        raise InputError("every column has one name")
    if not all(is_text(name) and len(name) <= _LONGEST_NAME for name in columns):
        raise InputError(f"names of columns are 1 to {_LONGEST_NAME} printable characters")
    if len(set(columns)) != len(columns):
        raise InputError("every column has a name of its own")


def stated_columns(said: Mapping[str, Any]) -> tuple[str, ...]:
    """As a header has them; an InputError, if they are no names."""
    columns = said.get("columns")
    if not isinstance(columns, list) or len(columns) > _MOST_NAMES or not all(isinstance(c, str) for c in columns):
        raise InputError("it lacks the names of its columns")
    return tuple(columns)


@dataclass(frozen=True, eq=False)
class MomentsPlan(Statistic):
    """Sums of the public features by class, each with Gaussian noise. `columns` are what the features are called, where they are.

    `feature_sums` are those of all rows, whatever their class: public, exact, and nothing but a check that a fit has these features.
    """

    preprocessing: Preprocessing
    noise: MomentNoise
    columns: tuple[str, ...] = ()
    feature_sums: npt.NDArray[np.int64] | None = None  # None in files of before
    name: ClassVar[str] = "moments"

    def __post_init__(self) -> None:
        if (self.noise.dimensions, self.noise.radius) != (self.preprocessing.dimensions, self.preprocessing.radius):
            raise InputError("the noise is for other features than these")
        check_columns(self.columns, self.preprocessing)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """As the noise has it."""
        return self.noise.num_classes

    def certificate(self) -> Cost:
        """The noise's: one label moves a sum by the length of a row at most, which is checked in whole numbers."""
        return self.noise.certificate()

    def guarantee(self) -> Guarantee:
        """The same as (ε, δ)."""
        return self.noise.guarantee()

    def describe(self) -> str:
        """In a few words."""
        sums = self.noise.dimensions * self.noise.columns
        times = self.noise.sigma / self.noise.radius
        return f"{sums:,} sums of features by class, each with Gaussian noise of {times:.3g} times the longest row"

    def to_json(self) -> dict[str, Any]:
        """How features are made ready is in the arrays."""
        return {
            "name": self.name,
            "num_classes": self.num_classes,
            "noise": self.noise.to_json(),
            "columns": list(self.columns),
        }

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The sums, and how features are made ready."""
        return {
            _SUMS: np.zeros((self.noise.dimensions, self.noise.columns), dtype=np.int64),
            **({} if self.feature_sums is None else {_FEATURES: self.feature_sums}),
            **self.preprocessing.to_arrays(),
        }

    def recognises(self, features: Quantised) -> bool:
        """Whether these may be the features that were summed, in any order of rows; always, where the file cannot tell."""
        if self.feature_sums is None:
            return True
        off = np.abs(features.sum(axis=0, dtype=np.int64).astype(np.float64) - self.feature_sums)
        return bool((off <= 1 + _SHARE_OFF * len(features)).all())

    @classmethod
    def read(cls, sealed: Sealed) -> MomentsPlan:
        """From a file that may be anybody's."""
        said, arrays = sealed.header["statistic"], sealed.arrays
        noise, sums = MomentNoise.from_json(said.get("noise")), arrays.get(_FEATURES)
        if sums is not None and (sums.shape, sums.dtype.kind) != ((noise.dimensions,), "i"):
            raise InputError("its sums of all features are of another shape, or no whole numbers")
        plan = cls(Preprocessing.from_arrays(arrays), noise, stated_columns(said), sums)
        if said.get("num_classes") != plan.num_classes:
            raise InputError("its noise is for other classes")
        wanted = plan.arrays()
        if (
            arrays.keys() != wanted.keys()
            or arrays[_SUMS].shape != wanted[_SUMS].shape
            or arrays[_SUMS].dtype.kind != "i"
        ):
            raise InputError("its sums are of another shape, or no whole numbers")
        return plan


class MomentsGathering:
    """Sums features by class. Private until the noise is in."""

    def __init__(self, plan: MomentsPlan, features: npt.NDArray[np.integer[Any]]) -> None:
        """`features` are whole numbers, as the plan's preprocessing makes them."""
        self._plan, self._features = plan, features
        self._sums = np.zeros((plan.noise.dimensions, plan.noise.columns), dtype=np.int64)

    def add(self, labels: PrivateLabels, places: Places) -> None:
        """Some more rows; the length of each is checked before it counts."""
        self._sums += exact_moments(self._features[places], labels, self._plan.noise)

    def finish(self, entropy: Entropy) -> dict[str, npt.NDArray[Any]]:
        """With noise on every sum."""
        return {**self._plan.arrays(), _SUMS: self._sums + self._plan.noise.sample(entropy)}


@dataclass(frozen=True, eq=False)
class LinearFromMoments:
    """A linear model that was fitted to moments, and how features are made ready for it."""

    preprocessing: Preprocessing
    model: MomentModel

    def probabilities(self, x: Any) -> npt.NDArray[np.float32]:
        """(rows, classes), with the weights' uncertainty integrated."""
        found = self.model.probabilities(self.preprocessing.apply(x))
        return np.asarray(found / found.sum(axis=1, keepdims=True), dtype=np.float32)

    @property
    def class_shares(self) -> npt.NDArray[np.float64]:
        """Of the rows that it was fitted to."""
        return self.model.shares

    @property
    def iterations(self) -> int:
        """Steps of the fit."""
        return self.model.iterations

    def to_bytes(self) -> bytes:
        """One self-contained file, without pickles: how long the first part is, and both."""
        first = io.BytesIO()
        np.savez(first, **self.preprocessing.to_arrays())  # type: ignore[arg-type]
        return len(first.getvalue()).to_bytes(8, "little") + first.getvalue() + self.model.to_bytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> LinearFromMoments:
        """The inverse, perhaps of another party's file; nothing in it is executed."""
        end = 8 + int.from_bytes(content[:8], "little")
        try:
            preprocessing = Preprocessing.from_arrays(stored_arrays(content[8:end]))
        except InputError:
            raise
        except Exception:  # whatever NumPy says of a damaged archive
            raise InputError("this is no model from moments, or it is damaged: fit it again.") from None
        model = MomentModel.from_bytes(content[end:])
        if len(model.weights) != preprocessing.dimensions:
            raise InputError("this is no model from moments, or it is damaged: fit it again.")
        return cls(preprocessing, model)


class Moments(StatisticFile):
    """A noisy XᵀY, and what features it is of."""

    statistic: MomentsPlan

    plan = MomentsPlan
    noun = "file of moments"

    @property
    def sums(self) -> npt.NDArray[np.int64]:
        """T̃ in grid steps, (dimensions, columns): of two classes one column, the second class's."""
        return self._arrays[_SUMS]

    def made_ready(self, x: Any) -> Quantised:
        """These features as the moments were summed of them; refused, if they are other rows or other columns."""
        quantised = self.statistic.preprocessing.apply(x)
        if len(quantised) != self.rows:
            raise InputError(
                f"these moments were summed over {self.rows:,} rows; the features have {len(quantised):,}."
            )
        if not self.statistic.recognises(quantised):
            raise InputError(
                "these are not the features that the moments were summed over: bring the same rows, in any order, with the same columns "
                "in the same order and the same numbers in them."
            )
        return quantised

    def fit(self, x: Any) -> LinearFromMoments:
        """The linear model of these features: those that the moments were summed over, in any order. Free, as often as you like."""
        return self.fit_ready(self.made_ready(x))

    def fit_ready(self, features: Quantised) -> LinearFromMoments:
        """The same, of features that were made ready."""
        plan = self.statistic
        model = fit_moments(features, self.sums, plan.noise, plan.preprocessing.variances)
        return LinearFromMoments(plan.preprocessing, model)


def moments(
    x: Any,
    labels: PrivateLabels | npt.ArrayLike,
    *,
    num_classes: int,
    epsilon: float,
    data_set: str,
    ledger: Ledger | str | os.PathLike[str],
    delta: float = 1e-5,
    ids: Sequence[Any] | npt.NDArray[Any] | None = None,
    label: str | None = None,
    label_names: Sequence[str] | None = None,
    entropy: Entropy | None = None,
    again: str | None = None,
    ids_as_written: bool = False,
    handed_over: HandedOver = NOBODY_SAID,
) -> Moments:
    """Sum public features by secret label once: charge the ledger, add noise, return what may be handed over.

    x       public features, a row for each label; NaN where something is missing
    labels  class numbers 0 … C − 1, or texts where `label_names` are given; private
    The others are as for `mechanism.release`. Asked for the same again, the first moments are returned, and nothing is charged.
    """
    table = check_table(x)
    source, rows = array_rows(labels, len(table), num_classes, ids, label, label_names, ids_as_written, data_set)
    order = moments_order(source, data_set, table, rows, epsilon=epsilon, delta=delta, handed_over=handed_over)
    return Moments.load(make_from_arrays(order, ledger, entropy, again))


def in_one_order(x: npt.NDArray[Any], rows: PublicRows, source: Source) -> tuple[npt.NDArray[Any], PublicRows]:
    """The same features in another order of rows are the same request."""
    order, ordered = rows.in_one_order(source.id_form)
    return (x, rows) if rows.ids is None else (x[order], ordered)


def moments_order(
    source: Source,
    data_set: str,
    x: Any,
    rows: PublicRows,
    *,
    epsilon: float,
    delta: float = 1e-5,
    columns: Sequence[str] = (),
    handed_over: HandedOver = NOBODY_SAID,
) -> StatisticOrder:
    """What the ledger is asked for: noisy sums of these features by class. How features are made ready follows from public facts."""
    stamp, classes = source.stamp(), source.classes.count
    x, rows = in_one_order(check_table(x), rows, source)
    preprocessing = choose_preprocessing(x, classes, epsilon=epsilon, delta=delta)
    noise = MomentNoise.calibrated(
        epsilon=epsilon,
        delta=delta,
        radius=preprocessing.radius,
        dimensions=preprocessing.dimensions,
        num_classes=classes,
    )
    quantised = preprocessing.apply(x)
    check_lengths(quantised, noise.radius)  # here, too: before anything is charged
    plan = MomentsPlan(preprocessing, noise, tuple(columns), quantised.sum(axis=0, dtype=np.int64))
    known_by = {"features": hashlib.sha256(np.ascontiguousarray(quantised).tobytes()).hexdigest()[:32]}
    return StatisticOrder(
        source, plan, data_set, rows, lambda: MomentsGathering(plan, quantised), known_by=known_by, stamp=stamp,
        handed_over=handed_over,
    )  # fmt: skip

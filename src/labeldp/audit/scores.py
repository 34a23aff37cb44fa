"""A trained model's probabilities as an auditor gets them, checked: never a silently wrong bound."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labeldp.audit.canaries import Canaries
from labeldp.errors import InputError
from labeldp.files.ids import find
from labeldp.release.probabilities import read_probabilities

if TYPE_CHECKING:
    from labeldp.data.features import Features

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

_ROUNDING = 1e-3  # of sums in half precision


def checked_probabilities(values: npt.ArrayLike, *, logits: bool = False) -> Floats:
    """(rows, classes), each row a distribution; from logits where they are said to be."""
    table = np.asarray(values)
    if table.ndim != 2 or table.shape[1] < 2 or table.dtype.kind not in "fiu":
        raise InputError(
            f"probabilities are one row of numbers an example, one column a class; got shape {table.shape}."
        )
    table = table.astype(np.float64)
    bad = ~np.isfinite(table).all(axis=1)
    if bad.any():
        raise InputError(f"row {int(np.argmax(bad))} of the probabilities holds a number that is NaN or infinite.")
    if logits:
        table -= table.max(axis=1, keepdims=True)
        np.exp(table, out=table)
        table /= table.sum(axis=1, keepdims=True)
        return table
    bad = (table < 0).any(axis=1) | (np.abs(table.sum(axis=1) - 1) > _ROUNDING)
    if bad.any():
        raise InputError(
            f"row {int(np.argmax(bad))} of the probabilities is no distribution (not negative, adding up to 1). If these are "
            "logits, say so: `logits=True`."
        )
    return table


def by_row_number(table: Floats, canaries: Canaries) -> Numbers:
    """The canaries' places in a table of all rows of the data set, in its order."""
    if canaries.data_rows is not None and len(table) != canaries.data_rows:
        raise InputError(
            f"there are {len(table):,} rows of probabilities, and the canaries were planted in {canaries.data_rows:,}: ask for all rows, "
            "in their order, or for probabilities by id (Parquet)."
        )
    if canaries.rows.max() >= len(table):
        raise InputError(f"some canaries are not among the {len(table):,} rows of probabilities: ask for all rows.")
    return canaries.rows


@dataclass(frozen=True)
class Scores:
    """Probabilities of all rows, in the order of their file; where the canaries are among them; and what the file says of its model.

    `ids` name the rows; without them, rows are those of the data set, in its order. `release` is the checksum of the release that
    the model was trained on, `model` its own digest.
    """

    values: Floats
    places: Numbers
    ids: Any | None = None
    release: str | None = None
    model: str | None = None
    protected: bool = False  # the file says that its model saw labels through a release with a proven ε only

    def beside(self, other: Scores) -> Floats:
        """Another file's probabilities of the canaries, where this one has them. An attack reads no other row."""
        if other.values.shape[1] != self.values.shape[1]:
            raise InputError(
                f"the reference has {other.values.shape[1]} classes, the probabilities have {self.values.shape[1]}."
            )
        moved = np.full_like(self.values, 1 / self.values.shape[1])
        moved[self.places] = other.values[other.places]
        return moved

    def features(self, given: Features) -> npt.NDArray[Any]:
        """Features in the order of these rows: by id where they have ids, else by row number."""
        if given.named and self.ids is not None:
            places = find(self.ids, given.ids, "the features")
            if (places < 0).any():
                raise InputError(f"{int((places < 0).sum()):,} of the rows with probabilities have no features.")
            return given.values[places]
        if given.named or self.ids is not None:
            by, other = ("by id", "by row number") if given.named else ("by row number", "by id")
            raise InputError(
                f"the features go {by} and the probabilities {other}: name the features' id column (`id_column`), and have "
                "probabilities by id."
            )
        if len(given.values) != len(self.values):
            raise InputError(
                f"there are {len(given.values):,} rows of features for {len(self.values):,} of probabilities."
            )
        return given.values


def read_scores(path: Path, canaries: Canaries, *, logits: bool = False) -> Scores:
    """Probabilities of all rows, and where the canaries are among them.

    .npy: in the order of the data set. Parquet, as `labeldp predict` writes it: joined by id; where the rows have no ids, by row number.
    """
    read = read_probabilities(path)
    ids, about = read.ids, read.about
    table = checked_probabilities(read.values, logits=logits)
    if ids is None:
        return Scores(table, by_row_number(table, canaries))
    certificate = about.get("certificate")
    proven = (
        isinstance(certificate, dict)
        and isinstance(certificate.get("epsilon"), (int, float))
        and about.get("insecure") is None
    )
    release, model = (about[name] if isinstance(about.get(name), str) else None for name in ("release", "model"))
    if canaries.ids is None or about.get("named") is False:
        if not np.array_equal(ids.to_numpy(zero_copy_only=False), np.arange(len(ids))):
            raise InputError(
                f"the rows of {path} have ids and the canaries have none, so nobody can find them there: plant with ids (`id_column`)."
            )
        return Scores(table, by_row_number(table, canaries), None, release, model, proven)
    places = find(canaries.ids, ids, str(path), canaries.id_form)
    if (places < 0).any():
        raise InputError(
            f"{int((places < 0).sum()):,} of the {len(canaries):,} canaries are not in {path}: ask for the probabilities of all rows."
        )
    return Scores(table, places, ids, release, model, proven)

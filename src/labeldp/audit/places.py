"""Where the canaries are in a release and in a file of predictions, by id or by row number: every file has an order of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from labeldp.audit.canaries import Canaries
from labeldp.errors import InputError
from labeldp.files.ids import find
from labeldp.files.predictions import checked_probabilities, read_predictions
from labeldp.release.release import Release

if TYPE_CHECKING:
    from labeldp.data.features import Features


Numbers = npt.NDArray[np.int64]


def places_in_release(release: Release, canaries: Canaries) -> Numbers:
    """Where each canary is in the release; −1 where it is not."""
    _check_same_data(release, canaries)
    first, ids, by_number = int(release.header["first_row"]), release.arrow_ids, release.header["ids"] is None
    names = canaries.rows if by_number else canaries.ids
    if names is not None and ids is not None:
        found = find(names, ids, "the release", release.id_form)
    elif release.header.get("shuffled") or release.header.get("chosen_by_id"):
        raise InputError(
            "the rows of this release are shuffled, or some were left out, and the canaries have no ids to find them by: plant with ids."
        )
    else:  # rows in the order of their source
        found = canaries.rows - first
        found = np.where((found >= 0) & (found < len(release)), found, -1)
    if (found < 0).all():
        raise InputError("none of the canaries is in this release: does it belong to the same data?")
    return found


def in_release(release: Release | None, canaries: Canaries) -> int | None:
    """How many of the canaries are in the release, if there is one."""
    return None if release is None else int((places_in_release(release, canaries) >= 0).sum())


def _check_same_data(release: Release, canaries: Canaries) -> None:
    if release.mechanism.num_classes <= int(canaries.candidates.max()):
        raise InputError("the canaries have labels that the release's classes do not: they belong to other data.")
    if canaries.data_set is not None and canaries.data_set != release.data_set:
        raise InputError(
            f"the canaries were planted in data set {canaries.data_set!r}, and this release is of {release.data_set!r}."
        )
    if canaries.data_rows is not None and release.header["first_row"] + len(release) > canaries.data_rows:
        raise InputError(
            f"the canaries were planted in {canaries.data_rows:,} rows, and this release is of more: they belong to other data."
        )


# ----------------------------------------------------------------
# Predictions as an auditor gets them, checked: never a silently wrong bound.

Floats = npt.NDArray[np.float64]


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
class PlacedPredictions:
    """Probabilities of all rows, in the order of their file; where the canaries are among them; and what the file says of its model.

    `ids` name the rows; without them, rows are those of the data set, in its order. `release` is the checksum of the release that
    the model was trained on, `model` its own digest.
    """

    values: Floats
    places: Numbers
    ids: Any | None = None
    release: str | None = None
    model: str | None = None

    def beside(self, other: PlacedPredictions) -> Floats:
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


def read_placed(path: Path, canaries: Canaries, *, logits: bool = False) -> PlacedPredictions:
    """Probabilities of all rows, and where the canaries are among them.

    .npy: in the order of the data set. Parquet, as `labeldp predict` writes it: joined by id; where the rows have no ids, by row number.
    """
    read = read_predictions(path)
    ids, about = read.ids, read.about
    table = checked_probabilities(read.values, logits=logits)
    if ids is None:
        return PlacedPredictions(table, by_row_number(table, canaries))
    release, model = (about[name] if isinstance(about.get(name), str) else None for name in ("release", "model"))
    if canaries.ids is None or about.get("named") is False:
        if not np.array_equal(ids.to_numpy(zero_copy_only=False), np.arange(len(ids))):
            raise InputError(
                f"the rows of {path} have ids and the canaries have none, so nobody can find them there: plant with ids (`id_column`)."
            )
        return PlacedPredictions(table, by_row_number(table, canaries), None, release, model)
    places = find(canaries.ids, ids, str(path), canaries.id_form)
    if (places < 0).any():
        raise InputError(
            f"{int((places < 0).sum()):,} of the {len(canaries):,} canaries are not in {path}: ask for the probabilities of all rows."
        )
    return PlacedPredictions(table, places, ids, release, model)

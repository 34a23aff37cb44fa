"""Where rows are: the canaries in a release or in a file of scores, by id or by row number. Every file has an order of its own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from labeldp.audit.canaries import Canaries
from labeldp.errors import InputError
from labeldp.files.ids import find
from labeldp.release.release import Release

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

"""Where rows are: the canaries in a release or in a file of scores, by id or by row number. Every file has an order of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.audit.canaries import Canaries
from labeldp.errors import InputError
from labeldp.release.core import Release

Numbers = npt.NDArray[np.int64]

_PIECE = 1 << 20


def find(names: Any, among: Any, where: str) -> Numbers:
    """The position of each name in `among`, −1 where it is not; compared as text.

    Piece by piece: a release may have a hundred million ids, of which a thousand are asked for.
    """
    wanted = _texts(names)
    if pc.count_distinct(wanted).as_py() != len(wanted):
        raise InputError("the ids that are looked for repeat: each row needs one of its own.")
    found = np.full(len(wanted), -1, dtype=np.int64)
    for start in range(0, len(among), _PIECE):
        which = pc.index_in(_texts(among[start : start + _PIECE]), value_set=wanted)
        here = np.flatnonzero(pc.is_valid(which).to_numpy(zero_copy_only=False))
        names_here = which.drop_null().to_numpy(zero_copy_only=False)
        if (found[names_here] >= 0).any() or len(np.unique(names_here)) != len(names_here):
            raise InputError(f"the ids in {where} repeat: each row needs one of its own.")
        found[names_here] = start + here
    return found


def places_in_release(release: Release, canaries: Canaries) -> Numbers:
    """Where each canary is in the release; −1 where it is not."""
    _check_same_data(release, canaries)
    first, ids, by_number = int(release.header["first_row"]), release.arrow_ids, release.header["ids"] is None
    names = canaries.rows if by_number else canaries.ids
    if names is not None and ids is not None:
        found = find(names, ids, "the release")
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


def _texts(names: Any) -> Any:
    """Ids as Arrow's text, whatever they are."""
    array = names if isinstance(names, (pa.Array, pa.ChunkedArray)) else pa.array(names)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    try:
        return array.cast(pa.string())
    except pa.ArrowException:
        raise InputError(f"ids are whole numbers or text; got {array.type}.") from None

"""Which rows a release covers, and the most that any one row has paid."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost
from labeldp.errors import LedgerError

_BLOCK = 1 << 20


@dataclass(frozen=True)
class RowNumbers:
    """Rows start … stop − 1 of a data set whose rows go by number."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def to_json(self) -> dict[str, Any]:
        """As an entry of the ledger."""
        return {"by": "number", "start": self.start, "stop": self.stop}


@dataclass(frozen=True)
class RowIds:
    """Rows by id: `count` sorted 64-bit keyed hashes, in a file beside the ledger that is named by its digest."""

    count: int
    digest: str
    folder: Path

    def __len__(self) -> int:
        return self.count

    def to_json(self) -> dict[str, Any]:
        """As an entry of the ledger."""
        return {"by": "id", "count": self.count, "digest": self.digest}

    def hashes(self) -> npt.NDArray[np.uint64]:
        """The sorted hashes, mapped from the file."""
        path = self.folder / f"ids-{self.digest}.u64"
        try:
            hashes = np.memmap(path, dtype="<u8", mode="r")
        except (OSError, ValueError):
            raise LedgerError(f"{path}, which belongs to the ledger, is missing or unreadable.") from None
        if len(hashes) != self.count or hashlib.sha256(hashes.data).hexdigest()[:32] != self.digest:
            raise LedgerError(f"{path}, which belongs to the ledger, was altered.")
        return hashes


Rows: TypeAlias = RowNumbers | RowIds


def rows_from_json(data: dict[str, Any], folder: Path) -> Rows:
    """The inverse of `to_json`."""
    if data["by"] == "number":
        return RowNumbers(data["start"], data["stop"])
    return RowIds(data["count"], data["digest"], folder)


def highest(a: Cost, b: Cost) -> Cost:
    """The larger of two costs, number by number."""
    return Cost(*(max(x, y) for x, y in zip(a.numbers(), b.numbers(), strict=True)))


def overlap(a: Rows, b: Rows) -> bool:
    """Whether some row is in both."""
    return heaviest(a, [(b, Cost(pure=1.0))]).pure > 0


def heaviest(rows: Rows, earlier: Iterable[tuple[Rows, Cost]]) -> Cost:
    """The most that one of `rows` has paid in `earlier` releases: costs add where they overlap, number by number."""
    paid = [(other, cost) for other, cost in earlier if type(other) is type(rows)]
    most = Cost()
    for covering in _coverings(rows, [other for other, _ in paid]):
        total = Cost()
        for i in covering:
            total = total + paid[i][1]
        most = highest(most, total)
    return most


def shared_ids(a: Rows, b: Rows) -> int:
    """How many ids two sets of rows have in common; rows that go by number have none."""
    if not (isinstance(a, RowIds) and isinstance(b, RowIds)):
        return 0
    if a.digest == b.digest:
        return a.count
    mine, theirs = a.hashes(), b.hashes()
    return sum(
        int(_is_member(np.asarray(mine[start : start + _BLOCK]), theirs).sum()) for start in range(0, len(mine), _BLOCK)
    )


def _coverings(rows: Rows, others: Sequence[Rows]) -> Iterator[tuple[int, ...]]:
    """For every kind of row in `rows`: which of the others cover it."""
    if isinstance(rows, RowNumbers):
        spans = [(max(o.start, rows.start), min(o.stop, rows.stop)) for o in others if isinstance(o, RowNumbers)]
        for cut in sorted({rows.start, *(start for start, stop in spans if start < stop)}):
            yield tuple(i for i, (start, stop) in enumerate(spans) if start <= cut < stop)
        return
    sets = [o for o in others if isinstance(o, RowIds)]
    if all(o.digest == rows.digest for o in sets):
        yield tuple(range(len(sets)))
        return
    arrays = [o.hashes() for o in sets]
    mine = rows.hashes()
    for start in range(0, len(mine), _BLOCK):
        block = np.asarray(mine[start : start + _BLOCK])
        member = np.stack([_is_member(block, array) for array in arrays], axis=1)
        for pattern in np.unique(member, axis=0):
            yield tuple(int(i) for i in np.flatnonzero(pattern))


def _is_member(block: npt.NDArray[np.uint64], array: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    low, high = np.searchsorted(array, [block[0], block[-1]], side="left")
    near = np.asarray(array[low : high + 1])
    place = np.minimum(np.searchsorted(near, block), max(len(near) - 1, 0))
    return near[place] == block if len(near) else np.zeros(len(block), dtype=bool)

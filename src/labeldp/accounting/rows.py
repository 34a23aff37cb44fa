"""Which rows a release covers, and the most that any one row has paid."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost
from labeldp.accounting.entries import check_whole
from labeldp.errors import InputError, LedgerError
from labeldp.files.ids import CANONICAL
from labeldp.files.schema import decode

_BLOCK = 1 << 20

Keys: TypeAlias = npt.NDArray[np.uint64]


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
    """Rows by id: `count` sorted 64-bit keyed hashes, in a file beside the ledger that is named by its digest.

    form    what was hashed: ids in canonical form or as they were written; None: as written, by an older labeldp
    other   the digest of a second file: [hash, hash in the other form] of the ids whose two forms differ, if any
    """

    count: int
    digest: str
    folder: Path = field(compare=False)
    form: str | None = field(default=None, compare=False)
    other: str | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return self.count

    def to_json(self) -> dict[str, Any]:
        """As an entry of the ledger."""
        form = {} if self.form is None else {"form": self.form, "other": self.other}
        return {"by": "id", "count": self.count, "digest": self.digest, **form}

    def files(self) -> tuple[str, ...]:
        """Their names."""
        hashes = f"ids-{self.digest}.u64"
        return (hashes,) if self.other is None else (hashes, f"ids-{self.other}.pairs")

    def hashes(self) -> Keys:
        """The sorted hashes, mapped from the file."""
        path = self.folder / self.files()[0]
        hashes = _mapped(path, self.digest)
        if len(hashes) != self.count:
            raise _altered(path)
        return hashes

    def pairs(self) -> Keys:
        """[hash, hash in the other form] of the ids that differ in them, sorted."""
        if self.other is None:
            return np.zeros((0, 2), dtype=np.uint64)
        path = self.folder / self.files()[1]
        pairs = _mapped(path, self.other)
        if len(pairs) % 2:
            raise _altered(path)
        return pairs.reshape(-1, 2)

    def in_other_form(self, block: Keys) -> Keys:
        """These hashes, each in the other form."""
        pairs = self.pairs()
        if not len(pairs):
            return block
        place = np.minimum(np.searchsorted(pairs[:, 0], block), len(pairs) - 1)
        return np.where(pairs[place, 0] == block, pairs[place, 1], block)

    def compares_like(self, other: RowIds) -> bool:
        """Whether equal ids have equal hashes in both."""
        return (self.form == CANONICAL) == (other.form == CANONICAL)


Rows: TypeAlias = RowNumbers | RowIds


@dataclass(frozen=True)
class _SaidNumbers:
    by: Literal["number"]
    start: int
    stop: int

    def __post_init__(self) -> None:
        check_whole(self.start)
        check_whole(self.stop, least=self.start + 1)


@dataclass(frozen=True)
class _SaidIds:
    by: Literal["id"]
    count: int
    digest: str
    form: Literal["canonical", "as written"] | None = None
    other: str | None = None

    def __post_init__(self) -> None:
        check_whole(self.count, least=1)
        for digest in (self.digest, self.other):
            if digest is not None and not re.fullmatch("[0-9a-f]+", digest):
                raise InputError("a digest is a part of a file's name: it is hexadecimal.")


def rows_from_json(data: Any, folder: Path) -> Rows:
    """The inverse of `to_json`; a ValueError, if it is none."""
    if isinstance(data, dict) and data.get("by") == "number":
        numbers = decode(_SaidNumbers, data)
        return RowNumbers(numbers.start, numbers.stop)
    ids = decode(_SaidIds, data)
    return RowIds(ids.count, ids.digest, folder, ids.form, ids.other)


def moved_into(folder: Path, rows: Rows | None) -> list[Path]:
    """Move the files of these rows, if they have any that are elsewhere, into the folder that the ledger will read them from."""
    moved: list[Path] = []
    if not isinstance(rows, RowIds) or rows.folder == folder:
        return moved
    for name in rows.files():
        with suppress(FileNotFoundError):  # moved before, as that of the same rows
            os.replace(rows.folder / name, folder / name)
            moved.append(folder / name)
    return moved


def highest(a: Cost, b: Cost) -> Cost:
    """The larger of two costs, number by number."""
    return Cost(*(max(x, y) for x, y in zip(a.numbers(), b.numbers(), strict=True)))


def overlap(a: Rows, b: Rows) -> bool:
    """Whether some row is in both."""
    return any(coverings(a, [b]))


def heaviest(rows: Rows, earlier: Iterable[tuple[Rows, Cost]]) -> Cost:
    """The most that one of `rows` has paid in `earlier` releases: costs add where they overlap, number by number."""
    paid = list(earlier)
    most = Cost()
    for covering in coverings(rows, [other for other, _ in paid]):
        most = highest(most, sum((paid[i][1] for i in covering), Cost()))
    return most


def shared_ids(a: Rows, b: Rows) -> int:
    """How many ids of the first are in the second; rows that go by number have none."""
    if not (isinstance(a, RowIds) and isinstance(b, RowIds)):
        return 0
    if a.digest == b.digest:
        return a.count
    return sum(int(_members(a, block, b).sum()) for block in _blocks(a))


def coverings(rows: Rows, others: Sequence[Rows]) -> Iterator[tuple[int, ...]]:
    """For every kind of row in `rows`: which of the others cover it, by their places in the list.

    Rows that go by number and rows that go by id never cover each other.
    """
    if isinstance(rows, RowNumbers):
        spans = {
            i: (max(other.start, rows.start), min(other.stop, rows.stop))
            for i, other in enumerate(others)
            if isinstance(other, RowNumbers)
        }
        for cut in sorted({rows.start, *(start for start, stop in spans.values() if start < stop)}):
            yield tuple(i for i, (start, stop) in spans.items() if start <= cut < stop)
        return
    sets = {i: other for i, other in enumerate(others) if isinstance(other, RowIds)}
    whole = tuple(i for i, other in sets.items() if other.digest == rows.digest)
    partly = [i for i in sets if i not in whole]
    if not partly:
        yield whole
        return
    for block in _blocks(rows):
        member = np.stack([_members(rows, block, sets[i]) for i in partly], axis=1)
        for pattern in np.unique(member, axis=0):
            yield tuple(sorted((*whole, *(partly[int(i)] for i in np.flatnonzero(pattern)))))


def _blocks(rows: RowIds) -> Iterator[Keys]:
    hashes = rows.hashes()
    for start in range(0, len(hashes), _BLOCK):
        yield np.asarray(hashes[start : start + _BLOCK])


def _members(rows: RowIds, block: Keys, others: RowIds) -> npt.NDArray[np.bool_]:
    """Which of a block of `rows` are in `others`.

    Compared in another form than they were hashed in, two ids are the same if they are in any form that is known of both: an older
    ledger has only what was written, and nobody shall spend twice by an upgrade.
    """
    if rows.compares_like(others):
        return _is_member(block, others.hashes())
    theirs = (others.hashes(), np.sort(others.pairs()[:, 1]))
    either = [_is_member(mine, array) for mine in (block, rows.in_other_form(block)) for array in theirs]
    return np.asarray(np.any(either, axis=0), dtype=bool)


def _is_member(block: Keys, array: Keys) -> npt.NDArray[np.bool_]:
    low, high = np.searchsorted(array, [block.min(), block.max()], side="left")
    near = np.asarray(array[low : high + 1])
    place = np.minimum(np.searchsorted(near, block), max(len(near) - 1, 0))
    return near[place] == block if len(near) else np.zeros(len(block), dtype=bool)


_whole: dict[tuple[Path, str], tuple[int, int, int]] = {}  # files whose digest this process has checked, and as what


def _mapped(path: Path, digest: str) -> Keys:
    """A file of hashes that belongs to a ledger; its content must be what its name says."""
    try:
        hashes = np.memmap(path, dtype="<u8", mode="r")
        status = path.stat()
    except (OSError, ValueError):
        raise LedgerError(f"{path}, which belongs to the ledger, is missing or unreadable.") from None
    stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
    if _whole.get((path, digest)) != stamp:
        if hashlib.sha256(hashes.data).hexdigest()[:32] != digest:
            raise _altered(path)
        _whole[path, digest] = stamp
    return hashes


def _altered(path: Path) -> LedgerError:
    return LedgerError(f"{path}, which belongs to the ledger, was altered.")

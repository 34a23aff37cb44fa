"""Where labels come from: a table or arrays, surveyed once (checked, fingerprinted), then read again to be released."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.accounting.entries import Fingerprint
from labeldp.accounting.rows import RowIds, RowNumbers, Rows
from labeldp.errors import InputError
from labeldp.files.atomic import explain, sync_folder
from labeldp.files.hashing import ColumnHasher, Hashes, HashSorter, IdHasher, text_bytes
from labeldp.files.ids import AS_WRITTEN, CANONICAL, NO_IDS, NOT_COMPARED, comparable, is_id, plain_ids
from labeldp.files.tables import TableFile, bare_name, stated_data_set, stated_planting
from labeldp.private import PrivateLabels
from labeldp.release.classes import Classes
from labeldp.release.rows import Selection, Span

_ARRAY_BATCH = 1 << 20


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows: their labels, ids (an Arrow array) where there are any, and all columns but the label."""

    labels: PrivateLabels
    ids: Any | None
    others: Any | None = None


@dataclass(frozen=True)
class Survey:
    """What is public about a source, known once all of its rows have been checked."""

    selection: Selection
    first_row: int
    fingerprint: Fingerprint
    rows: Rows
    id_type: Any | None
    id_bytes: int
    ids: RowIds | None = None  # all of them, selected or not


class Source(ABC):
    """Labels, with ids or without. `label_column` and `id_column` name them for the record, `planting` the canaries among them.

    `id_form` says how ids are compared: see `labeldp.files.ids`.
    """

    classes: Classes
    label_column: str | None = None
    id_column: str | None = None
    id_form: str = CANONICAL
    planting: str | None = None
    length: int | None = None  # rows, where that is known before they are read

    @abstractmethod
    def batches(self, *, others: bool = False) -> Iterator[Batch]:
        """All rows in order, labels checked. With `others`, the remaining columns too."""

    def stamp(self) -> tuple[int, ...]:
        """Something that changes when the source does: it is read twice, and must be the same both times."""
        return ()

    def survey(
        self,
        key: bytes,
        *,
        folder: Path,
        scratch: Path,
        selected: Selection | tuple[int, int] | None = None,
        progress: Callable[[int], None] = lambda rows: None,
    ) -> Survey:
        """Check every row, fingerprint the source, and note which rows are `selected` (a span of row numbers; default: all).

        Sorted hashes of ids go to `folder`, by way of `scratch`. `progress` is told how many rows have been read.
        """
        chosen = Span(*selected) if isinstance(selected, tuple) else selected
        chosen = chosen.in_form(self.id_form) if chosen is not None else None
        try:
            return self._survey(key, folder, scratch, chosen, progress)
        except OSError as error:  # of the scratch files; a source explains its own
            raise explain(scratch, error) from None

    def _survey(
        self, key: bytes, folder: Path, scratch: Path, selected: Selection | None, progress: Callable[[int], None]
    ) -> Survey:
        with_ids = self.id_column is not None
        if selected is not None and selected.by_id and not with_ids:
            raise InputError("rows are chosen by id here: name the column that holds ids with `id_column`.")
        columns: dict[str, ColumnHasher] = {}
        hasher = IdHasher(key, self.id_form)
        everything, wanted = _IdSorter(scratch / "all", self.id_form), _IdSorter(scratch / "selected", self.id_form)
        count = found = id_bytes = 0
        id_type = None
        for batch in self.batches(others=True):
            if batch.others is not None:
                for name, column in zip(batch.others.schema.names, batch.others.columns, strict=True):
                    columns.setdefault(name, ColumnHasher(key)).add(column)
            if batch.ids is not None:
                id_type = batch.ids.type
                id_bytes += batch.ids.nbytes
                hashes, pairs = hasher.add(_checked_ids(batch.ids, count))
                everything.add(hashes, pairs)
                if selected is not None:
                    chosen = selected.among(batch.ids, count, len(batch.labels))
                    wanted.add(hashes[chosen], pairs[np.isin(pairs[:, 0], hashes[chosen])])
                    found += len(chosen)
            count += len(batch.labels)
            progress(count)
        if count == 0:
            raise InputError("there are no labels: the input has no rows.")
        selection = selected or Span(0, count)
        if not with_ids:
            selection.check(found, count)
        first_row = selection.start if isinstance(selection, Span) else 0
        digest = _digest_columns(columns, key) if columns else None
        if not with_ids:
            fingerprint = Fingerprint("columns" if digest else "name", count, digest, digest)
            assert isinstance(selection, Span)
            rows = RowNumbers(selection.start, selection.stop)
            return Survey(selection, first_row, fingerprint, rows, None, 0)
        ids, repeated = everything.finish(folder)
        if repeated:
            self._refuse_duplicates(hasher, set(repeated))
        selection.check(found, count)
        named = ids if selected is None else wanted.finish(folder)[0]
        sync_folder(folder)
        own, written = hasher.fingerprint(), hasher.fingerprint_as_written()
        fingerprint = Fingerprint("ids", count, own, digest, written if written != own else None)
        return Survey(selection, first_row, fingerprint, named, id_type, id_bytes, ids)

    def _refuse_duplicates(self, hasher: IdHasher, repeated: set[int]) -> None:
        """Name the first row whose id was there before. Two different ids with one hash are no duplicate."""
        seen: dict[bytes, tuple[int, bytes]] = {}
        row = 0
        for batch in self.batches():
            if batch.ids is None:
                return
            suspects = np.flatnonzero(np.isin(hasher.hashes(batch.ids), list(repeated)))
            ids = batch.ids.take(pa.array(suspects))
            texts = zip(text_bytes(comparable(ids, self.id_form)), text_bytes(comparable(ids, AS_WRITTEN)), strict=True)
            for i, (text, written) in zip(suspects, texts, strict=True):
                if text in seen and seen[text][1] != written:
                    raise InputError(
                        f"rows {seen[text][0]} and {row + int(i)} have the same id, written differently: {NOT_COMPARED}. If they are "
                        "different ids, say `ids_as_written=True`."
                    )
                if text in seen:
                    raise InputError(
                        f"row {row + int(i)} has the same id as row {seen[text][0]}; ids must be unique. (Several rows of one "
                        "person cost that person several times ε.)"
                    )
                seen[text] = row + int(i), written
            row += len(batch.labels)


class _IdSorter:
    """Sorts hashes of ids, and the pairs of those that have two, into files of the ledger's folder."""

    def __init__(self, scratch: Path, form: str) -> None:
        self._form, self._count = form, 0
        self._files = scratch.with_suffix(".u64"), scratch.with_suffix(".pairs")
        self._hashes, self._pairs = HashSorter(self._files[0]), HashSorter(self._files[1], width=2)

    def add(self, hashes: Hashes, pairs: Hashes) -> None:
        """Some more, in any order."""
        self._count += len(hashes)
        self._hashes.add(hashes)
        if len(pairs):
            self._pairs.add(pairs)

    def finish(self, folder: Path) -> tuple[RowIds, list[int]]:
        """The rows, and the hashes that occur more than once."""
        digest, repeated = self._hashes.finish()
        os.replace(self._files[0], folder / f"ids-{digest}.u64")
        other = None
        if self._pairs:
            other, _ = self._pairs.finish()
            os.replace(self._files[1], folder / f"ids-{other}.pairs")
        return RowIds(self._count, digest, folder, self._form, other), repeated


def _checked_ids(ids: Any, first_row: int) -> Any:
    if ids.null_count:
        raise InputError(f"row {first_row + pc.index(pc.is_null(ids), True).as_py()} has no id.")
    if not is_id(ids.type):
        raise InputError(f"{NO_IDS}; the id column holds {ids.type}.")
    return ids


def _digest_columns(columns: dict[str, ColumnHasher], key: bytes) -> str:
    total = hashlib.blake2b(key=key, digest_size=16)
    for name in sorted(columns):
        total.update(name.encode() + b"\0" + columns[name].digest())
    return total.hexdigest()


class TableSource(Source):
    """The label column (and id column) of a file."""

    def __init__(
        self, table: TableFile, label: str, classes: Classes, id_column: str | None = None, id_form: str = CANONICAL
    ) -> None:
        for name in (label, id_column):
            if name is not None and name not in table.columns:
                raise table.lacks(name)
        if label == id_column:
            raise InputError(f"{label!r} cannot be the label and the id at once: ids are public.")
        self.table, self.classes, self.label_column, self.id_column = table, classes, label, id_column
        self.id_form = id_form
        self.planting, self.length = stated_planting(table), table.length

    def stamp(self) -> tuple[int, ...]:
        """The file's identity, size and time of change."""
        status = self.table.path.stat()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def batches(self, *, others: bool = False) -> Iterator[Batch]:
        """From the file, batch by batch."""
        assert self.label_column is not None
        used = [self.label_column, *([self.id_column] if self.id_column else [])]
        public = [name for name in self.table.columns if name != self.label_column] if others else []
        row = 0
        for batch in self.table.batches(
            list(dict.fromkeys([*used, *public])), missing_is_text=self.classes.names or (), ids=self.id_column
        ):
            if batch.num_rows == 0:
                continue
            labels = self.classes.encode(batch.column(self.label_column), row)
            ids = plain_ids(batch.column(self.id_column)) if self.id_column else None
            yield Batch(labels, ids, batch.select(public) if public else None)
            row += batch.num_rows


class ArraySource(Source):
    """Labels, and perhaps ids, in memory."""

    def __init__(
        self,
        labels: PrivateLabels,
        classes: Classes,
        ids: Sequence[Any] | npt.NDArray[Any] | None = None,
        label: str | None = None,
        planting: str | None = None,
        id_form: str = CANONICAL,
    ) -> None:
        self.labels, self.classes, self.label_column, self.planting = labels, classes, label, planting
        self.id_form = id_form
        self.length = len(labels)
        self._ids = None
        if ids is not None:
            try:
                self._ids = plain_ids(pa.array(ids))
            except (pa.ArrowException, TypeError, ValueError):
                raise InputError(f"{NO_IDS}, in a one-dimensional array.") from None
            if len(self._ids) != len(labels):
                raise InputError(f"there are {len(labels):,} labels but {len(self._ids):,} ids.")
            self.id_column = "id"

    def batches(self, *, others: bool = False) -> Iterator[Batch]:
        """From memory."""
        for start in range(0, len(self.labels), _ARRAY_BATCH):
            stop = min(start + _ARRAY_BATCH, len(self.labels))
            yield Batch(self.labels.slice(start, stop), self._ids[start:stop] if self._ids is not None else None)


def data_set_of(table: TableFile, given: str | None) -> tuple[str, str | None]:
    """What the ledger knows these labels by, and what the file itself says, if it does: it must not escape its budget."""
    stated = stated_data_set(table)
    if stated and given not in (None, stated):
        raise InputError(
            f"this file holds labels of the data set {stated!r}, some of them planted; under another name they would escape its budget. "
            f"If the ledger knows these rows as {given!r}, plant again with `data_set={given!r}`."
        )
    return given or stated or Path(bare_name(table.path)).stem, stated


def refuse_telling_ids(table: TableFile, id_column: str | None, classes: Classes) -> None:
    """Ids are public: one that names a folder after a class (`cat/0001.png`) gives the label away."""
    if id_column not in table.columns or classes.names is None:
        return
    names = {name.strip().casefold() for name in classes.names}
    for batch in table.batches([id_column], ids=id_column):
        column = plain_ids(batch.column(0))
        if not is_id(column.type):
            return  # refused later, in a sentence
        texts = comparable(column, AS_WRITTEN)
        if not pc.any(pc.match_substring(texts, "/")).as_py():
            continue
        parts = {part.strip().casefold() for text in texts.to_pylist() if text for part in text.split("/")[:-1]}
        if parts & names:
            raise InputError(
                f"ids in column {id_column!r} have a folder that is called like a class: ids are public, and would give the labels "
                "away. Give the rows other ids."
            )

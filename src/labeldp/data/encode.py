"""Anybody's table as number columns: an encoding is fitted on one file, kept in what it wrote, and applied to others.

Features are public by assumption. Columns that are not, the labels, are named, and then never read; what a column that *is* read
gives away of them, nobody can see without them: a name like a label's is all that is warned of.

A file is read two or three times, batch by batch. Medians are exact, for which 4 bytes are held for each cell of a number or date
column: 20 such columns of 10 million rows take 800 MB.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from labeldp.data.columns import (
    CATEGORIES,
    MOST_CODES,
    MOST_VALUES,
    ONE_HOT,
    Column,
    Rules,
    clean,
    fitted_columns,
    read_cells,
    rows_at_once,
)
from labeldp.errors import InputError
from labeldp.files.atomic import look_up, place_file
from labeldp.files.ids import NO_IDS, is_id, plain_ids
from labeldp.files.tables import ParquetTable, TableFile, open_table

_KEY, _VERSION = b"labeldp.encoding", 2  # 1: no column is kept, ids are the file's own
ORDER = (
    "rows stay in the file's order, which may be that of the labels: `id_column` writes them in the order of their ids."
)
NUMBERS = (
    "ids are row numbers, which tell the file's order: if that is the order of the labels (sorted by outcome, say), they give the labels "
    "away. Then shuffle the file first, and release from the shuffled one."
)
_SHORT_NAME = 3  # letters; a label called y is in every third word


@dataclass(frozen=True)
class Written:
    """How many rows were encoded; and of text columns, how many hold what the fitted file did not: zero in all its columns, or, where
    the column is kept, NaN."""

    rows: int
    new: dict[str, int]


@dataclass(frozen=True)
class Encoding:
    """What becomes of each column of a file. `labels` are never read; the `id` is kept as it is, in front.

    `numbered` says that the file has no such column: the id is a row's number in it, from 0.
    """

    columns: tuple[Column, ...]
    id: str | None = None
    labels: tuple[str, ...] = ()
    numbered: bool = False

    def __post_init__(self) -> None:
        """Names must be able to stand side by side."""
        seen = {*self.labels, self.id}
        for name in self.outputs:
            if name in seen:
                raise InputError(f"two columns would be called {name!r}; rename a column of the file.")
            seen.add(name)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of all feature columns."""
        return tuple(name for column in self.columns for name in column.outputs)

    @property
    def kept(self) -> bool:
        """Whether what is missing stays so."""
        return any(column.kept for column in self.columns)

    @property
    def codes(self) -> dict[str, int]:
        """Of each column whose numbers are codes, how many there are."""
        return {column.name: column.codes for column in self.columns if column.codes}

    @classmethod
    def fit(
        cls,
        path: Path,
        *,
        labels: Sequence[str],
        id_column: str | None = None,
        most_values: int | None = None,
        categories: str = ONE_HOT,
        add_id: str | None = None,
    ) -> Encoding:
        """Look at every column but the labels.

        categories   "one-hot": a text becomes a column for each value, and what is missing one more. "keep", for trees: every column
                     becomes one, a text's values codes from 0, the most frequent first; what is missing is NaN
        most_values  one-hot: texts of more values (nothing is one, too) are left out; keep: the rarest share the last code
        add_id       the file has no ids: rows get their number, as a column of this name
        """
        if categories not in CATEGORIES:
            raise InputError(f"`categories` is {' or '.join(CATEGORIES)}; got {categories!r}.")
        most = MOST_VALUES[categories] if most_values is None else most_values
        if not 2 <= most <= MOST_CODES:
            raise InputError(
                f"a text column has at least 2 values to tell apart, and at most {MOST_CODES:,}; got {most} (`most_values`)."
            )
        table, labels = open_table(path), tuple(dict.fromkeys(labels))
        _check_names(table, labels, id_column)
        _check_added(table, add_id, id_column)
        names = [name for name in table.columns if name not in labels and name != id_column]
        columns = tuple(fitted_columns(table, names, labels, id_column, Rules(categories, most)))
        encoding = cls(columns, id_column or add_id, labels, numbered=add_id is not None)
        if not encoding.outputs:
            said = "; ".join(f"{column.name!r} is {column.became()}" for column in encoding.columns[:5])
            raise InputError(f"nothing of {path} is left that could be a feature: {said}.")
        return encoding

    def apply(self, path: Path) -> Iterator[Any]:
        """Record batches: the id, then float32 columns. Columns that the encoding does not know are not read."""
        return self._batches(path, Counter())

    def _batches(self, path: Path, new: Counter[str]) -> Iterator[Any]:
        """The same; texts that are new are counted."""
        table = open_table(path)
        used = [column for column in self.columns if column.outputs]
        front = [] if self.id is None or self.numbered else [self.id]
        _check_added(table, self.id if self.numbered else None)
        wanted = [*front, *(column.name for column in used)]
        lacking = [name for name in wanted if name not in table.columns]
        if lacking:
            raise InputError(f"{path} lacks columns that its encoding has: {', '.join(lacking[:8])}.")
        known = {column.name for column in self.columns} | {self.id}
        never = [name for name in table.columns if name not in known]
        row = 0
        for part in read_cells(table, wanted, never, rows_at_once(len(self.outputs))):
            arrays = [_ids(part.column(name), path, row) for name in front]
            if self.numbered:
                arrays = [pa.array(np.arange(row, row + part.num_rows))]
            for column in used:
                cells = clean(part.column(column.name), csv=not isinstance(table, ParquetTable))
                arrays += map(pa.array, column.encode(cells, f"column {column.name!r} of {path}", row))
                new[column.name] += column.count_new(cells)
            yield pa.record_batch(arrays, names=[*self._front, *self.outputs])
            row += part.num_rows
        if row == 0:
            raise InputError(f"{path} has no rows.")

    def write(self, path: Path, out: Path) -> Written:
        """Encode a file into a Parquet file that carries the encoding; all of it is in memory at once, as for training.

        Rows are written in the order of their ids: the file's own may be that of the labels, and would undo a release's --shuffle.
        """
        check_out(out, path)
        new = Counter[str]()
        table = pa.Table.from_batches(list(self._batches(path, new)))
        if self.id is not None and not self.numbered:
            table = table.sort_by(self.id)
            names = table.column(self.id)
            if pc.count_distinct(names).as_py() != len(names):
                raise InputError(f"ids repeat in column {self.id!r} of {path}: each row needs one of its own.")
        kept = json.dumps(self.to_json(), ensure_ascii=False).encode()
        table = table.replace_schema_metadata({_KEY: kept})
        place_file(out, lambda file: pq.write_table(table, file, row_group_size=1 << 16))
        return Written(table.num_rows, {name: rows for name, rows in new.items() if rows})

    @property
    def _front(self) -> list[str]:
        return [] if self.id is None else [self.id]

    def to_json(self) -> dict[str, Any]:
        """What the file's metadata keep: in version 1, which older labeldp reads too, where that can say it."""
        columns = [column.to_json() for column in self.columns]
        data = {"version": 1, "id": self.id, "labels": list(self.labels), "columns": columns}
        return {**data, "version": _VERSION, "numbered": self.numbered} if self.kept or self.numbered else data

    @classmethod
    def load(cls, path: Path) -> Encoding:
        """The encoding that a file of `write` carries."""
        table = open_table(path)
        encoding = cls.of_table(table)
        if encoding is None:
            raise InputError(f"{path} carries no encoding: `labeldp features` did not write it, or it was rewritten.")
        if [*encoding._front, *encoding.outputs] != list(table.columns):
            raise damaged(path)
        return encoding

    @classmethod
    def of_table(cls, table: TableFile) -> Encoding | None:
        """What the file says of itself, which may be another party's and have other columns by now; None where it says nothing."""
        metadata = pq.read_schema(table.path).metadata if isinstance(table, ParquetTable) else None
        if not metadata or _KEY not in metadata:
            return None
        data = _parsed(metadata[_KEY])
        if isinstance(data.get("version"), int) and data["version"] > _VERSION:
            raise InputError(f"the encoding in {table.path} is from a newer labeldp.")
        try:
            columns, numbered = tuple(map(Column.from_json, data["columns"])), data.get("numbered", False)
            encoding = cls(columns, data["id"], tuple(data["labels"]), numbered)
            names = [*encoding._front, *encoding.labels, *(column.name for column in encoding.columns)]
            whole = len(set(names)) == len(names) and all(isinstance(name, str) for name in names)
            whole = whole and isinstance(numbered, bool) and not (numbered and encoding.id is None)
        except (KeyError, TypeError, ValueError, AttributeError):
            whole = False
        if not whole:
            raise damaged(table.path)
        return encoding

    def warnings(self) -> list[str]:
        """Columns that are called as if they gave a label away; rows whose order may."""
        return [
            *(
                f"column {column.name!r} has the label's name in its own: does it give the label away?"
                for column in self.columns
                if column.outputs and any(_names(column.name, label) for label in self.labels)
            ),
            *self._gaps(),
            *([ORDER] if self.id is None and self.labels else []),
            *([NUMBERS] if self.numbered and self.labels else []),
        ]

    def _gaps(self) -> list[str]:
        gaps = [column.name for column in self.columns if column.outputs and column.missing]
        if not gaps or not self.labels:
            return []
        named = ", ".join(repr(name) for name in gaps[:8])
        return [
            f"what is missing becomes a feature, of {named}: a column that is filled in only after the outcome gives the label away. Name "
            "such a one among `labels` too, and it is not read."
        ]


def check_out(out: Path, path: Path) -> None:
    """A place for the features that is neither another format nor the file that is read."""
    if out.suffix != ".parquet":
        raise InputError(f"features are written as Parquet; let `out` end in .parquet, not as {out.name!r} does.")
    there, read = look_up(out), look_up(path)
    if there is not None and read is not None and os.path.samestat(there, read):
        raise InputError(f"{out} is the file that is read; name another `out`.")


def _check_names(table: TableFile, labels: Sequence[str], id_column: str | None) -> None:
    """Every named column is there: a label that is misspelt would be a feature."""
    named = [*labels, *([] if id_column is None else [id_column])]
    unknown = next((name for name in named if name not in table.columns), None)
    if unknown is not None:
        # A CSV file without a header has a label in its first line; one that has a column as named has a header.
        if not table.columns_are_public and not any(name in table.columns for name in named):
            raise table.lacks(unknown, holds_labels=bool(labels))
        no_label = " If it has no secret column, say `no_label=True`." if unknown in labels else ""
        raise InputError(
            f"{table.path} has no column {unknown!r}; its columns are {', '.join(table.columns)}.{no_label}"
        )
    if id_column in labels:
        raise InputError(f"{id_column!r} cannot be the label and the id at once: ids are public.")


def _check_added(table: TableFile, add_id: str | None, id_column: str | None = None) -> None:
    """A column of row numbers is one that the file has not."""
    if add_id is None:
        return
    if id_column is not None:
        raise InputError(f"`add_id` is for a file without ids, and {id_column!r} is one; leave one of the two out.")
    if add_id in table.columns:
        raise InputError(
            f"{table.path} has a column {add_id!r} already: if it names the rows, say `id_column={add_id!r}`, else add another name."
        )
    if not add_id.strip():
        raise InputError("`add_id` is the name of the column that is added; got an empty one.")


def damaged(path: Path) -> InputError:
    """What a file says of its own columns cannot be."""
    return InputError(f"the encoding in {path} is damaged, or its columns were changed; make the file again.")


def _ids(cells: Any, path: Path, first_row: int) -> Any:
    """Ids as they are; none may be missing."""
    cells = plain_ids(cells)
    if not is_id(cells.type):
        raise InputError(f"{NO_IDS}; the id column of {path} holds {cells.type}.")
    nothing = pc.is_null(cells) if pa.types.is_integer(cells.type) else pc.fill_null(pc.equal(cells, ""), True)
    if pc.any(nothing).as_py():
        raise InputError(f"row {first_row + pc.index(nothing, True).as_py()} of {path} has no id.")
    return cells.combine_chunks()


def _parsed(text: bytes) -> dict[str, Any]:
    """A JSON object; an empty one for whatever is none."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _names(column: str, label: str) -> bool:
    """Whether a column's name has the label's in it: as a word of its own, if that is short."""
    words = "".join(c if c.isalnum() else " " for c in column.casefold()).split()
    name = "".join(c for c in label.casefold() if c.isalnum())
    if not name:
        return label in column
    return name in words or (len(name) > _SHORT_NAME and name in "".join(words))

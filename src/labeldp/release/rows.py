"""Which rows of a file are released. Nobody looks at a label to choose them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.errors import InputError
from labeldp.files.hashing import IdHasher
from labeldp.files.ids import AS_WRITTEN, CANONICAL, as_id_text, comparable, is_id, plain_ids
from labeldp.files.tables import open_table

Positions = npt.NDArray[np.intp]
_PUBLIC_KEY = b"labeldp: parts of a data set, by id"


class Selection(ABC):
    """Rows, chosen by number or by id."""

    by_id: ClassVar[bool] = True

    def in_form(self, form: str) -> Selection:
        """The same rows, where ids are compared in this form."""
        return self

    @abstractmethod
    def among(self, ids: Any | None, first: int, count: int) -> Positions:
        """Which of `count` rows from row `first` on are chosen, as positions among them."""

    @abstractmethod
    def check(self, found: int, count: int) -> None:
        """Raise, once all `count` rows were seen and `found` were chosen, if these cannot be the rows that were meant."""


@dataclass(frozen=True)
class Span(Selection):
    """Rows start … stop − 1."""

    start: int
    stop: int
    by_id: ClassVar[bool] = False

    def among(self, ids: Any | None, first: int, count: int) -> Positions:
        """By number."""
        return np.arange(max(0, self.start - first), min(count, self.stop - first), dtype=np.intp)

    def check(self, found: int, count: int) -> None:
        """All of them must be there."""
        if not 0 <= self.start < self.stop <= count:
            raise InputError(f"rows {self.start}:{self.stop} are not among the {count:,} rows (they count from 0).")


@dataclass(frozen=True)
class Part(Selection):
    """Part `number` (from 1) of `parts` random ones of about equal size: by a public hash of the id, the same at any time."""

    number: int
    parts: int
    form: str = CANONICAL

    def in_form(self, form: str) -> Part:
        """Another form, another hash."""
        return replace(self, form=form)

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.parts or self.parts < 2:
            raise InputError(
                f"`rows='{self.number}/{self.parts}'` is no part of a whole; 1/2 and 2/2 are the halves of a data set, 1/3 is a third."
            )

    def among(self, ids: Any | None, first: int, count: int) -> Positions:
        """By hash."""
        hashes = IdHasher(_PUBLIC_KEY, self.form).hashes(ids)
        return np.flatnonzero(hashes % np.uint64(self.parts) == np.uint64(self.number - 1))

    def check(self, found: int, count: int) -> None:
        """One at least."""
        if found == 0:
            raise InputError(f"none of the {count:,} rows is in part {self.number} of {self.parts}: too few rows.")


@dataclass(frozen=True)
class Named(Selection):
    """The rows with these ids."""

    ids: Any = field(repr=False)  # an Arrow array of unique texts
    form: str = AS_WRITTEN

    def in_form(self, form: str) -> Named:
        """Two ways to write an id name one row."""
        return Named(comparable(self.ids, form).unique(), form)

    @classmethod
    def of(cls, ids: Any) -> Named:
        """From whole numbers or texts; a number and its decimal text are the same id."""
        try:
            names = pa.array(ids) if not isinstance(ids, (pa.Array, pa.ChunkedArray)) else ids
        except (pa.ArrowException, TypeError, ValueError):
            raise InputError("row ids are whole numbers or texts.") from None
        names = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
        names = plain_ids(names)
        if len(names) == 0 or names.null_count or not is_id(names.type):
            raise InputError("row ids are whole numbers or texts, at least one, and none missing.")
        return cls(as_id_text(names).unique())

    @classmethod
    def read(cls, path: Path, id_column: str | None) -> Named:
        """One id a line in a .txt file; else a table's column of that name (`id`, where labeldp wrote it)."""
        if path.suffix == ".txt":
            try:
                lines = path.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError):
                raise InputError(f"{path} is no text of ids, one a line.") from None
            return cls.of([line.strip() for line in lines if line.strip()])
        table = open_table(path, for_ids=True)
        names = [name for name in (id_column, "id") if name in table.columns]
        if not names:
            raise InputError(
                f"{path} has no column {id_column or 'id'!r} in its first line that names the rows to release. (Ids alone, one a line, "
                "go into a .txt file.)"
            )
        return cls.of(pa.chunked_array([batch.column(0) for batch in table.batches(names[:1], ids=names[0])]))

    def among(self, ids: Any | None, first: int, count: int) -> Positions:
        """By id."""
        found = pc.is_in(comparable(ids, self.form), value_set=self.ids)
        return np.flatnonzero(found.to_numpy(zero_copy_only=False))

    def check(self, found: int, count: int) -> None:
        """All of them must be there."""
        if found != len(self.ids):
            raise InputError(
                f"{len(self.ids) - found:,} of the {len(self.ids):,} rows that are named are not in the file with the labels."
            )


def read_rows(text: str | None, id_column: str | None) -> Selection | None:
    """What `--rows` says: a:b, a part 1/2, or a file of ids."""
    if text is None:
        return None
    if span := re.fullmatch(r"(-?\d*):(-?\d+)", text):
        return Span(int(span[1] or 0), int(span[2]))
    if part := re.fullmatch(r"(\d+)/(\d+)", text):
        return Part(int(part[1]), int(part[2]))
    if not Path(text).is_file():
        raise InputError(
            f"`rows` takes a range a:b of row numbers from 0, a random part such as 1/2, or a file of ids; there is no file {text!r}."
        )
    return Named.read(Path(text), id_column)

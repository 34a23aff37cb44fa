"""What becomes of one column: fitted on a file's cells, kept as JSON, applied to the cells of others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.data.cells import DATE, NUMBER, TEXT, as_numbers, as_text, clean, column_kinds, read_cells, rows_at_once
from labeldp.errors import InputError
from labeldp.release.tables import ParquetTable, Table

LEFT_OUT = "left out"
_PANDAS_INDEX = ("", "__index_level_0__", "Unnamed: 0")
_COUNTED = 100_000  # different texts of a column; beyond, there are "more"


@dataclass(frozen=True)
class Column:
    """One column of a file.

    kind     number, date, text or left out
    median   of a number or date (in days since 1970): stands where nothing is
    values   of a text, each of which becomes a column
    missing  something was missing in the fitted file: that becomes a column, too
    why      it is left out
    """

    name: str
    kind: str
    median: float = 0.0
    values: tuple[str, ...] = ()
    missing: bool = False
    why: str = ""

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the columns that it becomes."""
        if self.kind == LEFT_OUT:
            return ()
        plain = [f"{self.name}={value}" for value in self.values] if self.kind == TEXT else [self.name]
        return (*plain, f"{self.name} is missing") if self.missing else tuple(plain)

    def encode(self, cells: Any, where: str, first_row: int = 0) -> list[npt.NDArray[np.float32]]:
        """An array for each of `outputs`. A text that is new is zero everywhere."""
        arrays: list[npt.NDArray[Any]]
        if self.kind == TEXT:
            cells = as_text(cells, where)
            codes = pc.fill_null(pc.index_in(cells, value_set=pa.array(self.values, pa.string())), -1).to_numpy()
            arrays, nothing = [codes == code for code in range(len(self.values))], pc.is_null(cells).to_numpy()
        else:
            numbers = as_numbers(cells, self.kind, where, first_row)
            nothing = np.isnan(numbers)
            arrays = [np.where(nothing, np.float32(self.median), numbers)]
        return [array.astype(np.float32) for array in ([*arrays, nothing] if self.missing else arrays)]

    def became(self) -> str:
        """What becomes of it, in words."""
        if self.kind == LEFT_OUT:
            return f"left out: {self.why}"
        if self.kind == TEXT:
            shown = self.outputs if len(self.outputs) <= 3 else (self.outputs[0], "…", self.outputs[-1])
            return f"text: {len(self.outputs)} columns of 0 and 1, {', '.join(shown)}"
        plain = "number" if self.kind == NUMBER else "date: days since 1970"
        return f"{plain}; missing: the median {self.median:g}, and 1 in {self.outputs[1]!r}" if self.missing else plain

    def to_json(self) -> dict[str, Any]:
        """What `from_json` takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Column:
        """Checked: whatever else the JSON may be raises a ValueError, KeyError or TypeError."""
        column = cls(**{**data, "values": tuple(data["values"])})
        texts, median = (column.name, column.kind, column.why, *column.values), column.median
        if not all(isinstance(text, str) for text in texts) or column.kind not in (NUMBER, DATE, TEXT, LEFT_OUT):
            raise ValueError("not a column")
        if not isinstance(median, float) or not math.isfinite(median) or abs(median) > float(np.finfo(np.float32).max):
            raise ValueError("not a median")
        if not isinstance(column.missing, bool) or len(set(column.values)) != len(column.values):
            raise ValueError("not a column")
        return column


class _Numbers:
    """Finite numbers, all of them, as float32."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind, self.parts, self.missing = name, kind, [np.zeros(0, np.float32)], False

    def add(self, cells: Any, where: str, first_row: int) -> None:
        values = as_numbers(cells, self.kind, where, first_row)
        there = values[~np.isnan(values)]
        self.missing |= len(there) < len(values)
        self.parts.append(there)

    def column(self, rows: int, id_column: str | None, most_values: int) -> Column:
        values = np.concatenate(self.parts).astype(np.float64)
        if len(values) == 0:
            return Column(self.name, LEFT_OUT, why="no row holds anything")
        if not self.missing and values.min() == values.max():
            return Column(self.name, LEFT_OUT, why="all rows hold the same")
        return Column(self.name, self.kind, median=float(np.median(values)), missing=self.missing)


class _Texts:
    """Different texts, up to a number of them."""

    def __init__(self, name: str) -> None:
        self.name, self.seen, self.missing = name, set[str](), False

    def add(self, cells: Any, where: str, first_row: int) -> None:
        self.missing |= cells.null_count > 0
        if len(self.seen) <= _COUNTED:
            self.seen.update(pc.unique(as_text(cells, where).drop_null()).to_pylist())

    def column(self, rows: int, id_column: str | None, most_values: int) -> Column:
        count = len(self.seen)
        if count == 0:
            return Column(self.name, LEFT_OUT, why="no row holds anything")
        if count + self.missing == 1:
            return Column(self.name, LEFT_OUT, why="all rows hold the same")
        if count + self.missing <= most_values:
            return Column(self.name, TEXT, values=tuple(sorted(self.seen)), missing=self.missing)
        different = f"more than {_COUNTED:,}" if count > _COUNTED else f"{count:,}"
        hint = f"`most_values={count + self.missing}` would keep it."
        if count > min(_COUNTED, rows // 2):
            hint = (
                f"If it names the rows, say `id_column={self.name!r}`." if id_column is None else "Does it name rows?"
            )
        return Column(self.name, LEFT_OUT, why=f"{different} different values in {rows:,} rows. {hint}")


def fitted_columns(
    table: Table, names: Sequence[str], never: Sequence[str], id_column: str | None, most_values: int
) -> Iterator[Column]:
    """The columns of these names, fitted on all rows of the file."""
    usable = [name for name in names if name not in _PANDAS_INDEX]
    kinds = column_kinds(table, usable, never) if usable else {}
    found = {
        name: _Texts(name) if kind == TEXT else _Numbers(name, kind)
        for name, kind in kinds.items()
        if kind in (NUMBER, DATE, TEXT)
    }
    rows = 0
    for part in read_cells(table, list(found), never, rows_at_once(len(found))):
        for name, cells in found.items():
            given = clean(part.column(name), csv=not isinstance(table, ParquetTable))
            cells.add(given, f"column {name!r} of {table.path}", rows)
        rows += part.num_rows
    if rows == 0:
        raise InputError(f"{table.path} has no rows.")
    for name in names:
        if name in found:
            yield found[name].column(rows, id_column, most_values)
        elif name in kinds:
            yield Column(name, LEFT_OUT, why=f"{kinds[name]} is neither number, date nor text")
        else:
            yield Column(name, LEFT_OUT, why="an index that pandas wrote says where a row stood, which is no feature")

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
import pyarrow.parquet as pq

from labeldp.errors import InputError
from labeldp.files.ids import as_id_text, is_id
from labeldp.files.tables import ParquetTable, TableFile

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
    table: TableFile, names: Sequence[str], never: Sequence[str], id_column: str | None, most_values: int
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


# ----------------------------------------------------------------
# Columns of a file as numbers or text, in batches whose size no secret column can change.
#
# A CSV reader's own batches end where so many bytes end, and those of the label are among them.

NUMBER, DATE, TEXT = "number", "date", "text"
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")  # in a CSV file, quoted or not

_CELLS_AT_ONCE, _FEWEST_ROWS, _MOST_ROWS = 1 << 23, 1 << 10, 1 << 16
_TIME_ZONE = r"[T ]\d.*(Z|[+-]\d\d(:?\d\d)?)$"
_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def rows_at_once(columns: int) -> int:
    """How many rows of so many columns are worked on together."""
    return max(_FEWEST_ROWS, min(_MOST_ROWS, _CELLS_AT_ONCE // max(columns, 1)))


def read_cells(table: TableFile, columns: Sequence[str], never: Sequence[str], rows: int) -> Iterator[Any]:
    """Tables of exactly `rows` rows (the last has fewer) with these columns; those of `never` are not even parsed."""
    if not columns:  # pyarrow would take an empty list for all columns, and so read the label
        raise InputError(f"{table.path} has no column that could be a feature.")
    _refuse_shared_paths(table, columns, never)
    kept: list[Any] = []
    for batch in table.batches(columns, missing_is_text=MISSING):
        kept.append(pa.Table.from_batches([batch]).select(list(columns)))
        if sum(part.num_rows for part in kept) >= rows:
            whole = pa.concat_tables(kept)
            while whole.num_rows >= rows:
                yield whole.slice(0, rows)
                whole = whole.slice(rows)
            kept = [whole]
    if kept and (rest := pa.concat_tables(kept)).num_rows:
        yield rest


def _refuse_shared_paths(table: TableFile, columns: Sequence[str], never: Sequence[str]) -> None:
    """Parquet's columns are chosen by dotted path: a column `a.b` also reads what is called b in a nested column `a`."""
    if not isinstance(table, ParquetTable):
        return
    schema = pq.read_schema(table.path)
    for other in never:
        dotted = next((name for name in columns if name.startswith(f"{other}.")), None)
        if dotted is not None and other in schema.names and pa.types.is_nested(schema.field(other).type):
            raise InputError(
                f"column {dotted!r} of {table.path} cannot be read without {other!r}, which is nested; rename it."
            )


def column_kinds(table: TableFile, columns: Sequence[str], never: Sequence[str]) -> dict[str, str]:
    """What each column holds: number, date or text; else the name of a type that is none of them.

    Parquet says it. Of a CSV file all rows are read: a column is what every one of its cells can be, first a number (`true` and
    `false` are 1 and 0), then a date as ISO 8601 has it, else text.
    """
    if isinstance(table, ParquetTable):
        schema = pq.read_schema(table.path)
        return {name: _kind_of_type(schema.field(name).type) for name in columns}
    possible = {name: [NUMBER, DATE] for name in columns}
    for part in read_cells(table, columns, never, rows_at_once(len(columns))):
        for name, kinds in possible.items():
            if kinds:
                cells = clean(part.column(name), csv=True)
                possible[name] = [kind for kind in kinds if _is(cells, kind)]
    return {name: (kinds or [TEXT])[0] for name, kinds in possible.items()}


def _kind_of_type(kind: Any) -> str:
    if pa.types.is_dictionary(kind):
        return _kind_of_type(kind.value_type)
    if any(
        is_a(kind) for is_a in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    ):
        return NUMBER
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return DATE
    # What else can name rows is text, or becomes it: UUIDs.
    return TEXT if is_id(kind) or pa.types.is_null(kind) else str(kind)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def clean(column: Any, *, csv: bool) -> Any:
    """Plain cells. Of a CSV file, without the spaces around them, and null where a word says that nothing is there."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _kind_of_type(column.type) == TEXT:
        column = column.cast(pa.string()) if pa.types.is_null(column.type) else as_id_text(column).cast(pa.string())
    if not csv:
        return column
    trimmed = pc.utf8_trim_whitespace(column)
    return pc.if_else(pc.is_in(trimmed, value_set=pa.array(MISSING)), pa.scalar(None, pa.string()), trimmed)


def _is(cells: Any, kind: str) -> bool:
    try:
        _parsed(cells, kind)
    except pa.ArrowInvalid:
        return False
    return True


def as_numbers(cells: Any, kind: str, where: str, first_row: int) -> npt.NDArray[np.float32]:
    """float32, dates as days since 1970; NaN for what is missing, not finite, or too large for float32."""
    if not _is_text(cells.type) and _kind_of_type(cells.type) != kind:
        raise InputError(f"{where} holds {cells.type}; where its encoding was made it held {_SEVERAL[kind]}.")
    try:
        parsed = _parsed(cells, kind)
    except pa.ArrowInvalid:
        row = first_row + next(i for i in range(len(cells)) if not _is(cells.slice(i, 1), kind))
        raise InputError(f"row {row} of {where} is no {kind}; where its encoding was made, all were.") from None
    with np.errstate(over="ignore"):
        values = np.array(parsed.to_numpy(), dtype=np.float64).astype(np.float32)
    values[~np.isfinite(values)] = np.nan
    return values


_SEVERAL = {NUMBER: "numbers", DATE: "dates", TEXT: "text"}


def as_text(cells: Any, where: str) -> Any:
    """The cells, if they are text; numbers would be spelt in a way of our own."""
    if not _is_text(cells.type):
        raise InputError(f"{where} holds {cells.type}; where its encoding was made it held text.")
    return cells


def _parsed(cells: Any, kind: str) -> Any:
    """float64, null where a cell is. Each cell is read on its own: in which batch it comes does not matter."""
    if kind == DATE:
        return _days(_timestamps(cells) if _is_text(cells.type) else cells)
    try:
        return pc.cast(cells, pa.float64(), safe=False)
    except pa.ArrowInvalid:
        lower = pc.utf8_lower(cells)
        ones = pc.if_else(pc.equal(lower, "true"), "1", cells)
        return pc.cast(pc.if_else(pc.equal(lower, "false"), "0", ones), pa.float64())


def _timestamps(cells: Any) -> Any:
    """ISO 8601, to the microsecond; a time with a zone as UTC, one without as it is."""
    short = pc.replace_substring_regex(cells, r"(\.\d{6})\d+", r"\1")
    zoned, nothing = pc.match_substring_regex(short, _TIME_ZONE), pa.scalar(None, pa.string())
    here = pc.cast(pc.if_else(zoned, nothing, short), pa.timestamp("us"))
    there = pc.cast(pc.if_else(zoned, short, nothing), pa.timestamp("us", "UTC"))
    return pc.coalesce(here, pc.cast(there, pa.timestamp("us")))


def _days(cells: Any) -> Any:
    kind = cells.type
    if pa.types.is_date32(kind):
        return pc.cast(pc.cast(cells, pa.int32()), pa.float64())
    unit = "ms" if pa.types.is_date64(kind) else kind.unit
    return pc.divide(pc.cast(pc.cast(cells, pa.int64()), pa.float64(), safe=False), float(_DAY[unit]))

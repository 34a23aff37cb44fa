"""What becomes of one column: fitted on a file's cells, kept as JSON, applied to the cells of others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
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
_LEAST = 4096  # hashes, by which many more texts are counted to within some percent

ONE_HOT, KEEP = CATEGORIES = (
    "one-hot",
    "keep",
)  # what becomes of texts: a column for each value, or one column of codes
MOST_VALUES = {ONE_HOT: 50, KEEP: 1000}
MOST_CODES = 1 << 24  # whole numbers up to here are exact in float32


@dataclass(frozen=True)
class Column:
    """One column of a file.

    kind     number, date, text or left out
    median   of a number or date (in days since 1970): stands where nothing is
    values   of a text, each of which becomes a column
    missing  something was missing in the fitted file: that becomes a column, too
    why      it is left out
    kept     it becomes one column whatever it holds, NaN where nothing is; a text's values are codes, in their order
    rest     texts that are not among the values share one more code
    buckets  a text has no values: its codes are hashes, so many
    """

    name: str
    kind: str
    median: float = 0.0
    values: tuple[str, ...] = ()
    missing: bool = False
    why: str = ""
    kept: bool = False
    rest: bool = False
    buckets: int = 0

    @property
    def codes(self) -> int:
        """How many codes there are, of a text that is kept; 0 for all else."""
        return (self.buckets or len(self.values) + self.rest) if self.kept and self.kind == TEXT else 0

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the columns that it becomes."""
        if self.kind == LEFT_OUT:
            return ()
        if self.kept:
            return (self.name,)
        plain = [f"{self.name}={value}" for value in self.values] if self.kind == TEXT else [self.name]
        return (*plain, f"{self.name} is missing") if self.missing else tuple(plain)

    def encode(self, cells: Any, where: str, first_row: int = 0) -> list[npt.NDArray[np.float32]]:
        """An array for each of `outputs`. A text that is new is zero everywhere; kept, NaN."""
        arrays: list[npt.NDArray[Any]]
        if self.kept:
            if self.kind != TEXT:
                return [as_numbers(cells, self.kind, where, first_row)]
            codes = self._codes(as_text(cells, where))
            return [np.where(codes < 0, np.float32(np.nan), codes.astype(np.float32))]
        if self.kind == TEXT:
            cells = as_text(cells, where)
            codes = self._codes(cells)
            arrays, nothing = [codes == code for code in range(len(self.values))], pc.is_null(cells).to_numpy()
        else:
            numbers = as_numbers(cells, self.kind, where, first_row)
            nothing = np.isnan(numbers)
            arrays = [np.where(nothing, np.float32(self.median), numbers)]
        return [array.astype(np.float32) for array in ([*arrays, nothing] if self.missing else arrays)]

    def count_new(self, cells: Any) -> int:
        """How many of a text's cells the fitted file had nothing like; `encode` has taken them."""
        if self.kind != TEXT:
            return 0
        unknown = self._codes(cells) < 0
        if self.kept or self.missing:
            unknown &= ~pc.is_null(cells).to_numpy()
        return int(unknown.sum())

    def _codes(self, cells: Any) -> npt.NDArray[np.int64]:
        """Of each text its value's place; −1 for what is missing, or new."""
        if self.buckets:
            found = (cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells).dictionary_encode()
            codes = pa.array(_hashes(found.dictionary.to_pylist()) % np.uint64(self.buckets)).take(found.indices)
        else:
            codes = pc.index_in(cells, value_set=pa.array(self.values, pa.string()))
            if self.rest:
                codes = pc.if_else(pc.is_null(cells), codes, pc.fill_null(codes, len(self.values)))
        return np.asarray(pc.fill_null(codes.cast(pa.int64()), -1).to_numpy())

    def became(self) -> str:
        """What becomes of it, in words."""
        if self.kind == LEFT_OUT:
            return f"left out: {self.why}"
        gaps = "; missing stays missing" if self.kept and self.missing else ""
        if self.kept and self.kind == TEXT:
            if self.buckets:
                return f"text: codes 0 to {self.buckets - 1}, hashes of more than {_COUNTED:,} values{gaps}"
            known = "the most frequent values, the last of all others" if self.rest else f"its {self.codes} values"
            return f"text: codes 0 to {self.codes - 1}, of {known}{gaps}"
        if self.kind == TEXT:
            shown = self.outputs if len(self.outputs) <= 3 else (self.outputs[0], "…", self.outputs[-1])
            return f"text: {len(self.outputs)} columns of 0 and 1, {', '.join(shown)}"
        plain = "number" if self.kind == NUMBER else "date: days since 1970"
        if self.kept:
            return plain + gaps
        return f"{plain}; missing: the median {self.median:g}, and 1 in {self.outputs[1]!r}" if self.missing else plain

    def to_json(self) -> dict[str, Any]:
        """What `from_json` takes. Without what version 1 did not have, where it says nothing."""
        data = asdict(self)
        return data if self.kept else {name: data[name] for name in data if name not in ("kept", "rest", "buckets")}

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
        if not isinstance(column.kept, bool) or not isinstance(column.rest, bool) or type(column.buckets) is not int:
            raise ValueError("not a column")
        coded = column.kept and column.kind == TEXT
        if (column.kept and column.kind == LEFT_OUT) or (coded and not 1 <= column.codes <= MOST_CODES):
            raise ValueError("not codes")
        if (column.rest or column.buckets) and (not coded or (column.buckets and (column.rest or column.values))):
            raise ValueError("not codes")
        return column


@dataclass(frozen=True)
class Rules:
    """How columns are fitted: what becomes of texts, and up to how many values."""

    categories: str = ONE_HOT
    most_values: int = MOST_VALUES[ONE_HOT]

    @property
    def keep(self) -> bool:
        """Whether texts become codes, and what is missing stays so."""
        return self.categories == KEEP


class _Numbers:
    """Finite numbers, all of them, as float32."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind, self.parts, self.missing = name, kind, [np.zeros(0, np.float32)], False

    def add(self, cells: Any, where: str, first_row: int) -> None:
        values = as_numbers(cells, self.kind, where, first_row)
        there = values[~np.isnan(values)]
        self.missing |= len(there) < len(values)
        self.parts.append(there)

    def column(self, rows: int, id_column: str | None, rules: Rules) -> Column:
        values = np.concatenate(self.parts).astype(np.float64)
        if len(values) == 0:
            return Column(self.name, LEFT_OUT, why="no row holds anything")
        if not self.missing and values.min() == values.max():
            return Column(self.name, LEFT_OUT, why="all rows hold the same")
        if rules.keep:
            return Column(self.name, self.kind, missing=self.missing, kept=True)
        return Column(self.name, self.kind, median=float(np.median(values)), missing=self.missing)


class _Texts:
    """Different texts and how often each is there, up to a number of them; beyond it, about how many there are."""

    def __init__(self, name: str, rules: Rules) -> None:
        self.name, self.seen, self.missing, self.rules = name, Counter[str](), False, rules
        self.least = np.zeros(0, np.uint64)

    @property
    def many(self) -> bool:
        return len(self.seen) > _COUNTED

    def add(self, cells: Any, where: str, first_row: int) -> None:
        self.missing |= cells.null_count > 0
        texts = as_text(cells, where).drop_null()
        if not self.many:
            found = pc.value_counts(texts)
            self.seen.update(dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True)))
            if self.many and self.rules.keep:
                self._note(self.seen)
        elif self.rules.keep:
            self._note(pc.unique(texts).to_pylist())

    def _note(self, texts: Iterable[str]) -> None:
        """Of n different hashes, uniform in 0 to 1, the k-th smallest is about k/n (Bar-Yossef et al. 2002)."""
        self.least = np.unique(np.concatenate([self.least, _hashes(texts)]))[:_LEAST]

    def different(self) -> int:
        """How many: counted, or estimated where there are many and that matters."""
        if not len(self.least):
            return len(self.seen)
        return max(len(self.seen), round((len(self.least) - 1) / (float(self.least[-1]) / 2**64)))

    def column(self, rows: int, id_column: str | None, rules: Rules) -> Column:
        count = len(self.seen)
        if count == 0:
            return Column(self.name, LEFT_OUT, why="no row holds anything")
        if count + self.missing == 1:
            return Column(self.name, LEFT_OUT, why="all rows hold the same")
        different = f"more than {_COUNTED:,}" if self.many else f"{count:,}"
        hint = f"`most_values={count + self.missing}` would keep it."
        if rules.keep:
            if self.different() <= max(MOST_VALUES[ONE_HOT], rows // 2):
                return self._coded()
        elif count + self.missing <= rules.most_values:
            return Column(self.name, TEXT, values=tuple(sorted(self.seen)), missing=self.missing)
        if rules.keep or count > min(_COUNTED, rows // 2):
            hint = (
                f"If it names the rows, say `id_column={self.name!r}`." if id_column is None else "Does it name rows?"
            )
        return Column(self.name, LEFT_OUT, why=f"{different} different values in {rows:,} rows. {hint}")

    def _coded(self) -> Column:
        """The most frequent first, equally frequent ones by their text; the rarest share a code where there are too many."""
        most = self.rules.most_values
        if self.many:
            return Column(self.name, TEXT, missing=self.missing, kept=True, buckets=most)
        values = sorted(self.seen, key=lambda text: (-self.seen[text], text))
        rest = len(values) > most
        return Column(self.name, TEXT, values=tuple(values[: most - rest]), missing=self.missing, kept=True, rest=rest)


def _hashes(texts: Iterable[str]) -> npt.NDArray[np.uint64]:
    """BLAKE2b with 8 bytes and no key, big-endian: features are public, and anybody can compute it."""
    data = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(data, ">u8").astype(np.uint64)


def fitted_columns(
    table: TableFile, names: Sequence[str], never: Sequence[str], id_column: str | None, rules: Rules
) -> Iterator[Column]:
    """The columns of these names, fitted on all rows of the file."""
    usable = [name for name in names if name not in _PANDAS_INDEX]
    kinds = column_kinds(table, usable, never) if usable else {}
    found = {
        name: _Texts(name, rules) if kind == TEXT else _Numbers(name, kind)
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
            yield found[name].column(rows, id_column, rules)
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

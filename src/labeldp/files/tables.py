"""Label tables as they come: Parquet and CSV, read batch by batch. Errors never quote a cell."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from labeldp.errors import InputError
from labeldp.files.atomic import explain, look_up
from labeldp.files.ids import without_views
from labeldp.files.ours import our_file

_BATCH_BYTES = 32 << 20
_MAX_BATCH_ROWS = 1 << 20
_BLOCK_BYTES = 4 << 20
_HEADER_BYTES = 1 << 16  # read at first; more where the header is longer
_COMPRESSED = (".gz", ".bz2", ".zst")
# What an empty cell may look like in a CSV file.
_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")


class TableFile(ABC):
    """A file with named columns that can be read more than once."""

    path: Path
    columns: tuple[str, ...]
    columns_are_public: bool  # whether an error may list them: a CSV file without a header has labels there
    length: int | None = None  # rows, where that is known before they are read

    def lacks(self, name: str, *, holds_labels: bool = True) -> InputError:
        """There is no column of this name. What the file has instead is said where no cell of a label can be among it."""
        if self.columns_are_public:
            shown = ", ".join(self.columns[:12]) + (", …" if len(self.columns) > 12 else "")
            return InputError(f"{self.path} has no column {name!r}; its columns are {shown}.")
        alike = [column for column in self.columns if column.strip().casefold() == name.strip().casefold()]
        if alike:
            return InputError(f"{self.path} has no column {name!r} in its first line. Did you mean {alike[0]!r}?")
        if self.looks_headless():
            return InputError(f"{self.path} has no column {name!r}: {self.headless(holds_labels=holds_labels)}")
        hint = f"`head -n 1 {self.path}` shows what it has" if holds_labels else f"that is {_quoted(self.columns)}"
        return InputError(f"{self.path} has no column {name!r} in its first line; {hint}.")

    def looks_headless(self, *, all_cells: bool = False) -> bool:
        """Whether the first line looks like data: a number, or nothing, stands where a name should, in one cell or in `all_cells`."""
        numbers = [kind != "text" for kind in map(_kind, self.columns)]
        return not self.columns_are_public and not _counts(self.columns) and (all if all_cells else any)(numbers)

    def headless(self, *, holds_labels: bool) -> str:
        """Say so, with the kinds of its cells; the cells themselves only where none can be a label: people paste errors into tickets."""
        kinds = [_kind(cell) for cell in self.columns]
        many = ", …" if len(kinds) > 12 else ""
        shown = f"its {len(kinds)} cells: {', '.join(kinds[:12])}{many}" if holds_labels else _quoted(self.columns)
        return (
            f"its first line looks like data, not like a header ({shown}). Put a line with the columns' names in front."
        )

    @abstractmethod
    def batches(
        self, columns: Sequence[str], missing_is_text: Sequence[str] = (), ids: str | None = None
    ) -> Iterator[Any]:
        """Record batches with these columns; `missing_is_text` are words that do not mean an empty cell.

        In the column `ids` no word does: somebody is called NA.
        """


def open_table(path: Path, *, for_ids: bool = False) -> TableFile:
    """The file as a table, by its ending; one clear sentence if it is none.

    Released rows are one `for_ids` alone: what else they hold are observations, which are no labels, and no features.
    """
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        raise InputError("the label file's name is not UTF-8 text; rename it.") from None
    status = look_up(path)
    if status is None:
        raise InputError(f"there is no file {path}.")
    if path.is_dir():
        raise InputError(
            f"{path} is a directory; name one Parquet or CSV file. (Directories of them are not read yet.)"
        )
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise explain(path, error, "read") from None
    if not head:
        raise InputError(f"{path} is empty.")
    if head == b"PAR1":
        ours = our_file(path)
        if ours is not None and (ours.statistic or (ours.rows_released and not for_ids)):
            raise InputError(f"{path} is {ours.words}; it is no table of labels or features.")
        return ParquetTable(path)
    if bare_name(path).lower().endswith((".csv", ".tsv", ".txt", ".data")):
        return CSVTable(path)
    raise InputError(f"{path} is neither Parquet nor named as CSV (.csv, .tsv, also with .gz).")


def stated_data_set(table: TableFile) -> str | None:
    """The data set that a file says it is of: one with planted canaries does, so that it does not escape the budget."""
    return _stated(table, b"labeldp.data_set")


def stated_planting(table: TableFile) -> str | None:
    """Which planting of canaries a file holds: the same rows with others, or with none, are other labels."""
    return _stated(table, b"labeldp.planting")


def _stated(table: TableFile, key: bytes) -> str | None:
    metadata = pq.read_schema(table.path).metadata if isinstance(table, ParquetTable) else None
    return metadata[key].decode("utf-8", "replace") if metadata and key in metadata else None


def bare_name(path: Path) -> str:
    """The file's name without the ending of a compressed file."""
    name = path.name
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return name


class ParquetTable(TableFile):
    """A Parquet file."""

    columns_are_public = True

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as file:
            self.columns = tuple(file.schema_arrow.names)
            self.length = rows = file.metadata.num_rows
            size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
        # Big cells (images beside the label) make for fewer rows at a time.
        self._batch_rows = max(64, min(_MAX_BATCH_ROWS, _BATCH_BYTES * max(rows, 1) // max(size, 1)))
        if len(set(self.columns)) != len(self.columns):
            raise InputError(f"{path} has two columns of the same name.")

    def _open(self) -> Any:
        try:
            return pq.ParquetFile(self.path, pre_buffer=False)
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            raise InputError(f"{self.path} is not a whole Parquet file: damaged or cut short.") from None

    def batches(
        self, columns: Sequence[str], missing_is_text: Sequence[str] = (), ids: str | None = None
    ) -> Iterator[Any]:
        """Record batches of bounded size."""
        damaged = False
        with self._open() as file:
            try:
                for batch in file.iter_batches(batch_size=self._batch_rows, columns=list(columns), use_threads=False):
                    yield _usual_layout(batch)
            except (pa.ArrowException, OSError):
                damaged = True
        if damaged:
            raise InputError(f"{self.path} is damaged: its columns cannot be read.")


def _usual_layout(batch: Any) -> Any:
    columns = [without_views(column) for column in batch.columns]
    if all(new is old for new, old in zip(columns, batch.columns, strict=True)):
        return batch
    return pa.record_batch(columns, names=batch.schema.names)


class CSVTable(TableFile):
    """A CSV file with a header line, perhaps compressed; cells are text."""

    columns_are_public = False

    def __init__(self, path: Path) -> None:
        self.path = path
        header = self._read_header()
        if header is None:
            raise InputError(f"{path} is not a CSV file in UTF-8 with a header line of at most 4 MB.")
        self.columns, self._delimiter, self._no_rows = header
        if len(set(self.columns)) != len(self.columns):
            if self.looks_headless():
                raise InputError(f"{path} has two columns of the same name: {self.headless(holds_labels=True)}")
            raise InputError(f"{path} has two columns of the same name (is its first line a header?).")

    def _read_header(self) -> _Header | None:
        """None on any error: its message might quote a cell."""
        start, header = b"", None
        try:
            with self._stream() as stream:
                while header is None and len(start) < _BLOCK_BYTES:
                    more = stream.read(max(_HEADER_BYTES, len(start)))
                    start += more
                    header = _first_record(start, ended=not more)
        except (UnicodeDecodeError, StopIteration, csv.Error, pa.ArrowException, OSError):
            return None
        return header

    def _stream(self) -> Any:
        return pa.input_stream(os.fspath(self.path), compression="detect")

    def batches(
        self, columns: Sequence[str], missing_is_text: Sequence[str] = (), ids: str | None = None
    ) -> Iterator[Any]:
        """Record batches of text columns."""
        literal: Iterator[Any] | None = None
        for number, batch in enumerate(self._batches(columns, missing_is_text)):
            if ids is not None and literal is None and batch.column(ids).null_count:
                # Arrow knows words for nothing in all columns or in none: ids are read once more, in the same batches.
                literal = itertools.islice(self._batches([ids], [word for word in _MISSING if word]), number, None)
            if ids is not None and literal is not None:
                batch = batch.set_column(batch.schema.get_field_index(ids), ids, next(literal).column(0))
            yield batch

    def _batches(self, columns: Sequence[str], missing_is_text: Sequence[str]) -> Iterator[Any]:
        if self._no_rows:
            return
        wrong: list[int] = []

        def note(row: Any) -> str:  # its text would show the label: only its number is kept
            wrong.append(row.number if row.number is not None else -1)
            return "error"

        damaged, quotes = False, 0
        try:
            with self._stream() as stream:
                counted = _QuoteCounter(stream)
                yield from pyarrow.csv.open_csv(
                    pa.PythonFile(counted, mode="r"),
                    read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
                    parse_options=pyarrow.csv.ParseOptions(
                        delimiter=self._delimiter,
                        newlines_in_values=True,
                        # In a single column an empty line is a row without a label.
                        ignore_empty_lines=len(self.columns) > 1,
                        invalid_row_handler=note,
                    ),
                    convert_options=pyarrow.csv.ConvertOptions(
                        include_columns=list(columns),
                        column_types={name: pa.string() for name in columns},
                        strings_can_be_null=True,
                        quoted_strings_can_be_null=False,
                        null_values=[word for word in _MISSING if word not in missing_is_text],
                    ),
                )
                quotes = counted.quotes
        except (pa.ArrowException, OSError, KeyError):
            damaged = True  # Arrow's message quotes the row: what we say is raised outside, without it in its context
        if wrong:
            # Arrow counts lines from 1 and the header is one of them.
            place = f"row {wrong[0] - 2}" if wrong[0] >= 2 else "a row"
            raise InputError(f"{place} of {self.path} does not have {len(self.columns)} cells.")
        if damaged:
            raise InputError(
                f"{self.path} cannot be read as CSV: damaged, not UTF-8, or with a cell of more than 4 MB."
            )
        if quotes % 2:
            raise InputError(f"{self.path} has a quoted cell that never ends, and swallows the rows behind it.")


_Header: TypeAlias = tuple[tuple[str, ...], str, bool]  # the columns, the delimiter, and whether nothing follows


def _first_record(start: bytes, *, ended: bool) -> _Header | None:
    """The header, from the beginning of a file (all of it, if that has `ended`); None if more of it is needed."""
    text = codecs.getincrementaldecoder("utf-8-sig")().decode(start, ended)
    first_line = re.split(r"[\r\n]", re.sub(r'"[^"]*"?', "", text), maxsplit=1)[0]
    delimiter = max(",;\t|", key=first_line.count)
    lines = io.StringIO(text, newline="")
    columns = tuple(next(csv.reader(lines, delimiter=delimiter)))
    rest = lines.read()
    nothing_follows = not rest.strip("\r\n")
    if nothing_follows and not ended:  # the line may go on
        return None
    return columns, delimiter, nothing_follows and text.count('"') % 2 == 0


def _kind(cell: str) -> str:
    """What a cell looks like."""
    if cell.strip() in _MISSING:
        return "nothing"
    try:
        float(cell)
    except ValueError:
        return "text"
    return "number"


def _counts(cells: Sequence[str]) -> bool:
    """Whether these are numbers in a row, which pandas writes over columns without names, and people over years."""
    whole = all(cell.isascii() and cell.isdigit() for cell in cells)
    return whole and [int(cell) for cell in cells] == [int(cells[0]) + i for i in range(len(cells))]


def _quoted(cells: Sequence[str]) -> str:
    """The cells of a line, for people: not too many, none too long, none that would not print."""
    shown = [cell if len(cell) <= 20 else f"{cell[:19]}…" for cell in cells[:12]]
    return repr(", ".join(shown) + (", …" if len(cells) > 12 else ""))


class _QuoteCounter(io.RawIOBase):
    """Passes a stream on and counts its quotes: an odd number means that a quoted cell is not closed.

    Arrow says nothing about it, and would take all that follows for one cell.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.quotes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = bytes(self._stream.read(size) if size >= 0 else self._stream.read())
        self.quotes += data.count(b'"')
        return data

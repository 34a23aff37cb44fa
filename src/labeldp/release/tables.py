"""Label tables as they come: Parquet and CSV, read batch by batch. Errors never quote a cell."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from labeldp.errors import InputError

_BATCH_BYTES = 32 << 20
_MAX_BATCH_ROWS = 1 << 20
# What an empty cell may look like in a CSV file.
_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")


class Table(ABC):
    """A file with named columns that can be read more than once."""

    path: Path
    columns: tuple[str, ...]

    @abstractmethod
    def batches(self, columns: Sequence[str], missing_is_text: Sequence[str] = ()) -> Iterator[Any]:
        """Record batches with these columns; `missing_is_text` are words that do not mean an empty cell."""


def open_table(path: Path) -> Table:
    """The file as a table, by its ending; one clear sentence if it is none."""
    if path.is_dir():
        raise InputError(f"{path} is a directory; name a Parquet or CSV file.")
    if not path.exists():
        raise InputError(f"there is no file {path}.")
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    if not head:
        raise InputError(f"{path} is empty.")
    if head == b"PAR1":
        return ParquetTable(path)
    name = path.name.lower()
    for ending in (".gz", ".bz2", ".zst"):
        name = name.removesuffix(ending)
    if name.endswith((".csv", ".tsv", ".txt", ".data")):
        return CSVTable(path)
    raise InputError(f"{path} is neither Parquet nor named as CSV (.csv, .tsv, also with .gz).")


class ParquetTable(Table):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as file:
            self.columns = tuple(file.schema_arrow.names)
            rows = file.metadata.num_rows
            size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
        # Big cells (images beside the label) make for fewer rows at a time.
        self._batch_rows = max(64, min(_MAX_BATCH_ROWS, _BATCH_BYTES * max(rows, 1) // max(size, 1)))
        if len(set(self.columns)) != len(self.columns):
            raise InputError(f"{path} has two columns of the same name.")

    def _open(self) -> Any:
        try:
            return pq.ParquetFile(self.path, pre_buffer=False)
        except (pa.ArrowException, OSError):
            raise InputError(f"{self.path} is not a whole Parquet file: damaged or cut short.") from None

    def batches(self, columns: Sequence[str], missing_is_text: Sequence[str] = ()) -> Iterator[Any]:
        """Record batches of bounded size."""
        with self._open() as file:
            try:
                yield from file.iter_batches(batch_size=self._batch_rows, columns=list(columns), use_threads=False)
            except (pa.ArrowException, OSError):
                raise InputError(f"{self.path} is damaged: its columns cannot be read.") from None


class CSVTable(Table):
    """A CSV file with a header line, perhaps compressed; cells are text."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._stream() as stream:
            try:
                header = bytes(stream.read(1 << 16)).split(b"\n", 1)[0].decode("utf-8-sig").rstrip("\r")
            except (UnicodeDecodeError, IndexError, pa.ArrowException, OSError):
                raise InputError(f"{path} is not a CSV file in UTF-8.") from None
        self._delimiter = max(",;\t|", key=header.count)
        self.columns = tuple(next(csv.reader([header], delimiter=self._delimiter)))
        if len(set(self.columns)) != len(self.columns):
            raise InputError(f"{path} has two columns of the same name (is its first line a header?).")

    def _stream(self) -> Any:
        try:
            return pa.input_stream(str(self.path), compression="detect")
        except (pa.ArrowException, OSError):
            raise InputError(f"{self.path} cannot be read.") from None

    def batches(self, columns: Sequence[str], missing_is_text: Sequence[str] = ()) -> Iterator[Any]:
        """Record batches of text columns."""
        wrong: list[int] = []

        def note(row: Any) -> str:  # its text would show the label: only its number is kept
            wrong.append(row.number if row.number is not None else -1)
            return "error"

        try:
            with self._stream() as stream:
                reader = pyarrow.csv.open_csv(
                    stream,
                    read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=4 << 20),
                    parse_options=pyarrow.csv.ParseOptions(
                        delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=note
                    ),
                    convert_options=pyarrow.csv.ConvertOptions(
                        include_columns=list(columns),
                        column_types={name: pa.string() for name in columns},
                        strings_can_be_null=True,
                        quoted_strings_can_be_null=False,
                        null_values=[word for word in _MISSING if word not in missing_is_text],
                    ),
                )
                yield from reader
        except (pa.ArrowException, OSError, KeyError):
            if wrong:
                # Arrow counts lines from 1 and the header is one of them.
                place = f"row {wrong[0] - 2}" if wrong[0] >= 2 else "a row"
                raise InputError(f"{place} of {self.path} does not have {len(self.columns)} cells.") from None
            raise InputError(f"{self.path} cannot be read as CSV: damaged, or not UTF-8.") from None

"""Predictions: files of class probabilities by row, as `labeldp predict` writes them.

Parquet has `id` and a list column `probabilities`; what the file says of its model (the certificate of what it was trained on, whether
ids are names or row numbers) is JSON in its metadata. .npy has a matrix, one row of the data set after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from labeldp.errors import InputError
from labeldp.files.atomic import place_file
from labeldp.files.ours import our_file

Part: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[np.float32]]  # ids, and a row of probabilities for each
_ROUNDING = 1e-3  # of sums in half precision


@dataclass(frozen=True)
class Predictions:
    """As the file has them, unchecked. `ids` is an Arrow array; None: rows go by number. `about` is what the file says of its model."""

    values: npt.NDArray[Any]
    ids: Any | None
    about: dict[str, Any]


def read_predictions(path: Path) -> Predictions:
    """By its ending."""
    if path.suffix != ".npy":
        return _from_parquet(path)
    try:
        with path.open("rb") as file:
            values = np.load(file, allow_pickle=False)
        if not isinstance(values, np.ndarray):
            raise ValueError
        return Predictions(values, None, {})
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except (OSError, ValueError, EOFError, BadZipFile):
        raise InputError(f"{path} is not a NumPy array of numbers.") from None


def _from_parquet(path: Path) -> Predictions:
    try:
        table = pq.read_table(path)
        lists = table.column("probabilities").combine_chunks()
        ids = table.column("id").combine_chunks()
        if lists.null_count or pc.count_distinct(pc.list_value_length(lists)).as_py() != 1:
            raise InputError(f"the lists of probabilities in {path} must all be there and of one length.")
        values = lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), -1)
        about = json.loads((table.schema.metadata or {}).get(b"labeldp", b"{}"))
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except (pa.ArrowException, OSError, KeyError, ValueError, AttributeError, RecursionError):
        ours = our_file(path)
        what = f"{path} is {ours.words}; it is no file" if ours is not None else f"{path} is no file"
        raise InputError(f"{what} of probabilities: .npy, or Parquet as `labeldp predict` writes it.") from None
    return Predictions(values, ids, about if isinstance(about, dict) else {})


def checked_probabilities(values: npt.ArrayLike, *, logits: bool = False) -> npt.NDArray[np.float64]:
    """(rows, classes), each row a distribution; from logits where they are said to be."""
    table = np.asarray(values)
    if table.ndim != 2 or table.shape[1] < 2 or table.dtype.kind not in "fiu":
        raise InputError(
            f"probabilities are one row of numbers an example, one column a class; got shape {table.shape}."
        )
    table = table.astype(np.float64)
    bad = ~np.isfinite(table).all(axis=1)
    if bad.any():
        raise InputError(f"row {int(np.argmax(bad))} of the probabilities holds a number that is NaN or infinite.")
    if logits:
        table -= table.max(axis=1, keepdims=True)
        np.exp(table, out=table)
        table /= table.sum(axis=1, keepdims=True)
        return table
    bad = (table < 0).any(axis=1) | (np.abs(table.sum(axis=1) - 1) > _ROUNDING)
    if bad.any():
        raise InputError(
            f"row {int(np.argmax(bad))} of the probabilities is no distribution (not negative, adding up to 1). If these are "
            "logits, say so: `logits=True`."
        )
    return table


def write_predictions(
    path: Path, ids: npt.NDArray[Any], probabilities: npt.NDArray[np.float32], about: dict[str, Any] | None = None
) -> None:
    """Parquet with what it says of its model, or, by its ending, .npy in the order of the rows."""
    write_parts(path, [(ids, probabilities)], about)


def write_parts(path: Path, parts: Iterable[Part], about: dict[str, Any] | None = None) -> int:
    """The same from parts, of which there is one at least, and of which one is held at a time; returns the number of rows."""
    rows = 0

    def write(file: IO[bytes]) -> None:
        nonlocal rows
        rows = _write_array(file, parts) if path.suffix == ".npy" else _write_table(file, parts, about)

    place_file(path, write)
    return rows


def _write_table(file: IO[bytes], parts: Iterable[Part], about: dict[str, Any] | None) -> int:
    rows, writer = 0, None
    try:
        for ids, probabilities in parts:
            lists = pa.FixedSizeListArray.from_arrays(pa.array(probabilities.reshape(-1)), probabilities.shape[1])
            table = pa.table({"id": pa.array(ids), "probabilities": lists})
            if about is not None:
                table = table.replace_schema_metadata({b"labeldp": json.dumps(about).encode()})
            writer = writer or pq.ParquetWriter(file, table.schema)
            writer.write_table(table)
            rows += len(ids)
    finally:
        if writer is not None:
            writer.close()
    return rows


def _write_array(file: IO[bytes], parts: Iterable[Part]) -> int:
    """As `np.save`; how many rows there are is written in front once they are there. NumPy leaves room for it."""
    rows = width = begin = 0

    def write_header() -> int:
        file.seek(0)
        described = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
        np.lib.format.write_array_header_1_0(file, described)
        return file.tell()

    for _, probabilities in parts:
        if not begin:
            width = probabilities.shape[1]
            begin = write_header()
        file.write(np.ascontiguousarray(probabilities, "<f4").data)
        rows += len(probabilities)
    end = file.tell()
    assert write_header() == begin
    file.seek(end)
    return rows

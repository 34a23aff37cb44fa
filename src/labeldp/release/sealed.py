"""Files of one noisy statistic: Parquet with a few arrays of numbers, a description, and a checksum over both.

Arrays of one length are columns, a number a row; else each is one list, and the description says its shape. Readable by any Parquet tool.
The checksum finds damage, not forgery. What the numbers mean is known to `labeldp.statistics`; that they are whole can be seen without.
Numbers lie there plainly, eight bytes each: a file that would unfold to more than it is on the disk is none of ours.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.accounting.journal import canonical
from labeldp.errors import FileFormatError, InputError
from labeldp.files.atomic import look_up
from labeldp.files.ours import our_file
from labeldp.release.header import FORMAT, is_common, is_text, stated_statistic

_HEADER = b"labeldp"
_CHECKSUM = b"labeldp.checksum"
_KINDS = {"i8": np.dtype("<i8"), "f8": np.dtype("<f8")}

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Sealed:
    """What such a file holds, found to be whole; nothing is known of what it means."""

    header: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]
    checksum: str


def is_sealed_header(header: Any) -> bool:
    """Whether every field of a statistic's file is there and of its kind."""
    statistic, arrays = header.get("statistic"), header.get("arrays")
    return (
        is_common(header)
        and isinstance(statistic, dict)
        and is_text(statistic.get("name"))
        and isinstance(arrays, dict)
        and all(is_text(name) and _is_array(said) for name, said in arrays.items())
    )


def _is_array(said: Any) -> bool:
    return (
        isinstance(said, dict)
        and isinstance(said.get("kind"), str)
        and said["kind"] in _KINDS
        and isinstance(said.get("shape"), list)
        and 1 <= len(said["shape"]) <= 3
        and all(isinstance(one, int) and not isinstance(one, bool) and 0 <= one < 1 << 40 for one in said["shape"])
    )


def as_arrays(arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    """Whole numbers and floats of 64 bits."""
    return {
        name: np.ascontiguousarray(one, dtype="<f8" if one.dtype.kind == "f" else "<i8") for name, one in arrays.items()
    }


def shapes(arrays: Arrays) -> dict[str, Any]:
    """What a header says of its arrays."""
    return {name: {"kind": one.dtype.str[1:], "shape": list(one.shape)} for name, one in as_arrays(arrays).items()}


def _checksum(header: Mapping[str, Any], arrays: Arrays) -> str:
    total = hashlib.sha256(canonical(dict(header)).encode())
    for name in sorted(arrays):
        total.update(hashlib.sha256(arrays[name].tobytes()).digest())
    return total.hexdigest()


def write_sealed(file: IO[bytes], header: dict[str, Any], arrays: Arrays) -> str:
    """Into an open file, which stays open; returns the checksum. The layout depends on the arrays' shapes alone."""
    given = as_arrays(arrays)
    checksum = _checksum(header, given)
    metadata = {_HEADER: canonical(header).encode(), _CHECKSUM: checksum.encode()}
    columns = [pa.array(one.reshape(-1)) for one in given.values()]
    if not _in_columns(header):
        columns = [pa.array([one.to_numpy()], pa.list_(one.type)) for one in columns]
    schema = pa.schema([pa.field(name, one.type) for name, one in zip(given, columns, strict=True)], metadata=metadata)
    table = pa.table(columns, schema=schema)
    with pq.ParquetWriter(
        file, schema, compression="NONE", use_dictionary=False, write_statistics=False, store_schema=True
    ) as writer:
        writer.write_table(table)
    return checksum


def _in_columns(header: Mapping[str, Any]) -> bool:
    found = [said["shape"] for said in header["arrays"].values()]
    return bool(found) and all(len(shape) == 1 and shape == found[0] for shape in found)


def statistic_name(path: Path) -> str | None:
    """What kind of statistic a file says that it holds; None where it says none: a release, or no file of ours."""
    try:
        header = json.loads((pq.read_metadata(path).metadata or {}).get(_HEADER, b"null"))
    except (pa.ArrowException, OSError, ValueError, RecursionError):
        return None
    return stated_statistic(header)


def read_sealed(path: Path) -> Sealed:
    """All of it, checked. A file may be anybody's."""
    if look_up(path) is None or path.is_dir():
        raise InputError(f"there is no file {path}.")
    ours = our_file(path)
    if ours is not None and not ours.statistic:
        raise FileFormatError(f"{path} is {ours.words}; it is no statistic of labels.")
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            metadata = file.metadata.metadata or {}
            header = json.loads(metadata[_HEADER])
            canonical(header)
            stated = metadata[_CHECKSUM].decode("ascii")
            table = file.read(use_threads=False) if _lies_plainly(file.metadata, path) else None
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError, ValueError, RecursionError):
        raise FileFormatError(
            f"{path} is not a whole file of a statistic: cut short, damaged or something else."
        ) from None
    version = header.get("format") if isinstance(header, dict) else None
    if isinstance(version, int) and version > FORMAT:
        raise FileFormatError(f"{path} was made by a newer labeldp (format {version!r}); update to read it.")
    if not isinstance(header, dict) or not is_sealed_header(header):
        raise FileFormatError(f"{path} has a damaged description.")
    if table is None or sorted(table.column_names) != sorted(header["arrays"]):
        raise FileFormatError(f"{path} holds other arrays than it describes.")
    arrays = {name: _array(path, table.column(name), header["arrays"][name]) for name in table.column_names}
    if _checksum(header, arrays) != stated:
        raise FileFormatError(f"{path} was altered or damaged: its numbers do not have the checksum it states.")
    return Sealed(header, arrays, stated)


def _lies_plainly(metadata: Any, path: Path) -> bool:
    """Whether reading takes no more memory than the file has bytes: nothing is compressed, repeated by a code, or left out."""
    chunks = [
        metadata.row_group(group).column(column)
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
    ]
    return (
        8 * sum(chunk.num_values for chunk in chunks) <= path.stat().st_size
        and metadata.num_rows <= path.stat().st_size
        and all(
            chunk.compression == "UNCOMPRESSED" and set(chunk.encodings) <= {"PLAIN", "RLE", "BIT_PACKED"}
            for chunk in chunks
        )
    )


def _array(path: Path, column: Any, said: dict[str, Any]) -> npt.NDArray[Any]:
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ListArray) and len(values) == 1 and values.null_count == 0:
        values = values.flatten()
    kind, shape = _KINDS[said["kind"]], tuple(said["shape"])
    wanted = pa.float64() if kind.kind == "f" else pa.int64()
    if values.type != wanted or values.null_count or len(values) != math.prod(shape):
        raise FileFormatError(f"{path} holds other arrays than it describes.")
    return np.array(values.to_numpy(zero_copy_only=False), dtype=kind).reshape(shape)

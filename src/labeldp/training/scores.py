"""Class probabilities by row id, as files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.files.atomic import place_file

Part: TypeAlias = tuple[npt.NDArray[Any], npt.NDArray[np.float32]]  # ids, and a row of probabilities for each


def write_scores(
    path: Path, ids: npt.NDArray[Any], probabilities: npt.NDArray[np.float32], about: dict[str, Any] | None = None
) -> None:
    """Parquet with `id` and a list column `probabilities`; or, by its ending, a .npy matrix in the order of the rows.

    `about`, the certificate of what the model was trained on and whether ids are names or row numbers, goes into the Parquet file's
    metadata.
    """
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

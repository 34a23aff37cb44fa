"""Class probabilities by row id, as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.release.place import place_file


def write_scores(
    path: Path, ids: npt.NDArray[Any], probabilities: npt.NDArray[np.float32], about: dict[str, Any] | None = None
) -> None:
    """Parquet with `id` and a list column `probabilities`; or, by its ending, a .npy matrix in the order of the rows.

    `about`, the certificate of what the model was trained on and whether ids are names or row numbers, goes into the Parquet file's
    metadata.
    """
    if path.suffix == ".npy":
        place_file(path, lambda file: np.save(file, probabilities))
        return
    flat = pa.array(probabilities.reshape(-1))
    lists = pa.FixedSizeListArray.from_arrays(flat, probabilities.shape[1])
    table = pa.table({"id": pa.array(ids), "probabilities": lists})
    if about is not None:
        table = table.replace_schema_metadata({b"labeldp": json.dumps(about).encode()})
    place_file(path, lambda file: pq.write_table(table, file))

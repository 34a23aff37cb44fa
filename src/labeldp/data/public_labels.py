"""Test labels that are public: the only clean labels that a feature owner may have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from labeldp.data.features import Features
from labeldp.errors import InputError
from labeldp.release.core import Release
from labeldp.release.ids import find
from labeldp.release.tables import open_table


def read_public_labels(
    path: Path, features: Features, release: Release, id_column: str | None
) -> npt.NDArray[np.int64]:
    """One class number for each row of `features`: .npy with class numbers, or a table with the label.

    A table is joined by `id_column`; for a folder of images by a column `id` that holds their paths.
    """
    names = release.class_names
    values: Sequence[Any]
    if path.suffix == ".npy":
        values, names = _numbers(path), tuple(str(number) for number in range(len(names)))
    else:
        values = _column(path, features, release.label, id_column or ("id" if features.named else None))
    if len(values) != len(features.values):
        raise InputError(f"{path} has {len(values):,} labels for {len(features.values):,} rows of test features.")
    codes = {name: code for code, name in enumerate(names)}
    found = np.array([codes.get(str(value), -1) for value in values], dtype=np.int64)
    if (found < 0).any():
        raise InputError(f"row {int(np.argmax(found < 0))} of {path} holds none of the release's {len(names)} classes.")
    return found


def _numbers(path: Path) -> Sequence[Any]:
    try:
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise InputError(f"{path} is not a NumPy array of class numbers.") from None
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise InputError(f"{path} must hold one whole number a row.")
    numbers: Sequence[Any] = values.tolist()
    return numbers


def _column(path: Path, features: Features, label: str | None, id_column: str | None) -> list[Any]:
    table = open_table(path)
    others = [name for name in table.columns if name != id_column]
    name = label if label in others else others[0] if len(others) == 1 else None
    if name is None:
        called = f", or one called {label!r}" if label else ""
        raise InputError(f"{path} must have one column beside the id{called}; it has {', '.join(others[:12])}.")
    if id_column is None:
        return [value for batch in table.batches([name]) for value in batch.column(name).to_pylist()]
    if id_column not in table.columns:
        raise InputError(f"{path} has no column {id_column!r}.")
    read = pa.Table.from_batches(list(table.batches([id_column, name], ids=id_column)))
    places = find(features.ids, read.column(id_column), str(path), whose="of the test features")
    if (places < 0).any():
        raise InputError(
            f"{(places < 0).sum():,} rows of the test features have no label in {path}, the first is row {np.argmax(places < 0)}."
        )
    values: list[Any] = read.column(name).take(pa.array(places)).to_pylist()
    return values

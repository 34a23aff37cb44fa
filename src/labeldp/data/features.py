"""Your own features: .npy, .npz, Parquet (number columns, or one list column), CSV."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from labeldp.errors import InputError
from labeldp.release.tables import CSVTable, open_table


@dataclass(frozen=True)
class Features:
    """One row of numbers (or an image) for each id; ids are row numbers where none are named."""

    values: npt.NDArray[Any]
    ids: npt.NDArray[Any]
    columns: tuple[str, ...] = ()

    def refuse_label(self, label: str | None) -> None:
        """The released label must not be among the features: a model that sees it keeps no promise."""
        if label is not None and label in self.columns:
            raise InputError(
                f"the features have a column {label!r}, which is what the released labels are called; leave it out."
            )


def read_features(path: Path, id_column: str | None = None) -> Features:
    """Read and check public features."""
    if path.suffix in (".npy", ".npz"):
        if id_column is not None:
            raise InputError(f"{path} has no columns, and so no {id_column!r}; use Parquet or CSV to join by id.")
        values = _from_numpy(path)
        ids: npt.NDArray[Any] = np.arange(len(values))
        columns: tuple[str, ...] = ()
    else:
        values, ids, columns = _from_table(path, id_column)
    if values.ndim < 2 or len(values) == 0:
        raise InputError(f"{path} must hold one row of features for each example; it holds shape {values.shape}.")
    if values.dtype.kind == "f":
        bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if bad.any():
            raise InputError(f"row {int(np.argmax(bad))} of {path} holds a feature that is NaN or infinite.")
    return Features(values, ids, columns)


def _from_numpy(path: Path) -> npt.NDArray[Any]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            values = loaded
        else:
            names = loaded.files
            name = "features" if "features" in names else names[0] if len(names) == 1 else None
            if name is None:
                raise InputError(f"{path} holds {', '.join(names)}; call the right one 'features'.")
            values = loaded[name]
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except (OSError, ValueError, EOFError):
        raise InputError(f"{path} is not a NumPy array of numbers.") from None
    if values.dtype.kind not in "fiub":
        raise InputError(f"{path} holds {values.dtype}, not numbers.")
    return values if values.dtype == np.uint8 else values.astype(np.float32)


def _from_table(path: Path, id_column: str | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any], tuple[str, ...]]:
    table = open_table(path)
    if id_column is not None and id_column not in table.columns:
        raise InputError(f"{path} has no column {id_column!r}; its columns are {', '.join(table.columns[:12])}.")
    names = [name for name in table.columns if name != id_column]
    wanted = names if id_column is None else [*names, id_column]
    blocks, ids = [], []
    for batch in table.batches(wanted):
        blocks.append(_numbers(path, batch, names, text=isinstance(table, CSVTable)))
        if id_column is not None:
            ids.append(batch.column(id_column).to_numpy(zero_copy_only=False))
    if not blocks:
        raise InputError(f"{path} has no rows.")
    values = np.concatenate(blocks)
    return values, np.concatenate(ids) if ids else np.arange(len(values)), tuple(names)


def _numbers(path: Path, batch: Any, names: list[str], *, text: bool) -> npt.NDArray[np.float32]:
    if len(names) == 1 and pa.types.is_nested(batch.column(names[0]).type):
        column = batch.column(names[0])
        rows = column.flatten().to_numpy(zero_copy_only=False)
        if column.null_count or len(rows) % max(len(column), 1):
            raise InputError(f"the lists in column {names[0]!r} of {path} must all be there and of one length.")
        return np.asarray(rows.reshape(len(column), -1), dtype=np.float32)
    columns = []
    for name in names:
        column = batch.column(name)
        try:
            columns.append(column.cast(pa.float32()).to_numpy(zero_copy_only=False))
        except pa.ArrowException:
            kind = "text" if text else str(column.type)
            raise InputError(f"column {name!r} of {path} holds {kind}, not numbers; encode or leave it out.") from None
    return np.stack(columns, axis=1).astype(np.float32)

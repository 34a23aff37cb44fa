"""A trained model's probabilities as an auditor gets them, checked: never a silently wrong bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.audit.canaries import Canaries
from labeldp.errors import InputError

Floats = npt.NDArray[np.float64]

_ROUNDING = 1e-3  # of sums in half precision


def checked_probabilities(values: npt.ArrayLike, *, logits: bool = False) -> Floats:
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
            "logits, say so: --logits."
        )
    return table


def read_probabilities(path: Path, canaries: Canaries, *, logits: bool = False) -> tuple[Floats, Canaries]:
    """Probabilities of all rows, and the canaries with `rows` pointing into them.

    .npy: in the order of the data set. Parquet, as `labeldp predict` writes it: joined by id, if the canaries have ids; else by
    row number.
    """
    if path.suffix == ".npy":
        try:
            values = np.load(path, allow_pickle=False)
        except FileNotFoundError:
            raise InputError(f"there is no file {path}.") from None
        except (OSError, ValueError, EOFError):
            raise InputError(f"{path} is not a NumPy array of numbers.") from None
        return checked_probabilities(values, logits=logits), canaries
    ids, values = _from_parquet(path)
    table = checked_probabilities(values, logits=logits)
    place = {str(name): row for row, name in enumerate(ids)}
    if len(place) != len(ids):
        raise InputError(f"the ids in {path} repeat.")
    names = canaries.ids if canaries.ids is not None else canaries.rows
    rows = np.array([place.get(str(name), -1) for name in names.tolist()], dtype=np.int64)
    if (rows < 0).any():
        raise InputError(
            f"{int((rows < 0).sum()):,} of the {len(canaries):,} canaries are not in {path}: ask for the probabilities of all rows."
        )
    return table, replace(canaries, rows=rows)


def _from_parquet(path: Path) -> tuple[list[Any], npt.NDArray[Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        lists = table.column("probabilities").combine_chunks()
        ids = table.column("id").to_pylist()
        values = lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), -1)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except (pa.ArrowException, OSError, KeyError, ValueError, AttributeError):
        raise InputError(
            f"{path} is no file of probabilities: .npy, or Parquet as `labeldp predict` writes it."
        ) from None
    return ids, values

"""Files of class probabilities by row, as `labeldp predict` writes them: Parquet with `id` and `probabilities`, or .npy in order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError


@dataclass(frozen=True)
class Probabilities:
    """As the file has them, unchecked. `ids` is an Arrow array; None: rows go by number. `about` is what the file says of its model."""

    values: npt.NDArray[Any]
    ids: Any | None
    about: dict[str, Any]


def read_probabilities(path: Path) -> Probabilities:
    """By its ending."""
    if path.suffix != ".npy":
        return _from_parquet(path)
    try:
        with path.open("rb") as file:
            values = np.load(file, allow_pickle=False)
        if not isinstance(values, np.ndarray):
            raise ValueError
        return Probabilities(values, None, {})
    except FileNotFoundError:
        raise InputError(f"there is no file {path}.") from None
    except (OSError, ValueError, EOFError, BadZipFile):
        raise InputError(f"{path} is not a NumPy array of numbers.") from None


def _from_parquet(path: Path) -> Probabilities:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

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
        raise InputError(
            f"{path} is no file of probabilities: .npy, or Parquet as `labeldp predict` writes it."
        ) from None
    return Probabilities(values, ids, about if isinstance(about, dict) else {})

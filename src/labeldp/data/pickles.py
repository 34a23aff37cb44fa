"""Pickles that may hold plain containers, numbers, text and arrays of bytes. Nothing they name is imported or called."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError


class _Kind:
    """Stands for `numpy.dtype`: only its name is kept."""

    def __init__(self, name: Any = None, *_: Any) -> None:
        self.name = name

    def __setstate__(self, state: Any) -> None:
        pass


class _Array:
    """Stands for an array that is being unpickled: (version, shape, kind, in Fortran's order?, bytes)."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def values(self) -> npt.NDArray[np.uint8]:
        _, shape, kind, fortran, data = self.state
        if not isinstance(kind, _Kind) or kind.name not in (b"u1", "u1"):
            raise ValueError
        return np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
}


class _UnexpectedError(Exception):
    """The pickle names something else."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise _UnexpectedError(f"{module}.{name}")
        return _STAND_INS[module, name]


def load_pickle(data: bytes, called: str) -> dict[bytes, Any]:
    """The dictionary in a pickle that Python 2 wrote; its arrays are read-only. `called` is what errors call the file."""
    problem = "it is damaged, or holds something else than a dictionary of arrays of bytes, lists and numbers"
    try:
        loaded = _Unpickler(io.BytesIO(data), encoding="bytes").load()
        return {key: value.values() if isinstance(value, _Array) else value for key, value in loaded.items()}
    except _UnexpectedError as unexpected:
        problem = f"it names {str(unexpected)!r}, which pixels and labels do not need; nothing of it was run"
    except MemoryError:
        raise
    except Exception:  # broken opcodes raise anything, and the message may quote a label: raised outside, without it
        pass
    raise InputError(f"{called} is not read: {problem}.")

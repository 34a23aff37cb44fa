"""Sets of classes, packed: a row a set, a bit a class, the first in the lowest bit of the first byte."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Packed: TypeAlias = npt.NDArray[np.uint8]
Flags: TypeAlias = npt.NDArray[np.bool_]

_ONES = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)


def packed_bytes(count: int) -> int:
    """Bytes for so many bits."""
    return (count + 7) // 8


def pack(members: npt.NDArray[np.uint8] | Flags) -> Packed:
    """From a column a class."""
    return np.packbits(members, axis=1, bitorder="little")


def unpack(packed: Packed, count: int) -> npt.NDArray[np.uint8]:
    """The inverse: 0 or 1, a column for each of `count` classes."""
    return np.unpackbits(packed, axis=1, count=count, bitorder="little")


def set_sizes(packed: Packed) -> npt.NDArray[np.int64]:
    """How many members each row's set has."""
    return np.asarray(_ONES[packed].sum(axis=1, dtype=np.int64))


def no_padding(packed: Packed, count: int) -> bool:
    """Whether the bits behind the last class are zero."""
    return count % 8 == 0 or not (packed[:, -1] >> (count % 8)).any()

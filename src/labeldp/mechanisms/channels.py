"""Public channels, row by row: which symbols are candidates, and how many of them are observed. Compact, whatever the number of rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.mechanisms.subset import no_padding
from labeldp.private import check_num_classes

Whole: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Packed: TypeAlias = npt.NDArray[np.uint8]

KEY = 1 << 17  # more than any size
_ONES = np.array([byte.bit_count() for byte in range(256)], dtype=np.uint8)


def packed_bytes(num_classes: int) -> int:
    """Bytes for one bit a symbol."""
    return num_classes // 8 + 1


def unpacked(packed: Packed, num_classes: int) -> Flags:
    """Flags, a column a symbol."""
    return np.unpackbits(packed, axis=1, count=num_classes + 1, bitorder="little").view(np.bool_)


def count_bits(packed: Packed) -> Whole:
    """How many symbols each row's set has."""
    return np.asarray(_ONES[packed].sum(axis=1, dtype=np.int64))


def keys(candidates: Whole, sizes: npt.NDArray[np.integer[Any]]) -> Whole:
    """One number for m and k, in the order of both."""
    return np.asarray(candidates * KEY + sizes)


@dataclass(frozen=True, eq=False)
class Channels:
    """The public channels of some rows: sets of candidates, packed (the last bit is "any other class"), and the subsets' sizes."""

    num_classes: int
    candidates: Packed
    sizes: npt.NDArray[np.uint16]

    def __post_init__(self) -> None:
        check_num_classes(self.num_classes)
        shape = (len(self.sizes), packed_bytes(self.num_classes))
        if self.candidates.shape != shape or self.candidates.dtype != np.uint8:
            raise InputError(f"the candidates of {shape[0]:,} rows are {shape[1]} bytes a row, a bit a symbol.")
        if self.sizes.ndim != 1 or self.sizes.dtype != np.uint16:
            raise InputError("the sizes are one 16-bit number a row.")
        if not no_padding(self.candidates, self.num_classes + 1):
            raise InputError(f"a candidate is one of {self.num_classes} classes, or the symbol for all the others.")
        m, k = self.counts(), self.sizes
        wrong = (m > self.num_classes) | (k < 1) | (k >= m) & ((m != 1) | (k != 1))
        if wrong.any():
            raise InputError(
                f"row {int(wrong.argmax())} has no possible channel: k of m candidates need 1 ≤ k < m ≤ {self.num_classes} "
                "(or m = k = 1, which says nothing)."
            )

    @classmethod
    def of(cls, members: Flags, sizes: npt.NDArray[np.integer[Any]]) -> Channels:
        """From flags, a column a class and a last one for "any other class"."""
        packed = np.packbits(members, axis=1, bitorder="little")
        return cls(members.shape[1] - 1, packed, sizes.astype(np.uint16))

    @classmethod
    def concatenate(cls, parts: Sequence[Channels]) -> Channels:
        """Consecutive parts as a whole."""
        if len({part.num_classes for part in parts}) != 1:
            raise InputError("channels that are put together need one number of classes.")
        candidates, sizes = ([getattr(part, name) for part in parts] for name in ("candidates", "sizes"))
        return cls(parts[0].num_classes, np.concatenate(candidates), np.concatenate(sizes))

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, rows: slice | npt.NDArray[Any]) -> Channels:
        return Channels(self.num_classes, self.candidates[rows], self.sizes[rows])

    def counts(self) -> Whole:
        """How many candidates each row has."""
        return count_bits(self.candidates)

    def members(self) -> Flags:
        """The candidates as flags, a column a symbol."""
        return unpacked(self.candidates, self.num_classes)

    def shapes(self) -> list[tuple[int, int]]:
        """The different pairs of m and k."""
        return [divmod(int(key), KEY) for key in np.unique(keys(self.counts(), self.sizes))]

    def digest(self) -> str:
        """A hash by which the same channels are known again."""
        digest = hashlib.sha256(f"{self.num_classes} {len(self)} ".encode())
        digest.update(np.ascontiguousarray(self.candidates).tobytes())
        digest.update(self.sizes.astype("<u2").tobytes())
        return digest.hexdigest()

"""Keyed, streaming digests of public columns, and sorted hashes of row ids in bounded memory."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.files.atomic import open_private
from labeldp.files.ids import AS_WRITTEN, CANONICAL, comparable

_RUN = 1 << 22  # hashes sorted at a time: 32 MB

Hashes: TypeAlias = npt.NDArray[np.uint64]


def text_bytes(text: Any) -> list[bytes]:
    """Texts as bytes, one by one."""
    lengths, content = text_parts(text)
    ends = np.cumsum(lengths).tolist()
    return [bytes(content[a:b]) for a, b in itertools.pairwise([0, *ends])]


def text_parts(column: Any) -> tuple[npt.NDArray[np.int64], memoryview]:
    """The lengths of texts (or byte strings) without nulls, and all of them one after the other; no copy of either."""
    wide = _is_large(column.type)
    _, offsets, content = column.buffers()
    ends = np.frombuffer(offsets, "<i8" if wide else "<i4", len(column) + 1, column.offset * (8 if wide else 4))
    whole = memoryview(content) if content is not None else memoryview(b"")
    return np.diff(ends).astype("<i8"), whole[int(ends[0]) : int(ends[-1])]


class IdHasher:
    """64-bit keyed hashes of ids in the form in which they are compared, and an order-free fingerprint of all of them."""

    def __init__(self, key: bytes, form: str = CANONICAL) -> None:
        self._key, self._form = key, form
        self._sums, self._written_sums = np.zeros(2, dtype=np.uint64), np.zeros(2, dtype=np.uint64)

    def hashes(self, ids: Any) -> Hashes:
        """One hash an id, without taking note."""
        return self._lanes(comparable(ids, self._form))[:, 0].copy()

    def add(self, ids: Any) -> tuple[Hashes, Hashes]:
        """One hash an id, added to the fingerprint; and [hash, hash in the other form] of those whose two forms differ."""
        written, canonical = comparable(ids, AS_WRITTEN), comparable(ids, CANONICAL)
        own, other = (canonical, written) if self._form == CANONICAL else (written, canonical)
        lanes = self._lanes(own)
        self._sums += lanes.sum(axis=0, dtype=np.uint64)
        differ = np.flatnonzero(pc.not_equal(written, canonical).to_numpy(zero_copy_only=False))
        theirs = self._lanes(other.take(pa.array(differ)))
        as_written = lanes.copy()
        as_written[differ] = theirs if self._form == CANONICAL else lanes[differ]
        self._written_sums += as_written.sum(axis=0, dtype=np.uint64)
        return lanes[:, 0].copy(), np.stack((lanes[differ, 0], theirs[:, 0]), axis=1)

    def _lanes(self, text: Any) -> Hashes:
        key, blake = self._key, hashlib.blake2b
        digests = b"".join([blake(one, digest_size=16, key=key).digest() for one in text_bytes(text)])
        return np.frombuffer(digests, dtype="<u8").reshape(-1, 2)

    def fingerprint(self) -> str:
        """The sum of all hashes mod 2^128, lane by lane: the same whatever the order of the rows."""
        return self._sums.astype("<u8").tobytes().hex()

    def fingerprint_as_written(self) -> str:
        """That of ids as they are written."""
        return self._written_sums.astype("<u8").tobytes().hex()


class HashSorter:
    """Sorts any number of uniformly distributed hashes on disk: sorted runs, then merged slice by slice.

    With `width` 2, pairs of hashes, by the first.
    """

    def __init__(self, path: Path, width: int = 1) -> None:
        self._path, self._width = path, width
        self._runs_path = path.with_name(path.name + ".runs")
        self._runs: list[int] = []
        self._pending: list[Hashes] = []
        self._pending_count = 0

    def __bool__(self) -> bool:
        return bool(self._runs or self._pending_count)

    def add(self, hashes: Hashes) -> None:
        """More hashes, in any order."""
        self._pending.append(hashes.reshape(-1, self._width))
        self._pending_count += len(hashes)
        if self._pending_count >= _RUN:
            self._flush()

    def _flush(self) -> None:
        if self._pending_count:
            run = _sorted(np.concatenate(self._pending))
            with open_private(self._runs_path, append=bool(self._runs)) as file:
                file.write(run.astype("<u8").tobytes())
            self._runs.append(len(run))
            self._pending, self._pending_count = [], 0

    def finish(self) -> tuple[str, list[int]]:
        """Write the sorted hashes; return their digest and those that occur more than once."""
        self._flush()
        digest = hashlib.sha256()
        repeated: list[int] = []
        previous: int | None = None
        with open_private(self._path) as file:
            for part in self._slices():
                first = part[:, 0]
                again = first[1:][first[1:] == first[:-1]]
                if previous is not None and len(first) and int(first[0]) == previous:
                    repeated.append(previous)
                repeated.extend(int(x) for x in again)
                previous = int(first[-1]) if len(first) else previous
                data = part.astype("<u8").tobytes()
                digest.update(data)
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._runs_path.unlink(missing_ok=True)
        return digest.hexdigest()[:32], repeated

    def _slices(self) -> Iterator[Hashes]:
        if not self._runs:
            return
        data = np.memmap(self._runs_path, dtype="<u8", mode="r").reshape(-1, self._width)
        starts = np.cumsum([0, *self._runs])
        runs = [data[a:b] for a, b in itertools.pairwise(starts)]
        count = len(runs)
        # Hashes are uniform, so equal slices of their range hold about equally many.
        bounds = [(i << 64) // count for i in range(1, count)]
        cuts = [[0, *np.searchsorted(run[:, 0], np.array(bounds, dtype=np.uint64)), len(run)] for run in runs]
        for i in range(count):
            yield _sorted(np.concatenate([run[cut[i] : cut[i + 1]] for run, cut in zip(runs, cuts, strict=True)]))


def _sorted(hashes: Hashes) -> Hashes:
    return np.sort(hashes, axis=0) if hashes.shape[1] == 1 else hashes[np.argsort(hashes[:, 0])]


class ColumnHasher:
    """A keyed digest of a column's values, of any type, that does not depend on how they were cut into batches."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        # Three streams, each in row order, so that where one batch ends leaves no trace; nested values have their own.
        self._values, self._lengths, self._nulls = (hashlib.blake2b(key=key, digest_size=32) for _ in range(3))
        self._inner: list[ColumnHasher] = []

    def add(self, column: Any) -> None:
        """The next values."""
        kind = column.type
        if pa.types.is_dictionary(kind):
            return self.add(column.cast(kind.value_type))
        if isinstance(column, pa.ExtensionArray):
            return self.add(column.storage)
        if pa.types.is_map(kind):
            return self.add(column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))))
        self._nulls.update(pc.is_null(column).to_numpy(zero_copy_only=False).astype(np.uint8).data)
        if pa.types.is_struct(kind):
            return self._add_inner(column.flatten())
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            lengths = pc.fill_null(pc.list_value_length(column), 0)
            self._lengths.update(lengths.to_numpy(zero_copy_only=False).astype("<i8").data)
            return self._add_inner([column.flatten()])
        if pa.types.is_string(kind) or pa.types.is_binary(kind) or _is_large(kind):
            return self._add_text(column)
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return self._add_numbers(column)
        if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
            return self._add_numbers(column.view(pa.int32() if kind.bit_width == 32 else pa.int64()))
        return self._add_text(column.cast(pa.string() if pa.types.is_decimal(kind) else pa.binary()))

    def _add_inner(self, parts: Sequence[Any]) -> None:
        while len(self._inner) < len(parts):
            self._inner.append(ColumnHasher(self._key))
        for hasher, part in zip(self._inner, parts, strict=True):
            hasher.add(part)

    def _add_numbers(self, column: Any) -> None:
        if pa.types.is_floating(column.type):
            column = column.cast(pa.float64())
        elif pa.types.is_integer(column.type) and column.type != pa.uint64():  # the same numbers, however wide
            column = column.cast(pa.int64())
        values = pc.fill_null(column, False if pa.types.is_boolean(column.type) else 0)
        self._values.update(np.ascontiguousarray(values.to_numpy(zero_copy_only=False)).data)

    def _add_text(self, column: Any) -> None:
        is_bytes = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
        lengths, content = text_parts(pc.fill_null(column, b"" if is_bytes else ""))
        self._lengths.update(lengths.data)
        self._values.update(content)

    def digest(self) -> bytes:
        """Of everything added."""
        own = self._values.digest() + self._lengths.digest() + self._nulls.digest()
        return own + b"".join(hasher.digest() for hasher in self._inner)


def _is_large(kind: Any) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))

"""Keyed, streaming digests of public columns, and sorted hashes of row ids in bounded memory."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.release.place import open_private

NO_IDS = "ids must be whole numbers or text (or dates, decimals, UUIDs)"
_RUN = 1 << 22  # hashes sorted at a time: 32 MB


def id_texts(ids: Any) -> list[bytes]:
    """Ids as bytes; a number and its decimal text are the same id."""
    lengths, content = text_parts(as_id_text(ids))
    ends = np.cumsum(lengths).tolist()
    return [bytes(content[a:b]) for a, b in itertools.pairwise([0, *ends])]


def is_plain_id(kind: Any) -> bool:
    """Whether ids of this type are kept as they are: whole numbers and text."""
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_id(kind: Any) -> bool:
    """Whether a column of this type can name rows: what is neither whole number nor text becomes text."""
    also = (pa.types.is_date, pa.types.is_timestamp, pa.types.is_decimal, _is_uuid)
    return is_plain_id(kind) or kind == pa.string_view() or any(is_a(kind) for is_a in also)


def plain_ids(column: Any) -> Any:
    """A column of ids as whole numbers or text; one that cannot name rows is left as it is, to be refused."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if is_plain_id(column.type) or not is_id(column.type) else as_id_text(column)


def as_id_text(ids: Any) -> Any:
    """Ids as `large_string`; equal values are equal texts, whatever the width, scale or unit of their type.

    Dates and times as ISO 8601 has them (one with a zone in UTC, with a Z), decimals in full without zeros at the end, UUIDs in
    lower case with hyphens. Floating-point numbers are no ids: how they are written is nobody's promise.
    """
    if isinstance(ids, pa.ChunkedArray):
        return pa.chunked_array([as_id_text(chunk) for chunk in ids.chunks], pa.large_string())
    kind = ids.type
    if not is_id(kind):
        raise pa.ArrowInvalid(f"{kind} is no type of ids")
    if _is_uuid(kind):
        return _uuid_texts(ids.storage if isinstance(ids, pa.ExtensionArray) else ids)
    if pa.types.is_timestamp(kind):
        return _time_texts(ids)
    if pa.types.is_decimal(kind):
        return _decimal_texts(ids)
    return without_views(ids).cast(pa.large_string())


def without_views(column: Any) -> Any:
    """Text and bytes in the usual layout. Views are only another one, which many of Arrow's functions do not know yet."""
    usual = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(column.type)
    if usual is None:
        return column
    try:
        return column.cast(usual)
    except pa.ArrowNotImplementedError:  # pyarrow 17
        return pa.array(column.to_pylist(), usual)


def _is_uuid(kind: Any) -> bool:
    """16 bytes, which is how Parquet has them, with or without saying what they are."""
    named = isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"
    return bool(named or (pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16))


def _uuid_texts(ids: Any) -> Any:
    digits = np.frombuffer(b"".join(ids.fill_null(bytes(16)).to_pylist()).hex().encode(), np.uint8).reshape(-1, 32)
    texts = np.full((len(ids), 36), ord("-"), np.uint8)
    texts[:, [place for place in range(36) if place not in (8, 13, 18, 23)]] = digits
    ends = pa.py_buffer(np.arange(len(ids) + 1, dtype=np.int64) * 36)
    plain = pa.LargeStringArray.from_buffers(len(ids), ends, pa.py_buffer(texts))
    return pc.if_else(ids.is_valid(), plain, pa.scalar(None, pa.large_string()))


def _time_texts(ids: Any) -> Any:
    unit, zone = ids.type.unit, ids.type.tz
    if zone is not None:
        ids = ids.cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit))
    texts = pc.replace_substring(ids.cast(pa.large_string()), " ", "T")
    texts = pc.replace_substring_regex(texts, r"\.?0*$", "") if unit != "s" else texts
    return texts if zone is None else pc.binary_join_element_wise(texts, *pa.array(["Z", ""], pa.large_string()))


def _decimal_texts(ids: Any) -> Any:
    if ids.type.scale == 0:
        return ids.cast(pa.large_string())
    in_full = (None if value is None else f"{value:f}" for value in ids.to_pylist())
    texts = [text.rstrip("0").rstrip(".") if text and "." in text else text for text in in_full]
    return pa.array(["0" if text == "-0" else text for text in texts], pa.large_string())


def text_parts(column: Any) -> tuple[npt.NDArray[np.int64], memoryview]:
    """The lengths of texts (or byte strings) without nulls, and all of them one after the other; no copy of either."""
    wide = _is_large(column.type)
    _, offsets, content = column.buffers()
    ends = np.frombuffer(offsets, "<i8" if wide else "<i4", len(column) + 1, column.offset * (8 if wide else 4))
    whole = memoryview(content) if content is not None else memoryview(b"")
    return np.diff(ends).astype("<i8"), whole[int(ends[0]) : int(ends[-1])]


class IdHasher:
    """64-bit keyed hashes of ids, and an order-free fingerprint of all of them."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._sums = np.zeros(2, dtype=np.uint64)

    def hashes(self, ids: Any) -> npt.NDArray[np.uint64]:
        """One hash an id, without taking note."""
        return self._lanes(ids)[:, 0].copy()

    def add(self, ids: Any) -> npt.NDArray[np.uint64]:
        """One hash an id, added to the fingerprint."""
        lanes = self._lanes(ids)
        self._sums += lanes.sum(axis=0, dtype=np.uint64)
        return lanes[:, 0].copy()

    def _lanes(self, ids: Any) -> npt.NDArray[np.uint64]:
        key, blake = self._key, hashlib.blake2b
        digests = b"".join([blake(text, digest_size=16, key=key).digest() for text in id_texts(ids)])
        return np.frombuffer(digests, dtype="<u8").reshape(-1, 2)

    def fingerprint(self) -> str:
        """The sum of all hashes mod 2^128, lane by lane: the same whatever the order of the rows."""
        return self._sums.astype("<u8").tobytes().hex()


class HashSorter:
    """Sorts any number of uniformly distributed hashes on disk: sorted runs, then merged slice by slice."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._runs_path = path.with_name(path.name + ".runs")
        self._runs: list[int] = []
        self._pending: list[npt.NDArray[np.uint64]] = []
        self._pending_count = 0

    def add(self, hashes: npt.NDArray[np.uint64]) -> None:
        """More hashes, in any order."""
        self._pending.append(hashes)
        self._pending_count += len(hashes)
        if self._pending_count >= _RUN:
            self._flush()

    def _flush(self) -> None:
        if self._pending_count:
            run = np.sort(np.concatenate(self._pending))
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
                again = part[1:][part[1:] == part[:-1]]
                if previous is not None and len(part) and int(part[0]) == previous:
                    repeated.append(previous)
                repeated.extend(int(x) for x in again)
                previous = int(part[-1]) if len(part) else previous
                data = part.astype("<u8").tobytes()
                digest.update(data)
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._runs_path.unlink(missing_ok=True)
        return digest.hexdigest()[:32], repeated

    def _slices(self) -> Iterator[npt.NDArray[np.uint64]]:
        if not self._runs:
            return
        data = np.memmap(self._runs_path, dtype="<u8", mode="r")
        starts = np.cumsum([0, *self._runs])
        runs = [data[a:b] for a, b in itertools.pairwise(starts)]
        count = len(runs)
        # Hashes are uniform, so equal slices of their range hold about equally many.
        bounds = [(i << 64) // count for i in range(1, count)]
        cuts = [[0, *np.searchsorted(run, np.array(bounds, dtype=np.uint64)), len(run)] for run in runs]
        for i in range(count):
            yield np.sort(np.concatenate([run[cut[i] : cut[i + 1]] for run, cut in zip(runs, cuts, strict=True)]))


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

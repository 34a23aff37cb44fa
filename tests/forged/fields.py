"""The fields of a file, each with forged contents of the whole file. Checksums that a forger can compute are computed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.accounting.journal import canonical
from labeldp.release.format import _Checksum
from labeldp.release.sealed import _checksum as _sealed_checksum
from labeldp.release.sealed import _in_columns, as_arrays, read_sealed, shapes

from .walk import forgeries, name_of, places, replaced

Contents = Iterable[bytes | None]  # None: the file is gone
WORDS: tuple[str, ...] = ("local", "central", "one-run", "none: by its own word", "b" * 64)


@dataclass(frozen=True)
class Field:
    """One place in one file."""

    file: str
    name: str
    forged: Callable[[int], Contents]  # so many, where there are many


def whole(place: Path, file: str) -> Iterator[Field]:
    """The file itself: gone, empty, cut short."""
    content = (place / file).read_bytes()
    yield Field(file, "(file)", lambda most: [None, b"", content[: len(content) // 2]])


def json_file(place: Path, file: str, words: tuple[str, ...] = ()) -> Iterator[Field]:
    """Of a JSON file; of one with an object a line, of the first and the last line."""
    yield from whole(place, file)
    text = (place / file).read_text(encoding="utf-8")
    lines = text.splitlines() if file.endswith(".jsonl") else [text]
    for number in sorted({0, len(lines) - 1}):

        def write(data: Any, number: int = number) -> bytes:
            return "\n".join([*lines[:number], json.dumps(data), *lines[number + 1 :]]).encode()

        yield from _walked(file, json.loads(lines[number]), write, words, "" if len(lines) == 1 else f"line {number}.")


def _walked(
    file: str, data: Any, write: Callable[[Any], bytes], words: tuple[str, ...], prefix: str = ""
) -> Iterator[Field]:
    for path in places(data):

        def forged(most: int, path: tuple[Any, ...] = path) -> Contents:
            values = forgeries(data, path, (*WORDS, *words), most)
            return (write(replaced(data, path, value)) for value in values)

        yield Field(file, prefix + name_of(path), forged)


def parquet_file(place: Path, file: str, key: bytes, words: tuple[str, ...] = ()) -> Iterator[Field]:
    """Of the metadata of a Parquet file, and its columns. A release gets a checksum that fits."""
    yield from whole(place, file)
    table = pq.read_table(place / file)
    kept = dict(pq.read_metadata(place / file).metadata)  # with what was added after the schema
    data = json.loads(kept[key])
    released = b"labeldp.checksum" in kept

    def write(data: Any, table: Any = table) -> bytes:
        text = json.dumps(data).encode()
        more = {b"labeldp.checksum": _checksum(data, table)} if released else {}
        out = io.BytesIO()
        pq.write_table(table.replace_schema_metadata({key: text, **more}), out, store_schema=True)
        return out.getvalue()

    assert not released or _checksum(data, table) == kept[b"labeldp.checksum"]
    yield from _walked(file, data, write, words)
    for number, name in enumerate(table.column_names[:8]):

        def columns(most: int, number: int = number, name: str = name) -> Contents:
            column = table.column(name).combine_chunks()
            rows = len(column)
            moved = column.take(pa.array([*range(1, rows), 0]))
            same = column.take(pa.array([0] * rows))
            field = table.schema.field(number)
            return (write(data, table.set_column(number, field, other)) for other in (column[::-1], moved, same))

        yield Field(file, f"column {name}", columns)
    yield Field(file, "(rows)", lambda most: (write(data, table.slice(0, n)) for n in (0, 1, table.num_rows // 2)))


def _checksum(header: Any, table: Any) -> bytes:
    """As whoever writes a release computes it."""
    try:
        canonical(header)
        checksum = _Checksum(header)
        ids = table.column("id").combine_chunks()
        observations = table.column("observation").combine_chunks()
        if pa.types.is_fixed_size_binary(observations.type):
            width = observations.type.byte_width
            flat = np.frombuffer(
                observations.buffers()[1], np.uint8, len(observations) * width, observations.offset * width
            )
        else:
            flat = observations.to_numpy(zero_copy_only=False)
        checksum.add(None if header.get("ids") is None else ids, flat)
        return checksum.hexdigest().encode()
    except (ValueError, TypeError, AttributeError):
        return b"0" * 64  # no header at all


def sealed_file(place: Path, file: str, words: tuple[str, ...] = ()) -> Iterator[Field]:
    """Of a file of a statistic: its description and every array, with a checksum that fits, and shapes that do."""
    yield from whole(place, file)
    honest = read_sealed(place / file)
    assert write(honest.header, honest.arrays) == (place / file).read_bytes()
    yield from _walked(file, honest.header, lambda data: write(data, honest.arrays), words)
    for name in honest.arrays:

        def forged(most: int, name: str = name) -> Contents:
            others = {key: one for key, one in honest.arrays.items() if key != name}
            yield write(_of_shapes(honest.header, others), others)
            for value in _numbers(honest.arrays[name]):
                arrays = {**others, name: value}
                yield write(_of_shapes(honest.header, arrays), {key: arrays[key] for key in honest.arrays})
            yield write(
                _of_shapes(honest.header, {**honest.arrays, "more": others[name] if name in others else np.ones(1)}),
                honest.arrays,
            )

        yield Field(file, f"array {name}", forged)
    yield Field(file, "(rows)", lambda most: (write(honest.header, honest.arrays, repeat=n) for n in (0, 2)))
    yield Field(file, "(compressed)", lambda most: [write(honest.header, honest.arrays, compression="ZSTD")])


def _numbers(array: Any) -> Iterator[Any]:
    """What a cheat would put there: other numbers of this kind and shape, and of others."""
    yield np.zeros_like(array)
    if array.dtype.kind == "f":
        for value in (np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, 1e14):
            one = array.copy()
            one.reshape(-1)[-1:] = value
            yield one
            yield np.full_like(array, value)
    else:
        for value in (2**63 - 1, -(2**63), 2**62, -1, 10**9):
            one = array.copy()
            one.reshape(-1)[-1:] = value
            yield one
            yield np.full_like(array, value)
    yield array[::-1].copy()
    yield array / 2 if array.dtype.kind == "f" else array // 2
    yield array[: len(array) // 2]
    yield np.concatenate((array, array))
    yield array[..., None] if array.ndim < 3 else array.reshape(-1)
    if array.dtype.kind == "i":
        yield np.full(array.shape, np.nan)
        yield array.astype(np.float64)


def _of_shapes(header: dict[str, Any], arrays: dict[str, Any]) -> dict[str, Any]:
    return {**header, "arrays": shapes(arrays)}


def write(header: Any, arrays: dict[str, Any], *, repeat: int = 1, compression: str = "NONE") -> bytes:
    """As `write_sealed` does, of whatever it is given."""
    given = as_arrays(arrays)
    try:
        checksum = _sealed_checksum(header, given)
    except (ValueError, TypeError, AttributeError):
        checksum = "0" * 64
    try:
        text = canonical(header)
    except (ValueError, TypeError):
        text = json.dumps(header)
    columns = [pa.array(one.reshape(-1)) for one in given.values()]
    if not isinstance(header, dict) or not _seems_columns(header):
        columns = [pa.array([one.to_numpy()] * repeat, pa.list_(one.type)) for one in columns]
    elif repeat != 1:
        columns = [pa.concat_arrays([one] * repeat) if repeat else one[:0] for one in columns]
    lengths = {len(one) for one in columns}
    if len(lengths) > 1:
        columns = [pa.array([one.to_numpy()], pa.list_(one.type)) for one in columns]
    metadata = {b"labeldp": text.encode(), b"labeldp.checksum": checksum.encode()}
    schema = pa.schema([pa.field(name, one.type) for name, one in zip(given, columns, strict=True)], metadata=metadata)
    out = io.BytesIO()
    with pq.ParquetWriter(
        out, schema, compression=compression, use_dictionary=False, write_statistics=False, store_schema=True
    ) as writer:
        writer.write_table(pa.table(columns, schema=schema))
    return out.getvalue()


def _seems_columns(header: dict[str, Any]) -> bool:
    try:
        return _in_columns(header)
    except (KeyError, TypeError, AttributeError):
        return True


def npz_file(place: Path, file: str, words: tuple[str, ...] = ()) -> Iterator[Field]:
    """Of an .npz file: every array."""
    yield from whole(place, file)
    with np.load(place / file, allow_pickle=False) as opened:
        arrays = {name: opened[name] for name in opened.files}

    def write(arrays: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        np.savez(out, **arrays)
        return out.getvalue()

    for name in arrays:

        def forged(most: int, name: str = name) -> Contents:
            others = {key: value for key, value in arrays.items() if key != name}
            yield write(others)
            for value in _arrays(arrays[name], words):
                yield write({**others, name: value})

        yield Field(file, name, forged)


def npy_file(place: Path, file: str) -> Iterator[Field]:
    """Of an .npy file: its values."""
    yield from whole(place, file)
    array = np.load(place / file, allow_pickle=False)

    def forged(most: int) -> Contents:
        for value in _arrays(array, ()):
            out = io.BytesIO()
            np.save(out, value)
            yield out.getvalue()

    yield Field(file, "values", forged)


def _arrays(array: Any, words: tuple[str, ...]) -> Iterator[Any]:
    if array.dtype.kind == "U":
        yield from (np.array(word) for word in ("", "other", '{"wrong_only": false}', *words))
        return
    yield array[::-1] if array.ndim else array + 1
    yield np.zeros_like(array)
    yield array.astype(np.float64) + 0.5
    yield np.full(array.shape, np.nan)
    if array.ndim:
        yield array[: len(array) // 2]
        yield np.roll(array, 1, axis=-1)
        yield array[..., None]
    else:
        yield array * 2
        yield array - 1


def safetensors_file(place: Path, file: str) -> Iterator[Field]:
    """Of a checkpoint: its metadata, and its tensors."""
    from safetensors import safe_open
    from safetensors.numpy import save

    yield from whole(place, file)
    with safe_open(place / file, framework="np") as opened:
        about = opened.metadata()
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    for name in about:
        values = ("0", "1000000", "-1", "x", "1e9")

        def counts(most: int, name: str = name, values: tuple[str, ...] = values) -> Contents:
            return (save(tensors, {**about, name: value}) for value in values)

        yield Field(file, name, counts)
    for name in tensors:

        def forged(most: int, name: str = name) -> Contents:
            others = {key: value for key, value in tensors.items() if key != name}
            yield save(others, about)
            for value in (
                np.zeros_like(tensors[name]),
                np.full(tensors[name].shape, np.nan),
                tensors[name].reshape(-1)[:1],
            ):
                yield save({**others, name: np.ascontiguousarray(value)}, about)

        yield Field(file, name, forged)

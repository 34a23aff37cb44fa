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

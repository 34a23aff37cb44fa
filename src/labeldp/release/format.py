"""The release file: Parquet with the columns `id` and `observation`, readable by any Parquet tool.

Its metadata (key `labeldp`) says which mechanism made it; `labeldp.checksum` covers that text and both columns. The checksum
finds damage, not forgery: whoever can write the file can also write its checksum.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.accounting.journal import canonical
from labeldp.errors import FileFormatError, InputError
from labeldp.files.atomic import look_up
from labeldp.files.hashing import text_parts
from labeldp.files.ids import is_plain_id
from labeldp.files.ours import described_file
from labeldp.mechanisms import Mechanism, NoPrivacy, PriorAware, mechanism_from_json
from labeldp.release.header import FORMAT, is_common, is_text
from labeldp.release.prior import PriorOrigin

_HEADER = b"labeldp"
_CHECKSUM = b"labeldp.checksum"
_GROUP_BYTES = 1 << 24
_BATCH_ROWS = 1 << 16


class _Checksum:
    """Of the header and of both columns, each a stream of its own: row groups leave no trace."""

    def __init__(self, header: dict[str, Any]) -> None:
        self._header = canonical(header).encode()
        self._observations, self._ids, self._lengths = (hashlib.sha256() for _ in range(3))

    def add(self, ids: Any | None, observations: npt.NDArray[Any]) -> None:
        self._observations.update(np.ascontiguousarray(observations).data)
        if ids is None:
            return
        if pa.types.is_integer(ids.type):
            self._ids.update(np.ascontiguousarray(ids.to_numpy(zero_copy_only=False)).data)
        else:
            lengths, content = text_parts(ids)
            self._lengths.update(lengths.data)
            self._ids.update(content)

    def hexdigest(self) -> str:
        parts = (self._observations, self._ids, self._lengths)
        return hashlib.sha256(self._header + b"".join(part.digest() for part in parts)).hexdigest()


class Writer:
    """Writes a release row by row into an open file. `id_type` None: rows go by number, from `first_row` on."""

    def __init__(self, file: IO[bytes], header: dict[str, Any], mechanism: Mechanism, id_type: Any | None) -> None:
        # Row groups are cut by a rule that knows the mechanism only. Cut where the input's batches end, their sizes would tell
        # how long the labels' text is: a noiseless count of the labels.
        self._group_rows = max(1, min(1 << 20, _GROUP_BYTES // mechanism.observation_bytes))
        self._pending: list[tuple[Any, npt.NDArray[Any]]] = []
        self._pending_rows = 0
        self._next = int(header["first_row"])
        self._checksum = _Checksum(header)
        self._type = _observation_type(mechanism)
        schema = pa.schema(
            [
                pa.field("id", id_type or pa.int64(), nullable=False),
                pa.field("observation", self._type, nullable=False),
            ],
            metadata={_HEADER: canonical(header).encode()},
        )
        self._writer = pq.ParquetWriter(
            file, schema, compression="snappy", use_dictionary=["observation"] if _is_small(mechanism) else False,
            column_encoding={"id": "DELTA_BINARY_PACKED"} if id_type is None else None, write_statistics=False,
            store_schema=True,
        )  # fmt: skip

    def write(self, ids: Any | None, observations: npt.NDArray[Any]) -> None:
        """The next rows."""
        self._checksum.add(ids, observations)
        if ids is None:
            ids = pa.array(np.arange(self._next, self._next + len(observations), dtype=np.int64))
        self._next += len(observations)
        start = 0
        while self._pending_rows + len(observations) - start >= self._group_rows:
            stop = start + self._group_rows - self._pending_rows
            self._pending.append((ids[start:stop], observations[start:stop]))
            self._write_group()
            start = stop
        if start < len(observations):
            self._pending.append((ids[start:], observations[start:]))
            self._pending_rows += len(observations) - start

    def _write_group(self) -> None:
        ids = pa.chunked_array([part for part, _ in self._pending])
        observations = np.concatenate([part for _, part in self._pending])
        self._pending, self._pending_rows = [], 0
        table = pa.table([ids.combine_chunks(), _to_arrow(observations, self._type)], schema=self._writer.schema)
        self._writer.write_table(table, row_group_size=self._group_rows)

    def abandon(self) -> None:
        """Give up: whatever was written is of no use, and Arrow is not to try again."""
        with contextlib.suppress(Exception):
            self._writer.close()
        self._writer.is_open = False

    def close(self) -> str:
        """Finish the file (it stays open) and return its checksum."""
        if self._pending_rows:
            self._write_group()
        checksum = self._checksum.hexdigest()
        self._writer.add_key_value_metadata({_CHECKSUM: checksum.encode()})
        self._writer.close()
        return checksum


def read(path: Path) -> tuple[dict[str, Any], Mechanism, Any | None, npt.NDArray[Any], str]:
    """Header, mechanism (built anew), ids (None where rows go by number), observations and checksum, all checked."""
    reader = Reader(path)
    pieces = list(reader.pieces())
    observations = np.concatenate([part for _, part in pieces] or [_none(reader.mechanism)])
    ids = None
    if not reader.by_number:
        ids = pa.chunked_array([part for part, _ in pieces], type=None if pieces else pa.string()).combine_chunks()
        if isinstance(ids, pa.ChunkedArray):
            raise _altered(path)
    return reader.header, reader.mechanism, ids, observations, reader.checksum


class Reader:
    """Reads a release piece by piece, and checks it on the way: whoever has seen the last piece knows that the file is whole."""

    def __init__(self, path: Path) -> None:
        """Its header, and the mechanism that this names, built anew."""
        self.path, self.checksum = path, ""
        if look_up(path) is None or path.is_dir():
            raise InputError(f"there is no release file {path}.")
        with self._damage_said(), pq.ParquetFile(path) as file:
            metadata = file.metadata.metadata or {}
            self.header, self.mechanism = _read_header(path, metadata.get(_HEADER))
            self.by_number = self.header["ids"] is None
            self._stated = metadata.get(_CHECKSUM)
            if file.metadata.num_rows != self.header["rows"]:
                raise _altered(path)

    def pieces(self) -> Iterator[tuple[Any | None, npt.NDArray[Any]]]:
        """Ids (None where rows go by number) and observations, in order. A file that was altered ends in an error."""
        checksum, row = _Checksum(self.header), int(self.header["first_row"])
        kept = []  # what is valid only as a whole
        for batch in self._batches():
            if batch.schema.names != ["id", "observation"]:
                raise _altered(self.path)
            ids, observations = batch.column(0), _from_arrow(self.path, batch.column(1), self.mechanism)
            if ids.null_count or not is_plain_id(ids.type) or (self.by_number and not _counts(ids, row)):
                raise _altered(self.path)
            ids = None if self.by_number else ids
            checksum.add(ids, observations)
            if self.mechanism.valid_as_a_whole:
                kept.append(observations)
            elif not self.mechanism.valid(observations):
                raise _altered(self.path)
            yield ids, observations
            row += len(observations)
        whole = not kept or self.mechanism.valid(np.concatenate(kept))
        if not whole or checksum.hexdigest().encode() != self._stated:
            raise _altered(self.path)
        self.checksum = checksum.hexdigest()

    def _batches(self) -> Iterator[Any]:
        with self._damage_said(), pq.ParquetFile(self.path, pre_buffer=False) as file:
            yield from file.iter_batches(columns=["id", "observation"], batch_size=_BATCH_ROWS, use_threads=False)

    @contextlib.contextmanager
    def _damage_said(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError):
            raise FileFormatError(
                f"{self.path} is not a whole release file: cut short, damaged or not Parquet."
            ) from None


def _counts(ids: Any, first: int) -> bool:
    """Whether an id column, which the checksum leaves out where rows go by number, counts the rows of the source."""
    return np.array_equal(ids.to_numpy(zero_copy_only=False), np.arange(first, first + len(ids)))


def _altered(path: Path) -> FileFormatError:
    return FileFormatError(f"{path} was altered or damaged: its rows do not have the checksum it states.")


def _read_header(path: Path, text: bytes | None) -> tuple[dict[str, Any], Mechanism]:
    if text is None:
        raise FileFormatError(f"{path} is a Parquet file, but not a labeldp release.")
    ours = described_file({_HEADER: text})
    if ours is not None and not ours.rows_released:
        raise FileFormatError(f"{path} is {ours.words}; it is no release of rows.")
    try:
        header = json.loads(text)
        canonical(header)  # a number beyond all floats is damage
        version = header["format"]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise FileFormatError(f"{path} has a damaged description.") from None
    if not isinstance(version, int) or version > FORMAT:
        raise FileFormatError(f"{path} was made by a newer labeldp (format {version!r}); update to read it.")
    if not is_header(header):
        raise FileFormatError(f"{path} has a damaged description.")
    try:
        mechanism = mechanism_from_json(header["mechanism"])
    except InputError as error:
        raise FileFormatError(f"{path} describes a mechanism that cannot be: {error}") from None
    if isinstance(mechanism, PriorAware) and header.get("public_prior") is None:
        raise FileFormatError(f"{path} was released with a public prior, and does not say what is behind it.")
    if _promises_too_much(header["budget"], mechanism):
        raise FileFormatError(f"{path} promises less of all releases of its data set than this one alone has cost.")
    return header, mechanism


def _promises_too_much(budget: dict[str, Any], mechanism: Mechanism) -> bool:
    """What an owner promises of all releases together is at least what this one paid (where that is one number)."""
    if isinstance(mechanism, NoPrivacy):
        return False
    paid = mechanism.guarantee()
    promises = [budget[name] for name in ("publishable", "publishable_if_same") if budget.get(name) is not None]
    return not paid.delta and any(promise["epsilon"] < paid.epsilon * (1 - 1e-9) for promise in promises)


def is_header(header: Any) -> bool:
    """Whether every field of a release of rows that is ever used is there and of its kind."""
    return (
        is_common(header)
        and isinstance(header.get("first_row"), int)
        and header["first_row"] >= 0
        and is_text(header.get("trust"))
        and isinstance(header.get("shuffled"), bool)
        and (header.get("public_prior") is None or PriorOrigin.from_json(header["public_prior"]) is not None)
        and not {"public_priors", "releases"} & set(header)
    )


def _is_small(mechanism: Mechanism) -> bool:
    return mechanism.observation_bytes == 1


def _observation_type(mechanism: Mechanism) -> Any:
    if mechanism.one_class:
        return pa.uint8() if mechanism.observation_bytes == 1 else pa.uint16()
    return pa.binary(mechanism.observation_bytes)


def _to_arrow(observations: npt.NDArray[Any], kind: Any) -> Any:
    if not pa.types.is_fixed_size_binary(kind):
        return pa.array(observations, type=kind)
    buffer = pa.py_buffer(np.ascontiguousarray(observations))
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(observations), [None, buffer])


def _from_arrow(path: Path, column: Any, mechanism: Mechanism) -> npt.NDArray[Any]:
    if column.type != _observation_type(mechanism) or column.null_count:
        raise FileFormatError(f"{path} holds observations of another kind than its mechanism makes.")
    if mechanism.one_class:
        return np.asarray(column.to_numpy())
    width = mechanism.observation_bytes
    return np.frombuffer(column.buffers()[1], np.uint8, len(column) * width, column.offset * width).reshape(-1, width)


def _none(mechanism: Mechanism) -> npt.NDArray[Any]:
    """No observations, of the kind that this mechanism makes."""
    if mechanism.one_class:
        return np.zeros(0, _observation_type(mechanism).to_pandas_dtype())
    return np.zeros((0, mechanism.observation_bytes), np.uint8)


def stated_checksum(path: Path) -> str | None:
    """The checksum that a release file states, unchecked; None if it is not a release."""
    stated = _metadata(path).get(_CHECKSUM)
    return stated.decode("ascii", "replace") if stated else None


def stated_header(path: Path) -> dict[str, Any]:
    """What a release file says beside its rows, which are not read: for the owner's own copies."""
    return _read_header(path, _metadata(path).get(_HEADER))[0]


def _metadata(path: Path) -> dict[bytes, bytes]:
    try:
        return pq.read_metadata(path).metadata or {}
    except (pa.ArrowException, OSError):
        return {}

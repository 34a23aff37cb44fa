"""A uniformly random order of the rows, in bounded memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from labeldp.entropy import Entropy, below, uint64s
from labeldp.files.atomic import open_private

_BUCKET_ROWS = 1 << 20
_MOST_BUCKETS = 512

Part = tuple[Any, npt.NDArray[Any]]


def shuffled(parts: Iterable[Part], count: int, entropy: Entropy, scratch: Path) -> Iterator[Part]:
    """The same (ids, observations), in random order.

    Every row goes to a bucket drawn at random; each bucket, small enough for memory, is then permuted. Both draws are
    independent of everything else, so every order is equally likely.
    """
    buckets = min(_MOST_BUCKETS, -(-count // _BUCKET_ROWS))
    if buckets <= 1:
        ids, observations = zip(*parts, strict=True)
        yield _permuted(pa.chunked_array(ids), np.concatenate(observations), entropy)
        return
    scratch.mkdir(mode=0o700)
    try:
        _deal(parts, buckets, entropy, scratch)
        for i in range(buckets):
            files = sorted(scratch.glob(f"{i}-*.npy"))
            if files:
                with pa.ipc.open_stream(scratch / f"{i}.ids") as reader:
                    ids = reader.read_all().column(0)
                yield _permuted(ids, np.concatenate([np.load(file, allow_pickle=False) for file in files]), entropy)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _deal(parts: Iterable[Part], buckets: int, entropy: Entropy, scratch: Path) -> None:
    writers: dict[int, Any] = {}
    files: dict[int, IO[bytes]] = {}
    try:
        for number, (ids, observations) in enumerate(parts):
            bucket = below(entropy, buckets, len(observations))
            for i in np.unique(bucket):
                mine = np.flatnonzero(bucket == i)
                schema = pa.schema([("id", ids.type)])
                if i not in writers:
                    files[i] = open_private(scratch / f"{i}.ids")
                    writers[i] = pa.ipc.new_stream(files[i], schema)
                writers[i].write_batch(pa.record_batch([ids.take(pa.array(mine))], schema=schema))
                with open_private(scratch / f"{i}-{number:06d}.npy") as file:
                    np.save(file, observations[mine])
    finally:
        for writer in (*writers.values(), *files.values()):
            writer.close()


def _permuted(ids: Any, observations: npt.NDArray[Any], entropy: Entropy) -> Part:
    # Sorting by random 64-bit keys is a uniform order, unless two keys are equal: then draw again.
    while True:
        keys = uint64s(entropy, len(observations))
        order = np.argsort(keys, kind="stable")
        if (np.diff(keys[order]) != 0).all():
            break
    taken = ids.take(pa.array(order))
    return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken, observations[order]

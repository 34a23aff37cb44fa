"""What a Parquet file that labeldp wrote is, and which command reads it: for whoever gave it to another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_HEADER = b"labeldp"
_ENCODING = b"labeldp.encoding"
_SHOWN = "which `labeldp inspect` and `labeldp report` read"
_STATISTICS = {
    "score": f"a score, {_SHOWN}",
    "confusion": f"a confusion matrix, {_SHOWN}",
    "choice": f"the choice of a model, {_SHOWN}",
    "moments": "a file of moments, which `labeldp train --moments` reads",
    "histogram": "a histogram of labels by cluster, which `labeldp train --moments` reads",
}
_OTHER_STATISTIC = "one statistic of labels, which `labeldp inspect` reads"


@dataclass(frozen=True)
class OurFile:
    """A file by what it says of itself, which may be anybody's word: good enough for an error's sentence, and for nothing else."""

    words: str  # what it is, and what reads it
    statistic: bool = False
    rows_released: bool = False


_RELEASE = OurFile("a release of rows, which `labeldp train --release` reads", rows_released=True)
_FEATURES = OurFile("a file of features, which `labeldp train --features` reads")
_PROBABILITIES = OurFile("a file of probabilities, which `labeldp score` and `labeldp audit` read")


def described_file(metadata: Mapping[bytes, bytes] | None) -> OurFile | None:
    """From a Parquet file's metadata; None for one of others, or without a word."""
    if not metadata or (_HEADER not in metadata and _ENCODING not in metadata):
        return None
    if _HEADER not in metadata:
        return _FEATURES
    try:
        header = json.loads(metadata[_HEADER])
    except (ValueError, RecursionError):
        return None
    if not isinstance(header, dict):
        return None
    statistic = header.get("statistic")
    if isinstance(statistic, dict):
        name = statistic.get("name")
        known = _STATISTICS.get(name) if isinstance(name, str) else None
        return OurFile(known or _OTHER_STATISTIC, statistic=True)
    if isinstance(header.get("mechanism"), dict):
        return _RELEASE
    return None if "format" in header else _PROBABILITIES


def our_file(path: Path) -> OurFile | None:
    """The same of a file, or of what is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return described_file(pq.read_metadata(path).metadata)
    except (pa.ArrowException, OSError, ValueError):
        return None

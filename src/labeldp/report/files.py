"""Reading what may be missing, damaged or somebody else's."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from labeldp.errors import InputError, LabelDPError
from labeldp.release.release import Release

_LARGEST = 1 << 26  # bytes: no file of ours is larger


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object; None where there is no such file."""
    if not path.is_file():  # a pipe would never end
        return None
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InputError(f"{path} is damaged: it holds no JSON.") from None
    if not isinstance(data, dict):
        raise InputError(f"{path} is damaged: it holds no JSON object.")
    return data


def read_lines(path: Path) -> list[dict[str, Any]]:
    """One JSON object a line; of an epoch that was done twice, the last. Lines that a kill cut short are passed over."""
    if not path.is_file() or path.stat().st_size > _LARGEST:
        return []
    seen: dict[int, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            data = json.loads(line)
            seen[int(data["epoch"])] = data
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue
    return [seen[epoch] for epoch in sorted(seen)]


def read_starts(folder: Path) -> list[dict[str, Any]]:
    """The commands that worked in a run directory, oldest first."""
    data = read_json(folder / "starts.json")
    starts = data.get("starts") if data is not None else []
    if not isinstance(starts, list) or not all(isinstance(start, dict) and "command" in start for start in starts):
        raise InputError(f"{folder / 'starts.json'} is damaged.")
    return starts


def find_releases(folder: Path, starts: list[dict[str, Any]], wanted: tuple[str, ...]) -> list[Release]:
    """The wanted releases, where they are still where the run found them, or in the run directory itself."""
    places = [*sorted(folder.glob("*.parquet"))]
    # Relative to the run, so that both may be moved together.
    places += [folder / str(path) for start in starts for path in start.get("releases", ())]
    found: dict[str, Release] = {}
    for place in dict.fromkeys(path for path in places if path.name not in ("trained.parquet", "crossfitted.parquet")):
        try:
            if not place.is_file():
                continue
            release = Release.load(place)
        except (LabelDPError, OSError, ValueError):
            continue  # scores, say, or an altered file: not what the run was made from
        if release.checksum in wanted:
            found[release.checksum] = release
    return list(found.values())


def finite(value: Any) -> float | None:
    """A number that can be drawn, or None."""
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e15 else None


def text(value: Any) -> str | None:
    """A text, or None; nothing else."""
    if value is not None and not isinstance(value, str):
        raise ValueError
    return value


def number(value: Any) -> float:
    """A finite number, or nothing that a run writes."""
    known = float(value)
    if not math.isfinite(known):
        raise ValueError
    return known

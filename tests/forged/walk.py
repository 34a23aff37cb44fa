"""Every place of a JSON value, and what a cheat would put there."""

from __future__ import annotations

import copy
import math
import zlib
from collections.abc import Iterator
from typing import Any

DROPPED = object()
_ODD = [
    "x", "", [], {}, math.nan, math.inf, -1, -0.5, 0, 1e308, 10**400, [[1]], True, "<script>", [None], {"a": 1}, 5e-324, "nan", "\x1b[2J",
]  # fmt: skip
Path = tuple[Any, ...]


def places(data: Any, path: Path = ()) -> Iterator[Path]:
    """All keys of all dictionaries; of lists, the first two elements and the last."""
    if path:
        yield path
    if isinstance(data, dict):
        for key in data:
            yield from places(data[key], (*path, key))
    elif isinstance(data, list):
        for number in sorted({0, 1, len(data) - 1} & set(range(len(data)))):
            yield from places(data[number], (*path, number))


def at(data: Any, path: Path) -> Any:
    for key in path:
        data = data[key]
    return data


def replaced(data: Any, path: Path, value: Any) -> Any:
    """A copy with another value there, or with nothing."""
    data = copy.deepcopy(data)
    inner = at(data, path[:-1])
    if value is DROPPED:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return data


def name_of(path: Path) -> str:
    return ".".join("*" if isinstance(key, int) else str(key) for key in path)


def cheats(value: Any, words: tuple[str, ...]) -> list[Any]:
    """What looks like it: other numbers of its kind, other texts that mean something (`words`), less or more of a list."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, 0, 2 * value, 1, 10**6]
    if isinstance(value, float):
        return [value / 2, value * 1.5, 0.0, 1.0, 1e-9, 0.999999]
    if isinstance(value, str):
        number = [str(int(value) // 2), str(int(value) * 2), "1"] if value.isdigit() else []
        return [*number, *(word for word in words if word != value), value[::-1] or "y"]
    if isinstance(value, list):
        return [value[:1], value[::-1], value + value, []]
    if isinstance(value, dict):
        return [{}]
    return [0.001, 1, *words, False]


def forgeries(data: Any, path: Path, words: tuple[str, ...], most: int) -> list[Any]:
    """What to put in a place: at most so many, by a fixed rule that begins with a cheat."""
    likely, turn = cheats(at(data, path), words), zlib.crc32(repr(path).encode())
    first = likely[turn % len(likely) :] + likely[: turn % len(likely)] if likely else []
    turn = turn // 64 % len(_ODD)
    return [
        *first[:1],
        DROPPED,
        *first[1:2],
        *_ODD[turn : turn + 1],
        None,
        *first[2:],
        *_ODD[:turn],
        *_ODD[turn + 1 :],
    ][:most]

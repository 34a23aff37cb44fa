"""Forge every field, ask every reader, compare."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from labeldp.errors import LabelDPError

from .fields import Field
from .kinds import Kind, Reader
from .order import Claims, stronger
from .world import inside


@dataclass
class Outcome:
    """Of one kind of file. A field is refused, weaker or unused by what any of its forgeries did to any reader, in this order."""

    fields: int = 0
    forgeries: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def forged(kind: Kind, place: Path, *, most: int, step: int = 1) -> Outcome:
    """All fields of a kind (every `step`-th by a fixed rule), each with at most so many values, in a directory that is left as it was."""
    outcome = Outcome()
    with inside(place):
        honest = {name: read() for name, read in kind.readers.items()}
        for one in kind.fields(place):
            outcome.fields += 1
            if zlib.crc32(f"{one.file} {one.name}".encode()) % step == 0:
                outcome.counts[_field(kind, one, honest, place, most, outcome)] += 1
        assert {name: read() for name, read in kind.readers.items()} == honest, f"{kind.name}: not left as it was"
    return outcome


def _field(kind: Kind, one: Field, honest: dict[str, Claims], place: Path, most: int, outcome: Outcome) -> str:
    path, seen = place / one.file, set()
    before = path.read_bytes()
    for content in islice(one.forged(most), most):
        outcome.forgeries += 1
        path.unlink() if content is None else path.write_bytes(content)
        for name, read in kind.readers.items():
            seen.add(_read(kind, one, name, read, honest[name], outcome))
        path.write_bytes(before)
    return next(word for word in ("by its account", "refused", "weaker", "unused") if word in seen)


def _read(kind: Kind, one: Field, name: str, read: Reader, honest: Claims, outcome: Outcome) -> str:
    try:
        found = read()
    except LabelDPError:
        return "refused"
    except Exception as error:
        outcome.faults.append(f"{kind.name}: {one.file} {one.name}: {name} crashed: {type(error).__name__} {error}")
        return "unused"
    if found == honest:
        return "unused"
    more = stronger(honest, found)
    faults = {claim: now for claim, now in more.items() if not (now.account and kind.on_its_word(one))}
    outcome.faults += [
        f"{kind.name}: {one.file} {one.name}: {name} says more: {claim} {honest.get(claim)} -> {now}"
        for claim, now in faults.items()
    ]
    return "by its account" if more else "weaker"

"""The entries of a ledger, one type each: what is written into it, and what may be read from a file that is damaged, or anybody's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from labeldp.errors import InputError
from labeldp.files.schema import SchemaError, decode

# A release's life; each state is durable before the next step begins.
CHARGED, COMPLETE, PUBLISHED, DELIVERED = "charged", "complete", "published", "delivered"
LOST = "lost"  # published, and its file gone: the charge stands, and it is over
STATES = (CHARGED, COMPLETE, PUBLISHED, DELIVERED, LOST)

ORIGINAL = "original"  # the group of ids that needs no name

_KEY_BYTES = 64  # that a keyed hash takes at most
_LEAST_DELTA = 1e-300
_WHOLE = 1 << 63


@dataclass(frozen=True)
class Fingerprint:
    """What a data set is recognised by: public, keyed, and independent of every label.

    by       "ids", "columns" (the other columns), or "name" where the file offers nothing else
    columns  of all columns but the label, ids among them: the same file with and without --id has it in common
    written  of ids as they were written, where that is not their canonical form: older ledgers know nothing else
    """

    by: Literal["ids", "columns", "name"]
    rows: int
    digest: str | None
    columns: str | None = None
    written: str | None = None

    def __post_init__(self) -> None:
        check_texts(self.digest, self.columns, self.written)
        check_whole(self.rows)

    def to_json(self) -> dict[str, Any]:
        """As a part of an entry."""
        written = {} if self.written is None else {"written": self.written}
        return {"by": self.by, "rows": self.rows, "digest": self.digest, "columns": self.columns, **written}

    def matches(self, other: Fingerprint) -> bool:
        """Whether both are of the same rows, known in the same way."""
        forms = ((self.digest, other.digest), (self.written or "", other.digest), (self.digest, other.written or ""))
        return (self.by, self.rows) == (other.by, other.rows) and any(mine == theirs for mine, theirs in forms)

    def same_file(self, other: Fingerprint) -> bool:
        """Whether both are of the same rows, though perhaps known in another way."""
        return self.columns is not None and (self.rows, self.columns) == (other.rows, other.columns)


@dataclass(frozen=True)
class LedgerEntry:
    """What is written: the word that says which kind it is, and a body."""

    kind: ClassVar[str]

    def written(self) -> tuple[str, dict[str, Any]]:
        """Kind and body, as JSON."""
        return self.kind, {field.name: _json(getattr(self, field.name)) for field in fields(self)}


@dataclass(frozen=True)
class Begun(LedgerEntry):
    """The first one. Ids and columns are hashed with the key."""

    kind = "ledger"
    ledger: str
    key: str
    at: str = ""

    def __post_init__(self) -> None:
        check_texts(self.ledger)
        if not 0 < len(bytes.fromhex(self.key)) <= _KEY_BYTES:
            raise InputError("a key is 1 to 64 bytes.")


@dataclass(frozen=True)
class DataSetOpened(LedgerEntry):
    """A data set that the ledger did not know. `caps` and `ids` are the JSON of a `Cost` and of `Rows`."""

    kind = "data set"
    name: str
    fingerprint: Fingerprint
    delta: float
    caps: dict[str, Any] | None = None
    groups: tuple[str, ...] | None = None
    ids: dict[str, Any] | None = None
    at: str = ""

    def __post_init__(self) -> None:
        check_texts(self.name, *(self.groups or ()))
        _check_delta(self.delta)
        if self.groups == ():
            raise InputError("a data set's ids are of one group at least.")


@dataclass(frozen=True)
class BudgetChanged(LedgerEntry):
    """Other caps, from now on."""

    kind = "budget"
    data_set: str
    caps: dict[str, Any]
    delta: float
    raised: bool
    at: str

    def __post_init__(self) -> None:
        check_texts(self.data_set, self.at)
        _check_delta(self.delta)


@dataclass(frozen=True)
class Unprotected(LedgerEntry):
    """A data set of which nothing can be promised any more."""

    kind = "unprotected"
    data_set: str
    reason: str
    at: str = ""

    def __post_init__(self) -> None:
        check_texts(self.data_set, self.reason)


@dataclass(frozen=True)
class Charged(LedgerEntry):
    """A release is paid for. `rows` and `cost` are the JSON of `Rows` and of a `Cost`; the request says which release it is."""

    kind = CHARGED
    data_set: str
    rows: dict[str, Any]
    request: dict[str, Any]
    insecure: str | None
    at: str
    cost: dict[str, Any] | None = None
    handed_over: dict[str, str] | None = None  # to whom, what for, who said so

    def __post_init__(self) -> None:
        check_texts(self.data_set, self.insecure, self.at, *(self.handed_over or {}).values())
        mechanism = self.request.get("mechanism")
        name = mechanism.get("name") if isinstance(mechanism, dict) else None
        if not isinstance(name, str):
            raise InputError("a request names its mechanism.")
        check_texts(name)  # which statements show

    def written(self) -> tuple[str, dict[str, Any]]:
        """To whom only where it was stated."""
        kind, body = super().written()
        return kind, {name: value for name, value in body.items() if name != "handed_over" or value is not None}


@dataclass(frozen=True)
class StateReached(LedgerEntry):
    """What became of a release, by the number of its entry. The state is the entry's kind."""

    state: str
    release: int
    checksum: str | None = None

    def __post_init__(self) -> None:
        if self.state not in STATES[1:]:
            raise InputError(f"a release that is charged becomes {', '.join(STATES[1:])}.")
        check_whole(self.release)
        check_texts(self.checksum)
        if self.state == PUBLISHED and self.checksum is None:
            raise InputError("a published release has a checksum.")

    def written(self) -> tuple[str, dict[str, Any]]:
        """A checksum only where there is one."""
        checksum = {} if self.checksum is None else {"checksum": self.checksum}
        return self.state, {"release": self.release, **checksum}


_KINDS: dict[str, type[LedgerEntry]] = {
    one.kind: one for one in (Begun, DataSetOpened, BudgetChanged, Unprotected, Charged)
}


def read_entry(kind: str, body: Mapping[str, Any]) -> LedgerEntry:
    """From what was read; an InputError, if labeldp writes no such entry."""
    if kind in STATES[1:]:
        return decode(StateReached, {**body, "state": kind})
    if kind not in _KINDS:
        raise SchemaError("the kind of the entry is none that labeldp writes.")
    return decode(_KINDS[kind], body)


def check_texts(*values: str | None) -> None:
    """People will read them."""
    if not all(value is None or (value and value.isprintable()) for value in values):
        raise InputError("texts are printable, and not empty.")


def check_whole(value: int, least: int = 0) -> None:
    """What fits into 63 bits."""
    if not least <= value < _WHOLE:
        raise InputError("a whole number is out of range.")


def _check_delta(delta: float) -> None:
    if delta and not _LEAST_DELTA < delta < 1:
        raise InputError("a δ is 0, or between 0 and 1.")


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value.to_json() if isinstance(value, Fingerprint) else value

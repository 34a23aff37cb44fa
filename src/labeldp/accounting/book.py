"""What the ledger's entries add up to: data sets, budgets, releases. A pure function of the entries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labeldp.accounting.cost import Cost
from labeldp.accounting.journal import Entry
from labeldp.accounting.rows import Rows, heaviest, highest, rows_from_json
from labeldp.errors import LedgerError
from labeldp.provenance import day_of

# A release's life; each state is durable before the next step begins.
CHARGED, COMPLETE, PUBLISHED, DELIVERED = "charged", "complete", "published", "delivered"
LOST = "lost"  # published, and its file gone: the charge stands, and it is over
STATES = (CHARGED, COMPLETE, PUBLISHED, DELIVERED, LOST)


@dataclass(frozen=True)
class Fingerprint:
    """What a data set is recognised by: public, keyed, and independent of every label.

    `by` is "ids", "columns" (the other columns), or "name" where the file offers nothing else.
    """

    by: str
    rows: int
    digest: str | None
    # Of all columns but the label, ids among them: the same file with and without --id has it in common.
    columns: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As an entry of the ledger."""
        return {"by": self.by, "rows": self.rows, "digest": self.digest, "columns": self.columns}

    def matches(self, other: Fingerprint) -> bool:
        """Whether both are of the same rows, known in the same way."""
        return (self.by, self.rows, self.digest) == (other.by, other.rows, other.digest)

    def same_file(self, other: Fingerprint) -> bool:
        """Whether both are of the same rows, though perhaps known in another way."""
        return self.columns is not None and (self.rows, self.columns) == (other.rows, other.columns)


@dataclass
class ReleaseRecord:
    """One charge and what became of it. Its number is that of its entry in the ledger."""

    number: int
    head: str
    data_set: str
    rows: Rows
    cost: Cost | None
    request: dict[str, Any]
    insecure: str | None
    made: str
    state: str = CHARGED
    checksum: str | None = None

    def reached(self, state: str) -> bool:
        """Whether the release is in this state or a later one."""
        return STATES.index(self.state) >= STATES.index(state)


@dataclass
class DataSet:
    """One data set's budget and releases."""

    name: str
    fingerprint: Fingerprint
    caps: Cost | None
    delta: float = 0.0  # the δ at which the caps are stated
    promised: Cost = field(default_factory=Cost)  # the highest caps under which anything was charged
    unprotected: str | None = None
    raised: list[dict[str, Any]] = field(default_factory=list)
    releases: list[ReleaseRecord] = field(default_factory=list)

    def spent_on(self, rows: Rows) -> Cost:
        """The most that any of these rows has paid."""
        return heaviest(rows, ((r.rows, r.cost) for r in self.releases if r.cost is not None))

    def spent(self) -> Cost:
        """The most that any row has paid so far."""
        most = Cost()
        for release in self.releases:
            here = self.spent_on(release.rows)
            most = highest(most, here)
        return most

    def publishable(self) -> dict[str, float] | None:
        """The (ε, δ) that may be published about all releases together, whatever they turn out to be: that of the caps.

        Of the highest that were ever in force: a cap that is lowered after seeing releases limits what comes, and does not
        make a better promise about what was.
        """
        if self.caps is None:
            return None
        most = highest(self.promised, self.caps)
        return {"epsilon": most.epsilon(self.delta), "delta": self.delta if most.gaussian else 0.0}

    def budget_json(self) -> dict[str, Any]:
        """For a release's metadata: the caps, what they amount to, and every time they were raised."""
        caps = self.caps.to_json() if self.caps else None
        return {"caps": caps, "publishable": self.publishable(), "raised": self.raised}


@dataclass
class Book:
    """The state of a ledger."""

    ledger: str
    key: bytes
    data_sets: dict[str, DataSet] = field(default_factory=dict)
    releases: dict[int, ReleaseRecord] = field(default_factory=dict)


def read(entries: Iterable[Entry], folder: Path) -> Book:
    """Replay the entries, oldest first."""
    entries = list(entries)
    try:
        book = Book(entries[0].body["ledger"], bytes.fromhex(entries[0].body["key"]))
        for entry in entries[1:]:
            _apply(book, entry, folder)
    except (KeyError, IndexError, TypeError, ValueError):
        raise LedgerError("the ledger holds entries that do not fit together: it was altered.") from None
    return book


def _apply(book: Book, entry: Entry, folder: Path) -> None:
    body = entry.body
    if entry.kind in STATES[1:]:
        release = book.releases[body["release"]]
        release.state = entry.kind
        release.checksum = body.get("checksum", release.checksum)
    elif entry.kind == "data set":
        caps = Cost.from_json(body["caps"]) if body["caps"] else None
        book.data_sets[body["name"]] = DataSet(body["name"], Fingerprint(**body["fingerprint"]), caps, body["delta"])
    elif entry.kind == "budget":
        data_set = book.data_sets[body["data_set"]]
        before, data_set.caps, data_set.delta = data_set.caps, Cost.from_json(body["caps"]), body["delta"]
        if body["raised"]:
            data_set.raised.append(
                {"at": day_of(body["at"]), "from": before.to_json() if before else None, "to": body["caps"]}
            )
    elif entry.kind == "unprotected":
        book.data_sets[body["data_set"]].unprotected = body["reason"]
    elif entry.kind == CHARGED:
        release = ReleaseRecord(
            entry.number, entry.hash, body["data_set"], rows_from_json(body["rows"], folder),
            Cost.from_json(body["cost"]) if body["cost"] else None, body["request"], body["insecure"], day_of(body["at"]),
        )  # fmt: skip
        book.releases[entry.number] = release
        data_set = book.data_sets[release.data_set]
        data_set.releases.append(release)
        data_set.promised = highest(data_set.promised, data_set.caps or Cost())
    else:
        raise ValueError(entry.kind)

"""What the ledger's entries add up to: data sets, budgets, releases. A pure function of the entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from labeldp.accounting.cost import MIN_DELTA, Cost
from labeldp.accounting.entries import (
    CHARGED,
    ORIGINAL,
    STATES,
    Begun,
    BudgetChanged,
    Charged,
    DataSetOpened,
    Fingerprint,
    StateReached,
    Unprotected,
    read_entry,
)  # fmt: skip
from labeldp.accounting.journal import Entry
from labeldp.accounting.rows import RowIds, RowNumbers, Rows, heaviest, highest, overlap, rows_from_json
from labeldp.errors import AccountingError, LedgerError
from labeldp.provenance import day_of


@dataclass(frozen=True)
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
    handed_over: dict[str, str] | None = None

    def reached(self, state: str) -> bool:
        """Whether the release is in this state or a later one."""
        return STATES.index(self.state) >= STATES.index(state)


@dataclass
class DataSet:
    """One data set's budget and releases. `groups` are those of its ids; `ids` are all of them, released or not."""

    name: str
    fingerprint: Fingerprint
    caps: Cost | None
    delta: float = 0.0  # the δ at which the caps are stated
    groups: tuple[str, ...] = (ORIGINAL,)
    ids: RowIds | None = None
    promised: Cost = field(default_factory=Cost)  # the highest caps under which anything was charged
    unprotected: str | None = None
    raised: list[dict[str, Any]] = field(default_factory=list)
    releases: list[ReleaseRecord] = field(default_factory=list)
    book: Book | None = field(default=None, repr=False, compare=False)  # the ledger's, in which its ids have accounts

    def peers(self, group: str | None = None) -> list[DataSet]:
        """The data sets whose ids are accounted for together with these: those of a group (None: of all groups), itself among them."""
        if self.book is None or self.fingerprint.by != "ids":
            return [self]
        others = [d for d in self.book.data_sets.values() if d.name != self.name and d.fingerprint.by == "ids"]
        return [self, *(d for d in others if group is None or group in d.groups)]

    def releases_of(self, rows: Rows) -> list[ReleaseRecord]:
        """Those that have some of these rows, in this data set or, by id, in another one of its groups."""
        peers = {peer.name: peer for group in self.groups for peer in self.peers(group)}
        return [release for peer in peers.values() for release in peer.releases if overlap(rows, release.rows)]

    def spent_on(self, rows: Rows) -> Cost:
        """The most that any of these rows has paid, in all data sets of a group of ids that it is in."""
        return self._most(rows, self.groups)

    def spent(self) -> Cost:
        """The most that any row has paid so far, wherever its id appears."""
        return self._most_of_all(self.groups)

    def spent_if_same(self) -> Cost | None:
        """The same, if equal ids name the same people in all groups; None where that is no more, or has no bound."""
        if (
            len({group for peer in self.peers() for group in peer.groups}) == 1
            or self.unprotected_if_same() is not None
        ):
            return None
        together = self._most_of_all((None,))
        return together if together != self.spent() else None

    def unprotected_if_same(self) -> str | None:
        """Why nothing holds if equal ids name the same people in all groups: some of these were released without protection elsewhere."""
        mine = [*(release.rows for release in self.releases), *([] if self.ids is None else [self.ids])]
        for peer in self.peers():
            theirs = [release.rows for release in peer.releases] if peer.unprotected is not None else []
            if peer.name != self.name and any(overlap(one, other) for one in mine for other in theirs):
                return peer.unprotected
        return None

    def _most_of_all(self, groups: Sequence[str | None]) -> Cost:
        most = Cost()
        kinds = {release.rows: release.rows for release in self.releases}
        if self.ids is not None:  # an id of this data set may have been released in another one only
            kinds.setdefault(self.ids, self.ids)
        for rows in kinds:
            most = highest(most, self._most(rows, groups))
        return most

    def _most(self, rows: Rows, groups: Sequence[str | None]) -> Cost:
        most = Cost()
        for group in groups:
            paid = [(r.rows, r.cost) for peer in self.peers(group) for r in peer.releases if r.cost is not None]
            most = highest(most, heaviest(rows, paid))
        return most

    def publishable(self) -> dict[str, float] | None:
        """The (ε, δ) that may be published about all releases together, whatever they turn out to be: that of the caps.

        Of the highest that were ever in force: a cap that is lowered after seeing releases limits what comes, and does not
        make a better promise about what was. (Where an older labeldp let ids be released under two names, it may be more.)
        """
        if self.caps is None:
            return None
        return self.stated(highest(self.most_promised(), self.spent()))

    def most_promised(self) -> Cost:
        """The highest caps that were ever in force."""
        return highest(self.promised, self.caps or Cost())

    def publishable_if_same(self) -> dict[str, float] | None:
        """What holds so far if equal ids name the same people in all groups of ids, whatever was said of them."""
        together = self.spent_if_same()
        return None if together is None or self.caps is None else self.stated(highest(self.most_promised(), together))

    def stated(self, most: Cost) -> dict[str, float]:
        """A cost as (ε, δ), at the δ of this data set."""
        if not most.gaussian:
            return {"epsilon": most.pure, "delta": 0.0}
        # A data set without a δ of its own may hold ids that paid a Gaussian cost elsewhere.
        deltas = (self.delta, *(peer.delta for peer in self.peers()), 2 * most.slack_mass, MIN_DELTA)
        delta = next(delta for delta in deltas if delta > most.slack_mass)
        return {"epsilon": most.epsilon(delta), "delta": delta}

    def budget_json(self) -> dict[str, Any]:
        """For a release's metadata: the caps, what they amount to for every label, of whom it is said, and every time they were raised."""
        return {
            "caps": self.caps.to_json() if self.caps else None,
            "publishable": self.publishable(),
            "publishable_if_same": self.publishable_if_same(),
            "unprotected_if_same": self.unprotected_if_same(),
            "of": "ids" if self.fingerprint.by == "ids" else "this name",
            "groups": list(self.groups),
            "raised": self.raised,
        }


@dataclass
class Book:
    """The state of a ledger: what its first `length` entries add up to, of which `last` is the last."""

    ledger: str
    key: bytes
    data_sets: dict[str, DataSet] = field(default_factory=dict)
    releases: dict[int, ReleaseRecord] = field(default_factory=dict)
    length: int = 0
    last: Entry | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for data_set in self.data_sets.values():
            data_set.book = self

    def before(self, number: int) -> Book:
        """As it was before that entry, as far as releases go."""
        then = {
            name: replace(
                d, raised=[*d.raised], releases=[release for release in d.releases if release.number < number]
            )
            for name, d in self.data_sets.items()
        }
        return Book(self.ledger, self.key, then, {n: one for n, one in self.releases.items() if n < number})

    def copy(self) -> Book:
        """For whoever looks: what they do to it changes nothing."""
        return replace(self.before(self.length + 1), length=self.length, last=self.last)

    def begins(self, entries: Sequence[Entry]) -> bool:
        """Whether it is of the first of these: the very same objects, since equal ones that were read anew may follow from others."""
        return 0 < self.length <= len(entries) and entries[self.length - 1] is self.last

    def note(self, release: ReleaseRecord) -> None:
        """A release that is new, or has come further."""
        releases = self.data_sets[release.data_set].releases
        if release.number in self.releases:
            place = next(i for i in reversed(range(len(releases))) if releases[i].number == release.number)
            releases[place] = release
        else:
            releases.append(release)
        self.releases[release.number] = release

    def groups(self) -> tuple[str, ...]:
        """All groups of ids that were ever named, and the one that needs no name."""
        return tuple(dict.fromkeys((ORIGINAL, *(name for d in self.data_sets.values() for name in d.groups))))


def read(entries: Sequence[Entry], folder: Path, known: Book | None = None) -> Book:
    """Replay the entries, oldest first; those after `known`, if that is what the first of them add up to. It stays as it is."""
    book: Book | None = None
    if known is not None and known.begins(entries):
        if known.length == len(entries):
            return known
        book = replace(known.before(len(entries) + 1), length=known.length)
    for entry in entries[book.length if book is not None else 0 :]:
        try:
            if book is None:
                book = _begun(entry)
            else:
                _apply(book, entry, folder)
        except (KeyError, ValueError, AccountingError):
            raise LedgerError(
                f"entry {entry.number} of the ledger is not as labeldp writes it, or does not fit those before: it was altered or damaged."
            ) from None
    if book is None:
        raise LedgerError("the ledger has no entries: it was altered or damaged.")
    book.length, book.last = len(entries), entries[-1]
    return book


def _begun(entry: Entry) -> Book:
    said = read_entry(entry.kind, entry.body)
    if not isinstance(said, Begun):
        raise ValueError(entry.kind)
    return Book(said.ledger, bytes.fromhex(said.key))


def _apply(book: Book, entry: Entry, folder: Path) -> None:
    said = read_entry(entry.kind, entry.body)
    match said:
        case StateReached():
            book.note(_reached(book.releases[said.release], said))
        case Charged():
            book.note(_release(entry, said, folder))
            data_set = book.data_sets[said.data_set]
            data_set.promised = highest(data_set.promised, data_set.caps or Cost())
        case DataSetOpened():
            if said.name in book.data_sets:
                raise ValueError(said.name)
            book.data_sets[said.name] = _data_set(book, said, folder)
        case BudgetChanged():
            data_set = book.data_sets[said.data_set]
            before, data_set.caps, data_set.delta = data_set.caps, Cost.from_json(said.caps), said.delta
            if said.raised:
                data_set.raised.append(
                    {"at": day_of(said.at), "from": before.to_json() if before else None, "to": said.caps}
                )
        case Unprotected():
            book.data_sets[said.data_set].unprotected = said.reason
        case _:
            raise ValueError(entry.kind)


def _reached(release: ReleaseRecord, said: StateReached) -> ReleaseRecord:
    # A draw that is thrown away may be complete again, and nothing else.
    if release.reached(said.state) and said.state != release.state:
        raise ValueError(said.state)
    return replace(release, state=said.state, checksum=said.checksum or release.checksum)


def _data_set(book: Book, said: DataSetOpened, folder: Path) -> DataSet:
    ids = rows_from_json(said.ids, folder) if said.ids is not None else None
    if isinstance(ids, RowNumbers):
        raise ValueError("ids")
    caps = None if said.caps is None else Cost.from_json(said.caps)
    return DataSet(said.name, said.fingerprint, caps, said.delta, said.groups or (ORIGINAL,), ids, book=book)


def _release(entry: Entry, said: Charged, folder: Path) -> ReleaseRecord:
    cost = None if said.cost is None else Cost.from_json(said.cost)
    rows = rows_from_json(said.rows, folder)
    return ReleaseRecord(
        entry.number, entry.hash, said.data_set, rows, cost, said.request, said.insecure, day_of(said.at),
        handed_over=said.handed_over,
    )  # fmt: skip

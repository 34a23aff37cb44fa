"""The label owner's ledger: what has been spent, on which rows, by which release."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.accounting import book as books
from labeldp.accounting.book import Book, ReleaseRecord
from labeldp.accounting.entries import DELIVERED, Begun, LedgerEntry, StateReached
from labeldp.accounting.filter import Budget, Decision, Request, decide
from labeldp.accounting.journal import Entry, Journal, Transaction, UnsureError, broken_at, is_begun
from labeldp.accounting.rows import RowIds, moved_into
from labeldp.errors import LabelDPError, LedgerError, UnfinishedError, VerificationError
from labeldp.files.atomic import sync_folder
from labeldp.provenance import today
from labeldp.renamed import Renamed

if TYPE_CHECKING:
    from filelock import FileLock

_TRIES = 100
_MARK = re.compile(r"(?:head-)?([0-9]{1,18})-([0-9a-f]{16})(?:\.parquet|\.partial)?")


def default_ledger_path() -> Path:
    """`LABELDP_LEDGER`, else one file for each user, so that a copied label file does not escape its budget."""
    named = os.environ.get("LABELDP_LEDGER")
    if named:
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_data_dir("labeldp", appauthor=False)) / "labels.ledger"


class BegunMeanwhileError(LedgerError):
    """A request was prepared for a ledger that was yet to begin, and another process has begun one: its ids must be hashed anew."""


@dataclass(frozen=True)
class _Mark:
    """A name in the ledger's folder that says which entry the ledger must have."""

    name: str
    number: int
    head: str

    @classmethod
    def read(cls, name: str) -> _Mark:
        found = _MARK.fullmatch(name)
        return cls(name, int(found[1]), found[2]) if found else cls(name, 0, "")

    @property
    def is_note(self) -> bool:
        return self.name.startswith("head-")


class Ledger:
    """One SQLite file of the label owner, and a folder beside it that keeps a copy of every release."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        budget: float | None = None,
        budget_gaussian: tuple[float, float] | None = None,
        raise_budget: bool = False,
        other_ids: str | None = None,
        create: bool = True,
    ) -> None:
        """Open a ledger. Where there is none, the first charge begins it (`create=False`: an error instead).

        The budget is that of each data set released through this object.
        `other_ids` names a group of ids: those of the data sets that are released first through this object name other people than
        equal ids in other groups, and have accounts of their own. It is recorded.
        """
        # Resolved, so that links to one ledger share its lock and its folder, wherever the process goes.
        self.path = (Path(path) if path is not None else default_ledger_path()).resolve()
        self.budget = Budget(budget, budget_gaussian, raise_budget)
        self.other_ids = other_ids
        self.folder = self.path.with_name(self.path.name + ".releases")
        self.begun_now = False
        self._known: Book | None = None
        if not is_begun(self.path):
            self._check_none_missing([], self._marks())
        self._journal = Journal(self.path, self._first_entry if create else None)
        try:
            for private, mode in ((self.path, 0o600), (self.folder, 0o700)):
                if os.name == "posix" and private.exists() and private.stat().st_mode & 0o077:
                    private.chmod(mode)
        except OSError as error:
            raise LedgerError(f"the ledger {self.path} cannot be closed to others: {error.strerror}.") from None

    def book(self) -> Book:
        """All data sets and releases, as the caller's own copy. Nothing is begun by looking."""
        marks = self._marks()  # first these: others may be released meanwhile
        return self._read(self._journal.entries(), marks).copy()

    def _read(self, entries: list[Entry], marks: list[_Mark]) -> Book:
        """What the entries add up to; only those are checked and replayed that were not before."""
        known = self._known
        broken = broken_at(entries, known.length if known is not None and known.begins(entries) else 0)
        if broken is not None:
            raise VerificationError(
                f"entry {broken} of the ledger {self.path} does not follow from the one before: altered."
            )
        self._check_none_missing(entries if self._journal.begun() else [], marks)
        book = self._known = books.read(entries, self.folder, known)
        return book

    def _append(self, transaction: Transaction, added: Iterable[LedgerEntry], known: Book) -> Book:
        """What the entries will add up to, with these; which are checked before they are durable."""
        for entry in added:
            transaction.append(*entry.written())
        return books.read(transaction.entries, self.folder, known)

    # ── what lies beside the ledger shows how far it had come ──

    def _marks(self) -> list[_Mark]:
        """Releases, finished or not, and the note of the last entry: each is named by an entry, and was made after it."""
        try:
            names = sorted(path.name for path in self.folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise LedgerError(f"the folder {self.folder} cannot be read: {error.strerror}.") from None
        return [_Mark.read(name) for name in names if _MARK.fullmatch(name) or name.endswith(".parquet")]

    def _check_none_missing(self, entries: list[Entry], marks: list[_Mark]) -> None:
        """Every entry that something beside the ledger is named by must be in it: an old copy that was put back lacks the last ones."""
        for mark in marks:
            known = entries[mark.number - 1].hash if 0 < mark.number <= len(entries) else ""
            if known.startswith(mark.head) and mark.head:
                continue
            where = self.folder / mark.name
            if not entries:
                raise VerificationError(
                    f"the ledger {self.path} is gone, but {where} belongs to it: it was deleted, moved away or emptied, and what was spent "
                    "is missing. Put it back, or name another `ledger`."
                )
            if mark.is_note:
                raise VerificationError(
                    f"the ledger {self.path} ends at entry {len(entries)}, and {where} says that it had an entry {mark.number} which it "
                    "does not know: it was rolled back to an old copy or lost entries, and what was spent since is missing from it. Put "
                    "the newer copy back."
                )
            raise VerificationError(
                f"{where} was released through {self.path}, which does not know it: the ledger was rolled back to an old copy, and what "
                "was spent since is missing from it. Put the newer copy back."
            )

    def _note(self, last: Entry) -> None:
        """Beside the ledger, the number and hash of its last entry, once that is durable.

        Whoever is killed in between leaves the note of an earlier entry; it is never ahead. A note that cannot be written is no reason to
        stop: it lags.
        """
        note = _Mark(f"head-{last.number}-{last.hash[:16]}", last.number, last.hash[:16])
        with suppress(OSError, LedgerError):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            if not (self.folder / note.name).exists():
                os.close(os.open(self.folder / note.name, os.O_CREAT | os.O_WRONLY, 0o600))
                sync_folder(self.folder)
            for mark in self._marks():
                if mark.is_note and mark.number < note.number:
                    (self.folder / mark.name).unlink(missing_ok=True)

    # ── one release at a time ──

    @contextmanager
    def lock(self, data_set: str) -> Iterator[Path]:
        """One release of a data set at a time; yields an empty private folder for its unfinished files.

        The operating system lifts the lock when its holder dies; what the holder left is thrown away.
        """
        name = hashlib.sha256(data_set.encode()).hexdigest()[:16]
        scratch = self.folder / f"{name}.scratch"
        made, lock = self._locked(name)
        try:
            try:
                shutil.rmtree(scratch, ignore_errors=True)
                scratch.mkdir(mode=0o700)
            except OSError as error:
                raise LedgerError(f"{self.folder} cannot be written: {error.strerror}.") from None
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            try:
                if not self._journal.begun():
                    self._leave(Path(lock.lock_file), made)
            finally:
                lock.release()

    def _leave(self, lock_file: Path, made: list[Path]) -> None:
        """Nothing was begun: no folder stays. Whoever waits for this lock looks whether its file is still there."""
        with suppress(OSError):  # not empty: somebody else is at work here
            lock_file.unlink(missing_ok=True)
            for folder in (self.folder, *(other for other in made if other != self.folder)):
                folder.rmdir()

    def _locked(self, name: str) -> tuple[list[Path], FileLock]:
        """The lock, held; and the folders that were made for it, the innermost first."""
        from filelock import FileLock

        made: list[Path] = []
        lock = FileLock(self.folder / f"{name}.lock", mode=0o600)
        for _ in range(_TRIES):
            try:
                missing = [folder for folder in (self.folder, *self.folder.parents) if not folder.exists()]
                self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.folder.mkdir(mode=0o700, exist_ok=True)
                made = missing or made
                lock.acquire()
                return made, lock
            except FileNotFoundError:
                continue  # somebody whose release was refused has just removed the folder
            except OSError as error:
                raise LedgerError(f"{self.folder} cannot be written: {error.strerror}.") from None
        raise LedgerError(f"{self.folder} cannot be made.")

    def look(self, request: Request) -> ReleaseRecord | None:
        """Would this be allowed? The earlier release if it is the same again; None if it would be charged."""
        return self._decide(self.book(), request).repeats

    def charge(self, request: Request) -> ReleaseRecord:
        """Durably charge the request, before any noise is drawn; or return the release that it repeats."""
        begun = self._journal.begun()
        moved: list[Path] = []
        try:
            with self._journal.transaction() as transaction:
                book = self._read(transaction.entries, self._marks())
                decision = self._decide(book, request)
                moved = self._take_in(request)
                book = self._append(transaction, decision.entries, book)
        except UnsureError as error:
            raise UnfinishedError(
                f"{error} The release may be charged: the same command finds out, and nothing is charged twice."
            ) from None
        except LabelDPError:
            if not self._journal.begun():
                for path in moved:
                    path.unlink(missing_ok=True)
            raise
        self.begun_now = self.begun_now or not begun
        self._known = book
        self._note(transaction.entries[-1])
        return decision.repeats or book.releases[transaction.entries[-1].number]

    def _decide(self, book: Book, request: Request) -> Decision:
        if request.ledger not in (None, book.ledger):
            raise BegunMeanwhileError(
                f"another process has begun the ledger {self.path} meanwhile; run the same command again. Nothing was charged."
            )
        return decide(book, request, self.budget, today())

    def _take_in(self, request: Request) -> list[Path]:
        """Hashes of ids, from wherever they were made to where the entries that name them will look."""
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            moved = [path for rows in (request.rows, request.ids) for path in moved_into(self.folder, rows)]
            sync_folder(self.folder)
        except OSError as error:
            raise LedgerError(f"{self.folder} cannot be written: {error.strerror}.") from None
        return moved

    def advance(self, release: ReleaseRecord, state: str, checksum: str | None = None) -> ReleaseRecord:
        """Record, durably, that a release has reached a state; not when: of central mechanisms, that would tell how long they took.

        Refused if somebody else has moved it since this process looked: two draws under one charge can then never both be
        published, whatever became of the lock.
        """
        with self._journal.transaction() as transaction:
            book = self._read(transaction.entries, self._marks())
            known = book.releases.get(release.number)
            if known is None or known.head != release.head:
                raise LedgerError(
                    f"the ledger {self.path} does not know release {release.number} any more: it was replaced."
                )
            if known.state != release.state:
                raise LedgerError(
                    f"release {release.number} is being made by another process (it is {known.state}, not {release.state} any "
                    "more); run the same command again."
                )
            book = self._append(transaction, [StateReached(state, release.number, checksum)], book)
        self._known = book
        self._note(transaction.entries[-1])
        return book.releases[release.number]

    def copy_of(self, release: ReleaseRecord) -> Path:
        """Where the ledger keeps its copy of a release."""
        return self.folder / f"{release.number}-{release.head[:16]}.parquet"

    kept = Renamed("copy_of")

    def verify(self) -> list[Entry]:
        """Check that no entry was altered or is missing, the files of row ids, and that all copies are there; return the entries."""
        marks = self._marks()
        entries = self._journal.entries(anew=True)
        for release in self._read(entries, marks).releases.values():
            rows = release.rows
            try:
                if isinstance(rows, RowIds):
                    rows.hashes()
                    rows.pairs()
            except LedgerError as error:
                raise VerificationError(str(error)) from None
            if release.state == DELIVERED and not self.copy_of(release).exists():
                raise VerificationError(
                    f"the ledger's copy of release {release.number}, {self.copy_of(release)}, is missing. (A ledger and its folder "
                    f"{self.folder.name} are moved and backed up together.)"
                )
        return entries

    def _first_entry(self) -> tuple[str, dict[str, Any]]:
        # The key stays in the ledger: fingerprints and, through the chain, heads in releases tell outsiders nothing.
        return Begun(secrets.token_hex(16), secrets.token_hex(32), today()).written()

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

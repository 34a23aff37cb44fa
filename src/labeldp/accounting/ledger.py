"""The label owner's ledger: what has been spent, on which rows, by which release."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labeldp.accounting import book as books
from labeldp.accounting.book import DELIVERED, Book, ReleaseRecord
from labeldp.accounting.filter import Budget, Request, decide
from labeldp.accounting.journal import Entry, Journal, broken_at
from labeldp.accounting.rows import RowIds
from labeldp.errors import LedgerError, VerificationError
from labeldp.provenance import today


def default_ledger_path() -> Path:
    """`LABELDP_LEDGER`, else one file for each user, so that a copied label file does not escape its budget."""
    named = os.environ.get("LABELDP_LEDGER")
    if named:
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_data_dir("labeldp", appauthor=False)) / "labels.ledger"


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
        """Open or begin a ledger. The budget is that of each data set released through this object.

        `other_ids` names a group of ids: those of the data sets that are released first through this object name other people than
        equal ids in other groups, and have accounts of their own. It is recorded.
        """
        # Resolved, so that links to one ledger share its lock and its folder, wherever the process goes.
        self.path = (Path(path) if path is not None else default_ledger_path()).resolve()
        self.budget = Budget(budget, budget_gaussian, raise_budget)
        self.other_ids = other_ids
        self.folder = self.path.with_name(self.path.name + ".releases")
        self.begun_now = False
        self._journal = Journal(self.path, self._first_entry if create else None)
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            for private, mode in ((self.path, 0o600), (self.folder, 0o700)):
                if private.stat().st_mode & 0o077 and os.name == "posix":
                    private.chmod(mode)
        except OSError as error:
            raise LedgerError(f"the folder {self.folder} cannot be made: {error.strerror}.") from None

    def book(self) -> Book:
        """All data sets and releases."""
        return self._read(self._journal.entries())

    def _read(self, entries: list[Entry]) -> Book:
        broken = broken_at(entries)
        if broken is not None:
            raise VerificationError(
                f"entry {broken} of the ledger {self.path} does not follow from the one before: altered."
            )
        return books.read(entries, self.folder)

    @contextmanager
    def lock(self, data_set: str) -> Iterator[Path]:
        """One release of a data set at a time; yields an empty private folder for its unfinished files.

        The operating system lifts the lock when its holder dies; what the holder left is thrown away.
        """
        from filelock import FileLock

        name = hashlib.sha256(data_set.encode()).hexdigest()[:16]
        lock = FileLock(self.folder / f"{name}.lock", mode=0o600)
        scratch = self.folder / f"{name}.scratch"
        try:
            lock.acquire()
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(mode=0o700)
        except OSError as error:
            lock.release()
            raise LedgerError(f"{self.folder} cannot be written: {error.strerror}.") from None
        try:
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            lock.release()

    def look(self, request: Request) -> ReleaseRecord | None:
        """Would this be allowed? The earlier release if it is the same again; None if it would be charged."""
        return decide(self.book(), request, self.budget, today()).repeats

    def charge(self, request: Request) -> ReleaseRecord:
        """Durably charge the request, before any noise is drawn; or return the release that it repeats."""
        with self._journal.transaction() as transaction:
            decision = decide(self._read(transaction.entries), request, self.budget, today())
            for kind, body in decision.entries:
                transaction.append(kind, body)
            if decision.repeats is not None:
                return decision.repeats
            book = self._read(transaction.entries)
            return book.releases[transaction.entries[-1].number]

    def advance(self, release: ReleaseRecord, state: str, **facts: Any) -> None:
        """Record, durably, that a release has reached a state; not when: of central mechanisms, that would tell how long they took.

        Refused if somebody else has moved it since this process looked: two draws under one charge can then never both be
        published, whatever became of the lock.
        """
        with self._journal.transaction() as transaction:
            current = self._read(transaction.entries).releases[release.number].state
            if current != release.state:
                raise LedgerError(
                    f"release {release.number} is being made by another process (it is {current}, not {release.state} any "
                    "more); run the same command again."
                )
            transaction.append(state, {"release": release.number, **facts})
        release.state = state
        release.checksum = facts.get("checksum", release.checksum)

    def kept(self, release: ReleaseRecord) -> Path:
        """Where the ledger keeps its copy of a release."""
        return self.folder / f"{release.number}-{release.head[:16]}.parquet"

    def verify(self) -> list[Entry]:
        """Check the chain of hashes, the files of row ids, and that every release's copy is there; return the entries."""
        entries = self._journal.entries()
        for release in self._read(entries).releases.values():
            rows = release.rows
            try:
                if isinstance(rows, RowIds):
                    rows.hashes()
                    rows.pairs()
            except LedgerError as error:
                raise VerificationError(str(error)) from None
            if release.state == DELIVERED and not self.kept(release).exists():
                raise VerificationError(
                    f"the ledger's copy of release {release.number}, {self.kept(release)}, is missing. (A ledger and its folder "
                    f"{self.folder.name} are moved and backed up together.)"
                )
        return entries

    def _first_entry(self) -> tuple[str, dict[str, Any]]:
        # The key stays in the ledger: fingerprints and, through the chain, heads in releases tell outsiders nothing.
        self.begun_now = True
        return "ledger", {"ledger": secrets.token_hex(16), "key": secrets.token_hex(32), "at": today()}

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

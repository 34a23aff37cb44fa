"""An append-only SQLite file whose entries are chained by hashes: the ledger's paper, not its contents."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.errors import LedgerError

_APPLICATION = 0x1ABE1D9
_VERSION = 1
_WAIT_SECONDS = 120.0
_SCHEMA = f"""
CREATE TABLE entries (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER entries_remain BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
"""


def canonical(data: Any) -> str:
    """JSON with one spelling for one value, without NaN or Infinity."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True)
class Entry:
    """One line of the journal; `hash` covers it and, through the one before, everything earlier."""

    number: int
    kind: str
    body: dict[str, Any]
    hash: str


def _hash(previous: str, number: int, kind: str, body: str) -> str:
    return hashlib.sha256(canonical([previous, number, kind, body]).encode()).hexdigest()


class Journal:
    """A file of entries. Every use opens its own connection, so threads and forked processes are safe."""

    def __init__(self, path: Path, first: Callable[[], tuple[str, dict[str, Any]]] | None = None) -> None:
        """Open the journal; where there is none, begin one with `first()` (None: an error)."""
        self.path = path
        try:
            is_folder, exists = path.is_dir(), path.exists()
        except OSError as error:
            raise LedgerError(f"the ledger {path} cannot be looked up: {error.strerror}.") from None
        if is_folder:
            raise LedgerError(f"the ledger {path} is a directory; name a file.")
        if first is None and not exists:
            raise LedgerError(f"there is no ledger at {path}.")
        if first is not None:
            self._create(first)
        else:
            self.entries()

    def _create(self, first: Callable[[], tuple[str, dict[str, Any]]]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # the owner's file from its first moment
        except OSError as error:
            raise LedgerError(f"the ledger {self.path} cannot be opened: {error.strerror}.") from None
        with self._connection() as connection:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                for statement in _statements(_SCHEMA):
                    connection.execute(statement)
                kind, body = first()
                Transaction(connection, []).append(kind, body)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the write lock from its start; committed durably, or not at all."""
        try:
            connection = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise LedgerError(f"the ledger {self.path} cannot be opened: {error}.") from None
        try:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("BEGIN IMMEDIATE")
            self._check_kind(connection)
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise LedgerError(f"the ledger {self.path} cannot be used: {error}.") from None
        finally:
            connection.close()  # rolls back what was not committed

    def _check_kind(self, connection: sqlite3.Connection) -> None:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and application != _APPLICATION:
            raise LedgerError(f"{self.path} is a database, but not a labeldp ledger.")
        if tables and version > _VERSION:
            raise LedgerError(f"the ledger {self.path} was made by a newer labeldp (version {version}); update.")

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Read all entries and append more as one step; nobody else writes in between."""
        with self._connection() as connection:
            yield Transaction(connection, _read(connection))

    def entries(self) -> list[Entry]:
        """All entries, oldest first, their hashes unchecked."""
        with self._connection() as connection:
            return _read(connection)


class Transaction:
    """What a holder of the journal's write lock sees and may add."""

    def __init__(self, connection: sqlite3.Connection, entries: list[Entry]) -> None:
        self._connection = connection
        self.entries = entries

    def append(self, kind: str, body: dict[str, Any]) -> Entry:
        """Add an entry; it exists once the transaction is committed."""
        previous = self.entries[-1] if self.entries else None
        number = previous.number + 1 if previous else 1
        text = canonical(body)
        entry = Entry(number, kind, body, _hash(previous.hash if previous else "", number, kind, text))
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (number, kind, text, entry.hash))
        self.entries.append(entry)
        return entry


def broken_at(entries: list[Entry]) -> int | None:
    """The number of the first entry that does not follow from the one before, if any."""
    previous = ""
    for position, entry in enumerate(entries, start=1):
        if entry.number != position or entry.hash != _hash(previous, entry.number, entry.kind, canonical(entry.body)):
            return position
        previous = entry.hash
    return None


def _read(connection: sqlite3.Connection) -> list[Entry]:
    rows = connection.execute("SELECT number, kind, body, hash FROM entries ORDER BY number").fetchall()
    try:
        return [Entry(number, kind, json.loads(body), hash_) for number, kind, body, hash_ in rows]
    except ValueError:
        raise LedgerError("the ledger holds an entry that is not JSON: it was altered.") from None


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.strip().splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""

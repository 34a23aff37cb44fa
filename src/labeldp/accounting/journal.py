"""An append-only SQLite file whose entries are chained by hashes: the ledger's paper, not its contents."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labeldp.errors import InputError, LedgerError

_APPLICATION = 0x1ABE1D9
_VERSION = 1
_WAIT_SECONDS = 120.0
_TABLE = "CREATE TABLE entries (number INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL)"
_TRIGGERS = tuple(
    f"CREATE TRIGGER {name} BEFORE {what} ON entries BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
    for name, what in (("entries_stay", "UPDATE"), ("entries_remain", "DELETE"))
)
_SCHEMA = (_TABLE, *_TRIGGERS, f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {_VERSION}")
# Of a damaged file, SQLite's own message may be no text: Python then fails to decode it.
_FAULTS = (sqlite3.Error, UnicodeDecodeError)

First = Callable[[], tuple[str, dict[str, Any]]]


class UnsureError(LedgerError):
    """Writing failed, and so did reading back: what was written may be there."""


def canonical(data: Any) -> str:
    """JSON with one spelling for one value, without NaN or Infinity."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True)
class Entry:
    """One line of the journal; `hash` covers it and, through the one before, everything earlier. `text` is the body as it is written."""

    number: int
    kind: str
    body: dict[str, Any]
    hash: str
    text: str = field(repr=False)


def _hash(previous: str, number: int, kind: str, text: str) -> str:
    return hashlib.sha256(canonical([previous, number, kind, text]).encode()).hexdigest()


def _following(previous: Entry | None, kind: str, body: dict[str, Any]) -> Entry:
    number = previous.number + 1 if previous else 1
    text = canonical(body)
    try:
        return Entry(number, kind, body, _hash(previous.hash if previous else "", number, kind, text), text)
    except UnicodeEncodeError:
        raise InputError("a name has half a character in it (a lone surrogate), which no file can hold.") from None


@dataclass(frozen=True)
class _Known:
    """Entries that were read or written here, and what the file was like then."""

    stamp: tuple[int, ...]
    entries: tuple[Entry, ...]


class Journal:
    """A file of entries. Every use opens its own connection, so threads and forked processes are safe.

    Entries are read once: while nobody else has touched the file (its identity, size and times, its schema, its last entry), those that
    are known are the very same objects. Whatever anybody else did to it, an appended entry too, it is read and checked anew, as a whole.
    """

    def __init__(self, path: Path, first: First | None = None) -> None:
        """Open the journal. Where there is none, it begins with `first()` and the first entry that is appended (None: an error)."""
        self.path, self._first = path, first
        self._beginning: Entry | None = None
        self._known: _Known | None = None
        status = _status(path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise LedgerError(f"the ledger {path} is a directory; name a file.")
        if self.begun():
            self.entries()
        elif first is None:
            raise LedgerError(f"there is no ledger at {path}.")

    def begun(self) -> bool:
        """Whether there is a file with anything in it."""
        return is_begun(self.path)

    def entries(self, anew: bool = False) -> list[Entry]:
        """All entries, oldest first, their hashes unchecked; `anew`: from the file, whatever is known of it.

        Of a journal that is not begun, the one that it would begin with.
        """
        if anew:
            self._known = None
        if not self.begun():
            return [self._its_beginning()]
        try:
            with self._connection() as connection:
                return self._read(connection) or [self._its_beginning()]
        except _FAULTS as error:
            raise self._unusable(error) from None

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Read all entries and append more as one step; nobody else writes in between.

        Where SQLite fails, the file is asked whether they are there: a commit may fail after it was made.
        """
        transaction: Transaction | None = None
        try:
            with self._connection(create=self._first is not None) as connection:
                entries = self._read(connection)
                transaction = Transaction(connection, entries or [self._its_beginning()], begun=bool(entries))
                yield transaction
                if transaction.added:
                    schema = _schema_version(connection)
                    connection.execute("COMMIT")
                    self._know(transaction.entries, schema)
        except _FAULTS as error:
            self._known = None
            fault = self._unusable(error)
            if transaction is None or not transaction.added or not self._has(transaction.added[-1], fault):
                raise fault from None

    def _has(self, entry: Entry, fault: LedgerError) -> bool:
        """Whether an entry whose writing failed is there nevertheless."""
        try:
            return entry in self.entries()
        except LedgerError:
            raise UnsureError(f"{fault} It cannot be read back, and may hold what was being written.") from None

    @contextmanager
    def _connection(self, create: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction that holds the write lock from its start; durable once it is committed, else it never was."""
        connection = self._locked(create)
        try:
            yield connection
        finally:
            try:
                if create:
                    self._remove_if_empty(connection)
            finally:
                connection.close()  # rolls back what was not committed

    def _locked(self, create: bool) -> sqlite3.Connection:
        """The file that has the name once the lock is ours: an empty one may be removed, or the ledger replaced, while we wait."""
        while True:
            if create:
                self._make_file()
            before = self._identity()
            try:
                connection = self._opened()
            except sqlite3.Error:
                if before == self._identity():
                    raise
                continue
            if before == self._identity():
                return connection
            connection.close()

    def _opened(self) -> sqlite3.Connection:
        place = f"{self.path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(place, timeout=_WAIT_SECONDS, isolation_level=None, uri=True)
        try:
            connection.text_factory = bytes
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("BEGIN IMMEDIATE")
        except BaseException:
            connection.close()
            raise
        return connection

    def _identity(self) -> tuple[int, int] | None:
        status = _status(self.path)
        return None if status is None else (status.st_dev, status.st_ino)

    def _make_file(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # The owner's file from its first moment. One that is there is not opened: to close it would lift the locks of other threads.
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise LedgerError(f"the ledger {self.path} cannot be opened: {error.strerror}.") from None

    def _remove_if_empty(self, connection: sqlite3.Connection) -> None:
        """What was not begun leaves no file. Removed under the lock: whoever waits for it looks whether the file is still the same."""
        with suppress(*_FAULTS, OSError, LedgerError):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if not self.begun():
                connection.execute("BEGIN IMMEDIATE")
                if not self.begun():
                    self.path.unlink()

    def _read(self, connection: sqlite3.Connection) -> list[Entry]:
        """All entries; none of a database that nobody has written to yet."""
        schema = _schema_version(connection)
        known = self._known  # other threads may come to know more
        if known is not None and self._is_as_known(known, connection, schema):
            return list(known.entries)
        self._known = None
        if not self._is_journal(connection):
            return []
        entries = [self._entry(*row) for row in connection.execute(
            "SELECT number, kind, body, hash, typeof(kind) || typeof(body) || typeof(hash) FROM entries ORDER BY number"
        ).fetchall()]  # fmt: skip
        self._know(entries, schema)
        return entries

    def _know(self, entries: list[Entry], schema: int) -> None:
        """Whoever writes between our commit and this look at the file is noticed by the last entry."""
        stamp = self._stamp(schema)
        self._known = _Known(stamp, tuple(entries)) if entries and stamp is not None else None

    def _is_as_known(self, known: _Known, connection: sqlite3.Connection, schema: int) -> bool:
        if self._stamp(schema) != known.stamp:
            return False
        last = connection.execute("SELECT number, hash FROM entries ORDER BY number DESC LIMIT 1").fetchone()
        return bool(last == (known.entries[-1].number, known.entries[-1].hash.encode()))

    def _stamp(self, schema: int) -> tuple[int, ...] | None:
        """What changes when somebody touches the file: triggers must go before an entry can be altered or removed by SQL."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, schema

    def _entry(self, number: int, kind: Any, body: Any, hash_: Any, types: bytes) -> Entry:
        try:
            if types != b"text" * 3:
                raise ValueError(types)
            text = body.decode()
            content = json.loads(text)
            if not isinstance(content, dict) or canonical(content) != text:
                raise ValueError(text)
            return Entry(number, kind.decode(), content, hash_.decode(), text)
        except (ValueError, RecursionError):
            raise LedgerError(
                f"entry {number} of the ledger {self.path} is not as labeldp writes it: it was altered or damaged."
            ) from None

    def _is_journal(self, connection: sqlite3.Connection) -> bool:
        """Whether the file has entries at all; refused, if it is something else, or SQLite finds it damaged."""
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        parts = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        if not parts and not application and self._first is not None:
            return False
        if application != _APPLICATION:
            raise LedgerError(f"{self.path} is a database, but not a labeldp ledger.")
        if version > _VERSION:
            raise LedgerError(f"the ledger {self.path} was made by a newer labeldp (version {version}); update.")
        written = {sql for _, name, sql in parts if not (isinstance(name, bytes) and name.startswith(b"sqlite_"))}
        if version < _VERSION or _TABLE.encode() not in written or not written <= {s.encode() for s in _SCHEMA}:
            raise self._damaged("its tables are not those of a ledger")
        found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != b"ok":
            raise self._damaged(f"SQLite finds: {_printable(found.decode(errors='replace'))}")
        return True

    def _damaged(self, how: str) -> LedgerError:
        return LedgerError(
            f"the ledger {self.path} is damaged ({how}). Put it back from a backup, together with its folder."
        )

    def _unusable(self, error: Exception) -> LedgerError:
        said = _printable(str(error)) if isinstance(error, sqlite3.Error) else "it is damaged"
        return LedgerError(f"the ledger {self.path} cannot be used: {said}.")

    def _its_beginning(self) -> Entry:
        if self._first is None:
            raise LedgerError(f"there is no ledger at {self.path}.")
        if self._beginning is None:
            self._beginning = _following(None, *self._first())
        return self._beginning


class Transaction:
    """What a holder of the journal's write lock sees and may add."""

    def __init__(self, connection: sqlite3.Connection, entries: list[Entry], begun: bool) -> None:
        self._connection, self._begun = connection, begun
        self.entries = entries
        self.added: list[Entry] = []

    def append(self, kind: str, body: dict[str, Any]) -> Entry:
        """Add an entry; it exists once the transaction is committed."""
        entry = _following(self.entries[-1], kind, body)
        self.added.append(entry)
        if not self._begun:
            for statement in _SCHEMA:
                self._connection.execute(statement)
            self._insert(self.entries[0])
            self._begun = True
        self._insert(entry)
        self.entries.append(entry)
        return entry

    def _insert(self, entry: Entry) -> None:
        values = entry.number, entry.kind, entry.text, entry.hash
        self._connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", values)


def _schema_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA schema_version").fetchone()[0])


def is_begun(path: Path) -> bool:
    """Whether there is a file with anything in it."""
    status = _status(path)
    return status is not None and status.st_size > 0


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise LedgerError(f"the ledger {path} cannot be looked up: {error.strerror}.") from None


def broken_at(entries: Sequence[Entry], known: int = 0) -> int | None:
    """The number of the first entry that does not follow from the one before, if any; the first `known` are known to."""
    previous = entries[known - 1].hash if known else ""
    for position, entry in enumerate(entries[known:], start=known + 1):
        if entry.number != position or entry.hash != _hash(previous, entry.number, entry.kind, entry.text):
            return position
        previous = entry.hash
    return None


def _printable(text: str) -> str:
    """In one line."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))

import json
import sqlite3
import stat
from concurrent.futures import ProcessPoolExecutor

import pytest

from labeldp.accounting.journal import Journal, broken_at
from labeldp.errors import LedgerError


def first():
    return "begin", {"x": 1}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "labels.ledger"


def test_entries_are_chained_and_private(path):
    journal = Journal(path, first)
    with journal.transaction() as transaction:
        transaction.append("a", {"n": 0.1})
        transaction.append("b", {"ε": "π"})
    entries = Journal(path).entries()
    assert [(e.number, e.kind) for e in entries] == [(1, "begin"), (2, "a"), (3, "b")]
    assert broken_at(entries) is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_not_committed_never_was(path):
    journal = Journal(path, first)

    def interrupted():
        with journal.transaction() as transaction:
            transaction.append("a", {})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert len(journal.entries()) == 1


@pytest.mark.parametrize("statement", ["UPDATE entries SET body = '{}'", "DELETE FROM entries WHERE number = 1"])
def test_append_only(path, statement):
    Journal(path, first)
    with sqlite3.connect(path) as connection, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE entries SET body = '{\"n\":2}' WHERE number = 2",
        "UPDATE entries SET kind = 'c' WHERE number = 2",
        "DELETE FROM entries WHERE number = 2",
        "UPDATE entries SET hash = 'f00' WHERE number = 2",
    ],
)
def test_tampering_breaks_the_chain(path, tamper):
    journal = Journal(path, first)
    with journal.transaction() as transaction:
        transaction.append("a", {"n": 1})
        transaction.append("b", {"n": 1})
    connection = sqlite3.connect(path)
    connection.executescript("DROP TRIGGER entries_stay; DROP TRIGGER entries_remain;" + tamper)
    connection.close()
    assert broken_at(journal.entries()) in (2, 3)


def test_what_is_no_ledger(tmp_path):
    with pytest.raises(LedgerError, match="no ledger"):
        Journal(tmp_path / "missing")
    with pytest.raises(LedgerError, match="directory"):
        Journal(tmp_path, first)
    text = tmp_path / "notes.txt"
    text.write_text("hello " * 300)
    with pytest.raises(LedgerError, match="not a database"):
        Journal(text, first)
    other = tmp_path / "other.sqlite"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(LedgerError, match="not a labeldp ledger"):
        Journal(other, first)


def test_a_newer_ledger_is_said(path):
    Journal(path, first)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(LedgerError, match="newer"):
        Journal(path)


def test_not_json(path):
    Journal(path, first)
    connection = sqlite3.connect(path)
    connection.executescript("DROP TRIGGER entries_stay; UPDATE entries SET body = 'x'")
    connection.close()
    with pytest.raises(LedgerError, match="altered"):
        Journal(path)


def append_some(arguments):
    path, name = arguments
    for i in range(20):
        with Journal(path, first).transaction() as transaction:
            transaction.append(name, {"i": i})


def test_processes_write_one_after_the_other(path):
    with ProcessPoolExecutor(4) as pool:
        list(pool.map(append_some, [(path, f"p{i}") for i in range(4)]))
    entries = Journal(path).entries()
    assert len(entries) == 81
    assert broken_at(entries) is None
    for i in range(4):
        assert [e.body["i"] for e in entries if e.kind == f"p{i}"] == list(range(20))
    assert json.loads(json.dumps(entries[-1].body)) == entries[-1].body

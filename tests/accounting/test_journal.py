import json
import sqlite3
import stat
from concurrent.futures import ProcessPoolExecutor

import pytest

from labeldp.accounting.journal import Journal, UnsureError, broken_at
from labeldp.errors import InputError, LedgerError


def first():
    return "begin", {"x": 1}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "labels.ledger"


def begun(path):
    """A journal of two entries."""
    journal = Journal(path, first)
    with journal.transaction() as transaction:
        transaction.append("a", {"n": 1})
    return journal


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
    begun(path)
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
    begun(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(LedgerError, match="newer"):
        Journal(path)


def test_not_json(path):
    begun(path)
    connection = sqlite3.connect(path)
    connection.executescript("DROP TRIGGER entries_stay; UPDATE entries SET body = 'x'")
    connection.close()
    with pytest.raises(LedgerError, match="altered"):
        Journal(path)


def test_looking_begins_nothing(path):
    journal = Journal(path, first)
    assert [entry.kind for entry in journal.entries()] == ["begin"]
    with journal.transaction() as transaction:
        assert transaction.entries == journal.entries()

    def refused():
        with journal.transaction() as transaction:
            transaction.append("a", {})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        refused()
    assert not path.exists()


def test_what_a_killed_process_left_empty_is_begun(path):
    path.parent.mkdir()
    path.touch()
    with pytest.raises(LedgerError, match="no ledger"):
        Journal(path)
    assert len(begun(path).entries()) == 2


def test_an_empty_file_that_was_removed_meanwhile_is_not_written_to(path, monkeypatch):
    """Whoever waited for the lock of a file that is gone would charge into nothing."""
    connect, left = sqlite3.connect, [None]

    def slow(*arguments, **options):
        connection = connect(*arguments, **options)
        if left:
            left.pop()
            path.unlink()
        return connection

    monkeypatch.setattr(sqlite3, "connect", slow)
    begun(path)
    assert (len(Journal(path).entries()), left) == (2, [])


class Failing(sqlite3.Connection):
    """A disk that fails at a commit, before or after it is done, and perhaps from then on."""

    before = after = always = gone = False

    def execute(self, statement, *values):
        if Failing.gone or (statement == "COMMIT" and Failing.before):
            Failing.gone = Failing.always
            raise sqlite3.OperationalError("disk I/O error")
        done = super().execute(statement, *values)
        if statement == "COMMIT" and Failing.after:
            Failing.gone = Failing.always
            raise sqlite3.OperationalError("disk I/O error")
        return done


@pytest.fixture
def failing(monkeypatch):
    def fail(**how):
        for name in ("before", "after", "always", "gone"):
            monkeypatch.setattr(Failing, name, how.get(name, False))
        connect = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **{**k, "factory": Failing}))

    return fail


@pytest.mark.parametrize("new", [False, True])
def test_a_commit_that_was_made_and_failed_was_made(path, failing, new):
    journal = Journal(path, first) if new else begun(path)
    failing(after=True)
    with journal.transaction() as transaction:
        transaction.append("b", {"n": 2})
    assert journal.entries() == transaction.entries


@pytest.mark.parametrize("new", [False, True])
def test_a_commit_that_was_not_made_was_not(path, failing, new):
    journal = Journal(path, first) if new else begun(path)
    before = journal.entries()
    failing(before=True)

    def fail():
        with journal.transaction() as transaction:
            transaction.append("b", {"n": 2})

    with pytest.raises(LedgerError, match=r"cannot be used: disk I/O error\.$") as told:
        fail()
    assert not isinstance(told.value, UnsureError)
    assert (journal.entries(), path.exists()) == (before, not new)


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_cannot_be_read_back_is_not_said_to_be_undone(path, failing, when):
    journal = begun(path)
    failing(**{when: True, "always": True})

    def fail():
        with journal.transaction() as transaction:
            transaction.append("b", {"n": 2})

    with pytest.raises(UnsureError, match="may hold what was being written"):
        fail()


def test_half_a_character_is_refused(path):
    def write():
        with Journal(path, first).transaction() as transaction:
            transaction.append("b", {"name": "\ud800"})

    with pytest.raises(InputError, match="half a character"):
        write()
    assert not path.exists()


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

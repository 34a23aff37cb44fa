"""`ledger verify` finds what was done to a ledger behind its back."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from tests.cli.conftest import expect_sentence


@pytest.fixture
def busy(desk):
    """Two releases, and the ledger as it was between them."""
    desk.second = desk.outs / "second"
    desk.old = desk.folder / "old.ledger"
    desk.released(desk.numbered(), "--rows", "0:100", "--budget", "1")
    shutil.copy(desk.ledger, desk.old)
    desk.released(desk.numbered(), "--rows", "100:200", out=desk.second)
    return desk


def verify(desk, *releases, ledger=None):
    files = ["--releases", *releases] if releases else []
    return desk.run("ledger", "verify", "--ledger", ledger or desk.ledger, *files)


def tamper(ledger, statement, *values):
    with closing(sqlite3.connect(ledger)) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement, values)


def found(outcome, *words):
    assert outcome.code == 3
    expect_sentence(outcome, *words)


def test_an_untouched_ledger_passes(busy):
    assert verify(busy).code == 0
    assert verify(busy, busy.out, busy.second).code == 0


def test_a_ledger_that_was_rolled_back(busy):
    shutil.copy(busy.old, busy.ledger)
    assert verify(busy).code == 0  # by itself it is whole
    assert verify(busy, busy.out).code == 0  # and knows what was released before the copy
    found(verify(busy, busy.out, busy.second), "second", "rolled back")


def test_a_ledger_that_was_rolled_back_and_used_again(busy):
    """The files of forgotten releases lie beside it: a new one is made under its own name, or nothing is charged."""
    shutil.copy(busy.old, busy.ledger)
    third = busy.outs / "third"
    outcome = busy.release(busy.numbered(), "--rows", "150:200", out=third)
    if outcome.code == 0:
        assert verify(busy, third).code == 0
    else:
        expect_sentence(outcome, "rolled back")
        assert (busy.charges(), third.exists()) == (1, False)
    found(verify(busy, busy.second), "second")


def test_an_entry_that_was_altered(busy):
    """The owner makes the first charge smaller."""
    with closing(sqlite3.connect(busy.ledger)) as connection:
        number, text = connection.execute("SELECT number, body FROM entries WHERE kind = 'charged'").fetchone()
    body = json.loads(text)
    body["cost"]["pure"] /= 2
    altered = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    tamper(busy.ledger, "UPDATE entries SET body = ? WHERE number = ?", altered, number)
    found(verify(busy), f"entry {number} ", "altered")


def test_a_ledger_is_append_only(busy):
    with closing(sqlite3.connect(busy.ledger)) as connection:
        for statement in ("UPDATE entries SET kind = 'x'", "DELETE FROM entries"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)


@pytest.mark.parametrize("what", ["kind", "hash", "number"])
def test_any_part_of_an_entry_counts(busy, what):
    value = {"kind": "'budget'", "hash": "hash || '0'", "number": "99"}[what]
    tamper(busy.ledger, f"UPDATE entries SET {what} = {value} WHERE number = 4")
    outcome = verify(busy)
    assert outcome.code in (2, 3)
    expect_sentence(outcome, "altered")


def test_an_entry_that_was_removed(busy):
    tamper(busy.ledger, "DELETE FROM entries WHERE number = 4")
    found(verify(busy), "entry 4 ", "altered")


def test_the_last_entries_removed(busy):
    tamper(busy.ledger, "DELETE FROM entries WHERE number > 6")
    assert verify(busy).code == 0
    found(verify(busy, busy.second), "rolled back")


def test_ids_that_were_altered(desk):
    desk.released(desk.numbered(), "--id", "id")
    (ids,) = desk.folder.glob("owner.ledger.releases/ids-*")
    content = bytearray(ids.read_bytes())
    content[0] ^= 1
    ids.write_bytes(content)
    found(verify(desk), "ids", "altered")


def test_a_release_through_another_ledger(busy):
    other = busy.folder / "other.ledger"
    busy.released(busy.numbered(), out=busy.outs / "other", ledger=other)
    found(verify(busy, busy.outs / "other"), "another ledger")


def test_a_release_that_was_altered(busy):
    content = bytearray(busy.second.read_bytes())
    content[len(content) // 4] ^= 0xFF
    busy.second.write_bytes(content)
    outcome = verify(busy, busy.second)
    assert outcome.code in (2, 3)
    expect_sentence(outcome, "second")


def test_a_release_that_is_not_there(busy):
    outcome = verify(busy, busy.outs / "nowhere")
    assert outcome.code == 2
    expect_sentence(outcome, "nowhere")

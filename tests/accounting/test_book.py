"""The book is what all entries add up to: replayed once, continued after that, and anew whenever somebody else was at the file."""

import os
import shutil
import sqlite3
import warnings
from collections import Counter
from contextlib import closing

import numpy as np
import pytest

import labeldp
from labeldp import Ledger
from labeldp.accounting import book, journal
from labeldp.accounting.entries import CHARGED, COMPLETE, DELIVERED, PUBLISHED
from labeldp.accounting.journal import Journal
from labeldp.errors import LedgerError, VerificationError

ONE = labeldp.RandomizedResponse.calibrated(epsilon=1.0, num_classes=2)
ROWS = 30


def release(ledger, data_set):
    return ONE.release(
        np.zeros(ROWS, int), data_set=data_set, ids=[f"{data_set}-{i}" for i in range(ROWS)], ledger=ledger
    )


@pytest.fixture
def path(tmp_path):
    """Of a ledger with 51 entries."""
    for number in range(10):
        release(tmp_path / "l", f"d{number}")
    return tmp_path / "l"


@pytest.fixture
def replayed(monkeypatch):
    """How many entries were read from the file, hashed and applied to a book."""
    counted = Counter()

    def count(owner, name, what):
        original = getattr(owner, name)

        def counting(*arguments):
            counted[what] += 1
            return original(*arguments)

        monkeypatch.setattr(owner, name, counting)

    count(Journal, "_entry", "read")
    count(journal, "_hash", "hashed")
    count(book, "_begun", "applied")
    count(book, "_apply", "applied")
    return counted


def test_one_release_replays_the_journal_once(path, replayed):
    """Before, it was read 8 times, its chain checked 7 times, and its entries added up 8 times."""
    release(Ledger(path), "mine")
    assert replayed == {"read": 51, "hashed": 51 + 5, "applied": 51 + 5}


def test_the_next_release_through_the_same_ledger_replays_nothing(path, replayed):
    ledger = Ledger(path)
    release(ledger, "mine")
    replayed.clear()
    release(ledger, "next")
    assert replayed == {"hashed": 5, "applied": 5}


def test_what_is_continued_is_what_a_replay_gives(path):
    ledger = Ledger(path)
    release(ledger, "mine")
    mine, anew = ledger.book(), Ledger(path).book()
    assert mine.releases == anew.releases
    assert mine.data_sets == anew.data_sets
    assert all(data_set.book is mine for data_set in mine.data_sets.values())
    assert all(one is mine.releases[one.number] for d in mine.data_sets.values() for one in d.releases)


def test_a_book_does_not_change_under_whoever_holds_it(path):
    ledger = Ledger(path)
    before = ledger.book()
    release(ledger, "mine")
    assert "mine" not in before.data_sets
    assert len(before.releases) == 10
    assert len(ledger.book().releases) == 11


def test_what_another_process_has_charged_is_seen(path):
    ours, theirs = Ledger(path), Ledger(path)
    for number in range(3):
        release(theirs, f"theirs {number}")
        release(ours, f"ours {number}")
        assert ours.book().releases == theirs.book().releases
    assert len(ours.verify()) == 51 + 6 * 5


def test_a_record_that_another_has_moved_is_not_moved(path, monkeypatch):
    ledger = Ledger(path)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "advance", lambda self, record, state, **facts: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            release(ledger, "mine")
    record = ledger.book().data_sets["mine"].releases[0]
    assert record.state == CHARGED
    complete = Ledger(path).advance(record, COMPLETE)
    for holder in (ledger, Ledger(path)):
        with pytest.raises(LedgerError, match="by another process"):
            holder.advance(record, COMPLETE)
    assert (complete.state, record.state) == (COMPLETE, CHARGED)
    published = ledger.advance(complete, PUBLISHED, checksum="ab")
    with pytest.raises(LedgerError, match="does not fit those before"):
        ledger.advance(published, COMPLETE)
    assert len(ledger.verify()) == 51 + 4


TAMPERED = (
    "UPDATE entries SET body = replace(body, 'd3', 'd8') WHERE number = 17",
    "DELETE FROM entries WHERE number = 20",
    "UPDATE entries SET hash = 'f00' WHERE number = 30",
    "DELETE FROM entries WHERE number > 40",
)


def uses(ledger):
    return ledger.book, ledger.verify, lambda: release(ledger, "mine"), lambda: release(ledger, "d1")


@pytest.mark.parametrize("script", TAMPERED)
@pytest.mark.parametrize("use", range(4))
def test_what_was_altered_behind_an_open_ledger_is_found(path, script, use):
    ledger = Ledger(path)
    release(ledger, "first")
    ledger.book()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"DROP TRIGGER entries_stay; DROP TRIGGER entries_remain; {script};")
    with pytest.raises(VerificationError):
        uses(ledger)[use]()


@pytest.mark.parametrize("use", range(4))
def test_a_byte_that_was_altered_behind_an_open_ledger_is_found(path, use):
    ledger = Ledger(path)
    ledger.book()
    content = path.read_bytes()
    place = content.index(b'"data_set":"d3"') + len('"data_set":"')
    path.write_bytes(content[:place] + b"x" + content[place + 1 :])
    with pytest.raises(LedgerError):
        uses(ledger)[use]()


@pytest.mark.parametrize("use", range(4))
@pytest.mark.parametrize("how", [shutil.copyfile, os.replace])
def test_a_copy_that_is_put_back_behind_an_open_ledger_is_found(path, tmp_path, how, use):
    shutil.copyfile(path, tmp_path / "old")
    ledger = Ledger(path)
    release(ledger, "first")
    how(tmp_path / "old", path)
    with pytest.raises(VerificationError, match="rolled back"):
        uses(ledger)[use]()


def test_verifying_reads_the_file_whatever_is_known_of_it(path, monkeypatch, replayed):
    ledger = Ledger(path)
    ledger.book()
    replayed.clear()
    ledger.book()
    assert not replayed
    ledger.verify()
    assert replayed == {"read": 51, "hashed": 51, "applied": 51}


def test_a_file_that_looks_the_same_and_ends_otherwise_is_read(path, monkeypatch):
    """Somebody may write between a commit and the look at the file that follows it."""
    monkeypatch.setattr(Journal, "_stamp", lambda self, schema: (1,))
    ledger = Ledger(path)
    ledger.book()
    release(Ledger(path), "theirs")
    assert "theirs" in ledger.book().data_sets


def test_repeating_a_release_charges_nothing(path, replayed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", labeldp.RepeatedReleaseWarning)
        release(Ledger(path), "d1")
    assert replayed["read"] == 51
    assert {one.state for one in Ledger(path).book().releases.values()} == {DELIVERED}

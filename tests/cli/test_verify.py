"""`ledger verify` finds what was done to a ledger behind its back."""

import json
import shutil
import sqlite3
from contextlib import closing, suppress

import pyarrow as pa
import pyarrow.parquet as pq
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


def shown(desk):
    return desk.run("ledger", "show", "--ledger", desk.ledger)


def test_a_ledger_that_was_rolled_back(busy):
    """Its folder knows, with or without the files that were handed over."""
    shutil.copy(busy.old, busy.ledger)
    found(verify(busy), "rolled back")
    found(verify(busy, busy.out), "rolled back")
    found(shown(busy), "rolled back")


def test_the_file_that_was_handed_over_knows_too(busy):
    """Where the folder was restored with the ledger, nothing beside them does."""
    alone = busy.folder / "alone.ledger"
    shutil.copy(busy.old, alone)
    kept = [path for path in (busy.folder / "owner.ledger.releases").iterdir() if path.name.startswith("3-")]
    (busy.folder / "alone.ledger.releases").mkdir()
    shutil.copy(*kept, busy.folder / "alone.ledger.releases")
    assert verify(busy, busy.out, ledger=alone).code == 0
    found(verify(busy, busy.second, ledger=alone), "second", "rolled back")


def test_a_ledger_that_was_rolled_back_and_used_again(busy):
    """The files of forgotten releases lie beside it: nothing is charged."""
    shutil.copy(busy.old, busy.ledger)
    third = busy.outs / "third"
    found(busy.release(busy.numbered(), "--rows", "150:200", out=third), "rolled back")
    assert not third.exists()
    assert busy.old.read_bytes() == busy.ledger.read_bytes()


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


@pytest.mark.parametrize("left", [1, 3, 6, 9])
def test_the_last_entries_removed(busy, left):
    tamper(busy.ledger, "DELETE FROM entries WHERE number > ?", left)
    found(verify(busy), "missing from it")
    found(shown(busy), "missing from it")


def test_an_entry_that_no_release_is_named_by_is_missed_too(busy):
    """The note says how far the ledger had come; it may lag behind, by what a killed process did."""
    (note,) = (busy.folder / "owner.ledger.releases").glob("head-*")
    tamper(busy.ledger, "DELETE FROM entries WHERE number > 9")
    found(verify(busy), note.name, "ends at entry 9")
    note.rename(note.with_name("head-9-" + hashes(busy.ledger)[9][:16]))
    assert verify(busy).code == 0
    note.with_name("head-9-" + hashes(busy.ledger)[9][:16]).rename(note.with_name("head-9-" + "0" * 16))
    found(verify(busy), "rolled back")


def hashes(ledger):
    with closing(sqlite3.connect(ledger)) as connection:
        return dict(connection.execute("SELECT number, hash FROM entries").fetchall())


@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_ledger_that_is_gone_is_not_begun_anew(busy, how):
    busy.ledger.unlink()
    if how == "emptied":
        busy.ledger.touch()
    for outcome in (
        verify(busy),
        shown(busy),
        busy.release(busy.numbered(), "--rows", "150:200", out=busy.outs / "third"),
    ):
        found(outcome, "is gone", "owner.ledger.releases")
    assert busy.ledger.exists() == (how == "emptied")


def test_a_copy_that_was_altered(busy):
    """The ledger would hand it out."""
    copy = next((busy.folder / "owner.ledger.releases").glob("3-*.parquet"))
    copy.write_bytes(busy.second.read_bytes())
    found(verify(busy), "release 3", "altered")


def test_sqlite_is_asked_too(busy):
    """Pages that nothing is read from: the entries are all there."""
    content = bytearray(busy.ledger.read_bytes() + bytes(2 * 4096))
    content[28:32] = (len(content) // 4096).to_bytes(4, "big")
    busy.ledger.write_bytes(content)
    for outcome in (verify(busy), shown(busy)):
        assert outcome.code == 2
        expect_sentence(outcome, "damaged", "Put it back from a backup")


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


def test_a_copy_with_other_rows_is_found_and_handed_to_nobody(busy):
    """Whatever checksum it states: its rows do not have it."""
    folder = busy.ledger.with_name(busy.ledger.name + ".releases")
    copy = max(folder.glob("*.parquet"), key=lambda path: int(path.name.split("-")[0]))
    whole, rows = copy.read_bytes(), pq.read_table(copy)
    for place in range(len(whole) // 2):
        copy.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with suppress(OSError, pa.ArrowException):
            if not pq.read_table(copy).equals(rows):
                break
    found(verify(busy), copy.name)
    number, again = copy.name.split("-")[0], busy.folder / "again.parquet"
    expect_sentence(busy.run("ledger", "get", number, "--out", again, "--ledger", busy.ledger), "was altered")
    assert not again.exists()
    busy.second.unlink()
    repeated = busy.run(
        "release", busy.numbered(), "--label", "label", "--classes", "2", "--epsilon", "1", "--rows", "100:200", "--out", busy.second,
        "--ledger", busy.ledger,
    )  # fmt: skip
    assert repeated.code != 0
    assert not busy.second.exists()

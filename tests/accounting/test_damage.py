"""Damage of any kind to a ledger or its folder: one sentence that says so, or the same statement as before. Never a crash, never less."""

import json
import random
import shutil
import sqlite3
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import labeldp
from labeldp.accounting import book, rows
from labeldp.accounting.journal import Journal, _hash, canonical
from labeldp.accounting.statement import statement
from labeldp.errors import LabelDPError, LedgerError, VerificationError
from labeldp.release.copies import verify

RESPONSE = labeldp.RandomizedResponse.calibrated(epsilon=1.0, num_classes=2)
GAUSSIAN = labeldp.Gaussian.calibrated(epsilon=1.0, num_classes=2)
LABELS = np.zeros(30, int)
IDS = [f"{i:03}" for i in range(30)]  # which have two forms
ODD = (
    None, True, False, -1, 0, 7, 2**70, 10**400, -0.5, 1e-320, 0.5, 2.5, 1e200, 1e308, "", "x",
    "2020-01-01", "../../x", "\ud800", "a\nb", "1", "nan", [], ["x"], [[]], {}, {"by": "id"}, {"pure": "1"}, "charged", "number",
)  # fmt: skip


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """A ledger with something of everything, and what it states."""
    path = tmp_path_factory.mktemp("intact") / "l"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        released(path)
        more = labeldp.Ledger(path, budget=2.0, budget_gaussian=(2.0, 1e-5), raise_budget=True)
        GAUSSIAN.release(LABELS, data_set="ids", ids=IDS, ledger=more, again="charge")
        RESPONSE.release(
            LABELS, data_set="others", ids=[*IDS[1:], "x"], ledger=labeldp.Ledger(path, other_ids="others")
        )
        RESPONSE.release(LABELS, data_set="numbers", ledger=path)
        RESPONSE.release(LABELS, data_set="open", ledger=path, entropy=labeldp.SeededEntropy(1))
    return path


def released(path):
    return RESPONSE.release(LABELS, data_set="ids", ids=IDS, ledger=path)


def show(path):
    return statement(labeldp.Ledger(path, create=False)) | {"ledger": ""}


def check(path):
    return verify(labeldp.Ledger(path, create=False), []) | {"ledger": ""}


def repeat(path):
    """What is released already, once more; it is not drawn again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return released(path).checksum


def copied(intact, place):
    """To damage."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(intact.parent, place)
    return place / intact.name


def outcome(path):
    """What is shown, verified and released, or the error; which is one sentence. Whatever the others refuse, `verify` does."""
    for also in ("-journal", "-wal", "-shm"):
        Path(f"{path}{also}").unlink(missing_ok=True)
    rows._whole.clear()
    found = [_told(look, path) for look in (show, check, repeat)]
    refused = [isinstance(one, LedgerError) for one in found]
    assert refused[1] or not any(refused), found
    return found[1] if refused[1] else found


def _told(look, path):
    try:
        return look(path)
    except LabelDPError as error:
        text = str(error)
        assert text.isprintable(), text
        assert text.rstrip()[-1] in ".)", text
        text.encode()
        return error


def damage_bytes(rng, content):
    """Flips, overwritten runs, cuts, and pieces of the file in the wrong place."""
    used = [place for place, byte in enumerate(content) if byte]
    content = bytearray(content)
    place, length = (
        rng.choice(used) if rng.random() < 0.8 else rng.randrange(len(content)),
        rng.choice((1, 1, 1, 2, 8, 100, 4096)),
    )
    how = rng.randrange(6)
    if how == 0:
        content[place] ^= 1 << rng.randrange(8)
    elif how == 1:
        content[place : place + length] = rng.randbytes(length)
    elif how == 2:
        content[place : place + length] = bytes([rng.choice((0, 255))]) * length
    elif how == 3:
        del content[place:]
    elif how == 4:
        other = rng.randrange(len(content))
        content[place : place + length] = content[other : other + length]
    else:  # where SQLite keeps what the rest hangs on
        content[rng.choice((*range(16, 112), *range(4096, 4108)))] = rng.randrange(256)
    return bytes(content)


def check_bytes(intact, place, seed, count):
    rng = random.Random(seed)
    expected, seen = outcome(copied(intact, place)), {"same": 0, "refused": 0}
    path = copied(intact, place)
    content = path.read_bytes()
    for _ in range(count):
        path.write_bytes(damage_bytes(rng, content))
        found = outcome(path)
        assert isinstance(found, LedgerError) or found == expected, found
        seen["refused" if isinstance(found, LedgerError) else "same"] += 1
        if not isinstance(found, LedgerError):
            path = copied(intact, place)
    assert seen["refused"] > count / 10
    return seen


def test_bytes(intact, tmp_path):
    check_bytes(intact, tmp_path / "here", seed=1, count=120)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_bytes_at_length(intact, tmp_path, seed):
    check_bytes(intact, tmp_path / "here", seed, count=1000)


def read(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT number, kind, body, hash FROM entries ORDER BY number").fetchall()


def altered(rng, value):
    """The same with one thing in it that is another, is gone, or was not there."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(sorted(value))
        how = rng.random()
        if how < 0.15:
            return {key: one for key, one in value.items() if key != name}
        return value | ({"new": rng.choice(ODD)} if how < 0.2 else {name: altered(rng, value[name])})
    if isinstance(value, list) and value and rng.random() < 0.5:
        return [altered(rng, value[0]), *value[1:]]
    return rng.choice(ODD)


def forged(entries, folder):
    """The same entries, each following from the one before; and copies under the names that they then have."""
    previous, chained = "", []
    for number, (_, kind, text, old) in enumerate(entries, start=1):
        previous = _hash(previous, number, kind, text)
        chained.append((number, kind, text, previous))
        for path in folder.glob(f"*-{old[:16]}*"):
            path.rename(path.with_name(path.name.replace(old[:16], previous[:16])))
    return chained


def write(path, entries):
    with closing(sqlite3.connect(path)) as connection, connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("DELETE FROM entries")
        connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?)", entries)


def edited(rng, entries):
    """One entry is another; in JSON as labeldp writes it, or as others do."""
    place = rng.randrange(len(entries))
    number, kind, text, head = entries[place]
    body = altered(rng, json.loads(text))
    kinds = (kind, kind, kind, kind, "charged", "budget", "ledger", "published", "lost", "x", "")
    spelled = json.dumps(body) if rng.random() < 0.2 else canonical(body)
    if rng.random() < 0.05:
        spelled = rng.choice(
            ("", "[", "{}", "[1]", '{"a":NaN}', '{"a":1,"a":2}', "[" * 100_000, '"\\ud800"', "1" * 5000)
        )
    new = (number, rng.choice(kinds), spelled.encode(errors="replace").decode(), head)
    return [*entries[:place], new, *entries[place + 1 :]]


def check_edits(intact, place, seed, count):
    """With the hashes left as they are it is found; with new ones, whoever forged it must at least have written a ledger."""
    rng = random.Random(seed)
    expected = outcome(copied(intact, place))
    for _ in range(count):
        path = copied(intact, place)
        entries = edited(rng, read(path))
        chained = rng.random() < 0.7
        write(path, forged(entries, path.with_name("l.releases")) if chained else entries)
        found = outcome(path)
        if not chained:
            assert isinstance(found, LedgerError) or found == expected, found


def test_edits(intact, tmp_path):
    check_edits(intact, tmp_path / "here", seed=1, count=40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_edits_at_length(intact, tmp_path, seed):
    check_edits(intact, tmp_path / "here", seed, count=400)


SCHEMAS = (
    "UPDATE entries SET body = CAST(body AS BLOB)",
    "UPDATE entries SET body = CAST(x'ff' || body AS TEXT) WHERE number = 3",
    "UPDATE entries SET hash = CAST(hash AS BLOB) WHERE number = 2",
    "UPDATE entries SET kind = x'00ff' WHERE number = 2",
    "UPDATE entries SET number = -number",
    "UPDATE entries SET number = 9223372036854775807 WHERE number = 6",
    "DELETE FROM entries",
    "ALTER TABLE entries ADD COLUMN more TEXT",
    "ALTER TABLE entries RENAME COLUMN body TO content",
    "ALTER TABLE entries RENAME TO others",
    "DROP TABLE entries",
    "CREATE TABLE more (x)",
    "CREATE TRIGGER more AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE number = new.number; END",
    "DROP TABLE entries; CREATE TABLE entries (number, kind, body, hash); INSERT INTO entries VALUES (1, 2, 3, 4)",
    "DROP TABLE entries; CREATE VIEW entries AS SELECT 1 AS number, 'ledger' AS kind, '{}' AS body, '' AS hash",
    "PRAGMA user_version = 0",
    "PRAGMA user_version = -5",
    "PRAGMA user_version = 2",
    "PRAGMA application_id = 0",
)


@pytest.mark.parametrize("script", SCHEMAS)
def test_another_schema(intact, tmp_path, script):
    path = copied(intact, tmp_path / "here")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"DROP TRIGGER entries_stay; DROP TRIGGER entries_remain; {script};")
    assert isinstance(outcome(path), LedgerError)


def test_a_ledger_in_another_encoding_or_journal_mode_states_the_same(intact, tmp_path):
    path = copied(intact, tmp_path / "here")
    expected = outcome(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("VACUUM")
    assert outcome(path) == expected


@pytest.mark.parametrize("how", ["flipped", "cut", "odd", "emptied", "gone", "folder", "longer"])
def test_files_of_ids(intact, tmp_path, how):
    names = [path.name for path in intact.with_name("l.releases").glob("ids-*")]
    assert {Path(name).suffix for name in names} == {".u64", ".pairs"}
    for name in names:
        path = copied(intact, tmp_path / "here")
        file = path.with_name("l.releases") / name
        content = bytearray(file.read_bytes())
        content[5] ^= 1
        file.unlink()
        if how == "folder":
            file.mkdir()
        elif how != "gone":
            whole = file.with_name(name)
            whole.write_bytes(
                {"flipped": content, "cut": content[:-8], "odd": content[:-3], "emptied": b"", "longer": content * 2}[
                    how
                ]
            )
        assert isinstance(outcome(path), VerificationError)
        shutil.rmtree(path.parent)


def test_the_entries_of_an_intact_ledger_are_read(intact, tmp_path):
    path = copied(intact, tmp_path / "here")
    again = book.read(Journal(path).entries(), path.with_name("l.releases"))
    assert again.data_sets.keys() == {"ids", "others", "numbers", "open"}
    assert isinstance(outcome(path), list)

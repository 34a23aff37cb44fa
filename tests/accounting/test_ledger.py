"""A ledger's life: it begins with a charge, it is one however many begin it, and it says what a failing disk did."""

import os
import shutil
import sqlite3
import threading

import numpy as np
import pytest

import labeldp
from labeldp import Ledger
from labeldp.accounting.journal import Journal
from labeldp.accounting.statement import statement
from labeldp.errors import BudgetError, InputError, LedgerError, UnfinishedError, VerificationError
from labeldp.release import copies, make
from labeldp.release.source import Source

ONE = labeldp.RandomizedResponse.calibrated(epsilon=1.0, num_classes=2)
LABELS, IDS = np.zeros(50, int), [f"{i:03}" for i in range(50)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "er" / "l"


def release(path, mechanism=ONE, labels=LABELS, ids=IDS, data_set="d", again=None, **budget):
    return mechanism.release(labels, data_set=data_set, ids=ids, ledger=Ledger(path, **budget), again=again)


# ── nothing but a charge begins a ledger ──


def test_looking_leaves_nothing(path, tmp_path):
    ledger = Ledger(path)
    assert not ledger.book().releases
    assert statement(ledger)["data_sets"] == []
    for create in (lambda: Ledger(path, create=False), lambda: copies.fetch(ledger, 3, tmp_path / "x")):
        with pytest.raises((LedgerError, InputError)):
            create()
    assert os.listdir(tmp_path) == []


def test_a_refused_release_leaves_nothing(path, tmp_path):
    with pytest.raises(BudgetError):
        release(path, budget=0.5)
    with pytest.raises(InputError, match="unique"):
        release(path, ids=["a"] * 50)
    with pytest.raises(InputError, match="outside"):
        release(path, labels=LABELS + 7)
    assert os.listdir(tmp_path) == []


def test_a_release_that_fails_at_its_charge_leaves_nothing(path, tmp_path, monkeypatch):
    def fail(self, entry):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("labeldp.accounting.journal.Transaction._insert", fail)
    with pytest.raises(LedgerError, match="disk is full"):
        release(path)
    assert os.listdir(tmp_path) == []


def test_a_refused_release_takes_nothing_from_a_ledger_that_is_there(path):
    def there():
        return sorted(name for name in os.listdir(path.with_name("l.releases")) if not name.endswith(".lock"))

    release(path)
    before = there()
    with pytest.raises(labeldp.RefusedError):
        release(path, ids=[*IDS[1:], "x"], data_set="e")
    assert there() == before


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_all_that_a_first_charge_makes_is_its_owners_alone(path):
    release(path)
    for made in (path, path.parent, *path.parent.rglob("*")):
        assert made.stat().st_mode & 0o077 == 0, made


# ── one ledger, however many begin it ──


@pytest.mark.parametrize("moment", ["survey", "charge"])
def test_the_second_to_begin_hashes_its_ids_with_the_firsts_key(path, monkeypatch, moment):
    """Else the ledger would not recognise them."""
    place, name = {"survey": (Source, "_survey"), "charge": (Ledger, "charge")}[moment]
    original, times = getattr(place, name), []

    def overtaken(self, *arguments):
        times.append(None)
        if len(times) == 1:
            release(path, data_set="first", ids=[f"other {i}" for i in range(50)])
        return original(self, *arguments)

    monkeypatch.setattr(place, name, overtaken)
    release(path)
    ledger = Ledger(path)
    assert len(times) == 3
    assert [record.data_set for record in ledger.book().releases.values()] == ["first", "d"]
    assert sum(entry.kind == "ledger" for entry in ledger.verify()) == 1
    with pytest.warns(labeldp.RepeatedReleaseWarning):
        release(path)


def test_many_begin_at_once(path):
    barrier, failed = threading.Barrier(4), []

    def begin(number):
        barrier.wait()
        try:
            release(path, data_set=f"d{number}", ids=[f"{number}-{i}" for i in range(50)])
        except labeldp.LabelDPError as error:
            failed.append(error)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert Ledger(path).book().data_sets.keys() == {"d0", "d1", "d2", "d3"}
    Ledger(path).verify()


def test_whoever_is_refused_takes_nothing_from_whoever_begins(path, monkeypatch):
    """Both at work in a folder that neither found."""
    original, refused = Source._survey, []

    def survey(self, *arguments):
        if not refused:
            refused.append(None)
            with pytest.raises(BudgetError):
                release(path, data_set="e", budget=0.5)
        return original(self, *arguments)

    monkeypatch.setattr(Source, "_survey", survey)
    release(path)
    Ledger(path).verify()


# ── the note of the last entry ──


def notes(path):
    return sorted(name for name in os.listdir(path.with_name("l.releases")) if name.startswith("head-"))


def test_the_note_follows_the_ledger(path):
    release(path)
    last = Ledger(path).verify()[-1]
    assert notes(path) == [f"head-{last.number}-{last.hash[:16]}"]
    release(path, again="charge", budget=3.0, raise_budget=True)
    last = Ledger(path).verify()[-1]
    assert notes(path) == [f"head-{last.number}-{last.hash[:16]}"]


def test_killed_before_its_note_the_ledger_is_ahead_and_whole(path, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(self, entry):
        raise Killed

    release(path, ids=IDS[:25], labels=LABELS[:25])
    before = notes(path)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_note", killed)
        with pytest.raises(Killed):
            release(path, ids=IDS[25:], labels=LABELS[25:], data_set="e")
    assert notes(path) == before
    Ledger(path).verify()
    release(path, ids=IDS[25:], labels=LABELS[25:], data_set="e")
    assert len(Ledger(path).book().releases) == 2


def test_a_ledger_without_a_note_gets_one(path):
    """As older versions left it."""
    release(path)
    (note,) = notes(path)
    path.with_name("l.releases").joinpath(note).unlink()
    Ledger(path).verify()
    with pytest.warns(labeldp.RepeatedReleaseWarning):
        release(path)
    assert notes(path) == [note]


def test_ledger_and_folder_restored_together_are_not_told_from_the_newest(path, tmp_path):
    """What nothing beside them can show; whoever holds a release can (`verify --releases`)."""
    release(path)
    shutil.copytree(path.parent, tmp_path / "backup")
    release(path, ids=["x"], labels=[0], data_set="e")
    shutil.rmtree(path.parent)
    shutil.copytree(tmp_path / "backup", path.parent)
    Ledger(path).verify()


# ── a disk that fails while it is charged ──


class Failing(sqlite3.Connection):
    """Fails at the commit that charges, before or after it is made; and perhaps ever after."""

    when, ever, failed = "before", False, False

    def execute(self, statement, *values):
        if Failing.failed and Failing.ever:
            raise sqlite3.OperationalError("disk I/O error")
        fails = statement == "COMMIT" and not Failing.failed
        if fails and Failing.when == "after":
            super().execute(statement)
        if fails:
            Failing.failed = True
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(statement, *values)


@pytest.fixture
def failing(monkeypatch):
    def fail(when, ever=False):
        connect = sqlite3.connect
        for name, value in (("when", when), ("ever", ever), ("failed", False)):
            monkeypatch.setattr(Failing, name, value)
        monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **{**k, "factory": Failing}))

    with monkeypatch.context():
        yield fail


@pytest.mark.parametrize("new", [False, True])
def test_charged_although_the_commit_failed_it_goes_on(path, failing, new):
    if not new:
        release(path, data_set="before", ids=[f"x{i}" for i in range(50)])
    failing("after")
    made = release(path)
    ledger = Ledger(path)
    assert made.checksum in {record.checksum for record in ledger.book().releases.values()}
    assert len(ledger.book().releases) == 1 + (not new)


@pytest.mark.parametrize("new", [False, True])
def test_not_charged_is_said_and_true(path, failing, new, tmp_path):
    if not new:
        release(path, data_set="before", ids=[f"x{i}" for i in range(50)])
    failing("before")
    with pytest.raises(LedgerError, match="disk I/O error") as told:
        release(path)
    assert told.value.exit_code == 2
    assert len(Ledger(path).book().releases) == (not new)
    assert new <= (os.listdir(tmp_path) == [])


@pytest.mark.parametrize("when", ["before", "after"])
def test_where_nobody_knows_it_is_said(path, monkeypatch, failing, when):
    release(path, data_set="before", ids=[f"x{i}" for i in range(50)])
    failing(when, ever=True)
    with pytest.raises(UnfinishedError, match=r"may be charged: the same command finds out") as told:
        release(path)
    assert told.value.exit_code == 4
    monkeypatch.setattr(Failing, "ever", False)
    release(path)
    assert len(Ledger(path).book().releases) == 2


def test_a_ledger_that_was_replaced_under_a_release_is_not_written_to(path, tmp_path, monkeypatch):
    """Another's, put there after the charge."""
    release(tmp_path / "other")
    original = make._write

    def write(*arguments):
        os.replace(tmp_path / "other", path)
        return original(*arguments)

    monkeypatch.setattr(make, "_write", write)
    with pytest.raises(UnfinishedError, match="rolled back"):
        release(path)
    assert len(Journal(path).entries()) == 6


def test_a_deleted_ledger_is_not_begun_anew(path):
    release(path)
    path.unlink()
    for use in (lambda: Ledger(path), lambda: Ledger(path, create=False), lambda: release(path, data_set="e")):
        with pytest.raises(VerificationError, match="is gone"):
            use()
    assert not path.exists()

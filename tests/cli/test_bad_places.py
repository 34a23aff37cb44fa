"""Places that cannot be read or written: directories, missing permissions, full disks, files that are in the way."""

import errno
import gc
import os
import sqlite3
import subprocess
import sys

import pytest

from labeldp import Ledger
from labeldp.release import format, shuffle
from tests.cli.conftest import Outcome, expect_sentence, without_privileges

GOOD = "label,id\n0,1\n1,2\n0,3\n"


# ── directories, and what is not there ──


def test_a_directory_as_input(desk):
    desk.expect_bad(desk.release(desk.files), "is a directory")


def test_a_directory_as_out(desk):
    folder = desk.folder / "folder"
    folder.mkdir()
    desk.expect_bad(desk.release(desk.csv(GOOD), out=folder), "is a directory")
    assert os.listdir(folder) == []


def test_a_directory_as_ledger(desk):
    folder = desk.folder / "folder"
    folder.mkdir()
    desk.expect_bad(desk.release(desk.csv(GOOD), ledger=folder), "ledger", "is a directory")
    assert os.listdir(folder) == []


@pytest.mark.parametrize("command", [["ledger", "show"], ["ledger", "verify"]])
def test_a_directory_as_the_ledger_to_read(run, tmp_path, command):
    outcome = run(*command, "--ledger", tmp_path)
    assert outcome.code == 2
    expect_sentence(outcome, "is a directory")


def test_a_directory_as_the_prior(desk):
    desk.expect_bad(desk.release(desk.csv(GOOD), "--prior", desk.files), "cannot be read")


def test_no_such_input(desk):
    desk.expect_bad(desk.release(desk.files / "nowhere.csv"), "there is no file", "nowhere.csv")


def test_no_such_folder_for_out(desk):
    desk.expect_bad(desk.release(desk.csv(GOOD), out=desk.outs / "nowhere" / "out.parquet"), "there is no directory")


@pytest.mark.parametrize("command", [["ledger", "show"], ["ledger", "verify"]])
def test_no_such_ledger_to_read(run, tmp_path, command):
    outcome = run(*command, "--ledger", tmp_path / "nowhere")
    assert outcome.code == 2
    expect_sentence(outcome, "there is no ledger")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("what", ["nowhere", "folder", "text"])
def test_what_is_not_a_release(run, tmp_path, what):
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("label\n87654321\n")
    outcome = run("inspect", tmp_path / what)
    assert outcome.code == 2
    expect_sentence(outcome, what)


def test_a_ledger_inside_a_file(desk):
    labels = desk.csv(GOOD)
    desk.expect_bad(desk.release(labels, ledger=labels / "ledger"), "ledger")


def test_a_ledger_that_is_another_file(desk):
    other = desk.csv("not a database, but long enough to be read as the header of one" * 10, "other")
    outcome = desk.release(desk.csv(GOOD), ledger=other)
    assert outcome.code == 2
    expect_sentence(outcome, "ledger")
    assert other.read_text().startswith("not a database")
    assert os.listdir(desk.outs) == []


def test_a_ledger_that_is_another_database(desk):
    other = desk.folder / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (a)")
    connection.close()
    outcome = desk.release(desk.csv(GOOD), ledger=other)
    assert outcome.code == 2
    expect_sentence(outcome, "not a labeldp ledger")
    assert os.listdir(desk.outs) == []


@pytest.mark.parametrize(
    ("what", "length"), [("labels", 255), ("labels", 300), ("out", 300), ("ledger", 255), ("ledger", 300)]
)
def test_a_name_that_is_too_long(desk, what, length):
    """255 characters are a file, but leave no room for the name of a ledger's folder beside it."""
    long = desk.outs / ("x" * length)
    places = {"labels": desk.csv(GOOD), "out": desk.out, "ledger": desk.ledger, what: long}
    outcome = desk.release(places["labels"], out=places["out"], ledger=places["ledger"])
    assert outcome.code == 2
    expect_sentence(outcome, "x" * 200)
    assert not places["out"].is_file() if length == 255 else os.listdir(desk.outs) == []
    assert desk.charges() == 0


@pytest.mark.parametrize("length", range(230, 256, 5))
def test_a_long_name_for_out_works_or_costs_nothing(desk, length):
    out = desk.outs / ("x" * length)
    outcome = desk.release(desk.csv(GOOD), out=out)
    assert outcome.code in (0, 2)
    assert desk.charges() == (outcome.code == 0) == len(os.listdir(desk.outs))


def charges(ledger):
    return len(Ledger(ledger, create=False).book().releases) if ledger.is_file() and ledger.stat().st_size else 0


def test_a_name_that_is_not_utf8(desk):
    labels = os.fsencode(desk.files) + b"/labels\xff.csv"
    with open(labels, "w") as file:
        file.write(GOOD)
    command = [sys.executable, "-m", "labeldp", "release", labels, "--label", "label", "--classes", "2"]
    command += ["--epsilon", "1", "--out", desk.out, "--ledger", desk.ledger]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        desk.expect_bad(Outcome(done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace")))


# ── a file in the way ──


def test_an_out_that_is_another_file(desk):
    other = desk.folder / "notes.txt"
    other.write_text("mine")
    desk.expect_bad(desk.release(desk.csv(GOOD), out=other), "exists already and is another file")
    assert other.read_text() == "mine"


def test_an_out_that_is_the_input(desk):
    labels = desk.csv(GOOD)
    desk.expect_bad(desk.release(labels, out=labels), "exists already and is another file")
    assert labels.read_text() == GOOD


def test_an_out_that_is_another_release(desk):
    desk.released(desk.csv(GOOD), "--rows", "0:1")
    before = desk.out.read_bytes()
    outcome = desk.release(desk.csv(GOOD), "--rows", "1:2")
    assert outcome.code == 2
    expect_sentence(outcome, "exists already and is another file")
    assert (desk.out.read_bytes(), desk.charges(), os.listdir(desk.outs)) == (before, 1, ["out.parquet"])


# ── no permission ──


@pytest.fixture
def bound(shared_desk):
    """A desk whose owner is bound by permissions; every module it needs is loaded."""
    shared_desk.labels = shared_desk.csv(GOOD)
    shared_desk.labels.chmod(0o644)
    warm = shared_desk.folder / "warm"
    warm.mkdir()
    assert shared_desk.release(shared_desk.labels, out=warm / "out", ledger=warm / "ledger").code == 0
    shared_desk.run("inspect", warm / "nowhere")
    shared_desk.run("release")
    shared_desk.closed = shared_desk.folder / "closed"
    shared_desk.closed.mkdir()
    return shared_desk


def test_permission_is_what_these_tests_take_away(bound):
    with without_privileges():
        assert bound.release(bound.labels).code == 0


def test_an_unreadable_input(bound):
    bound.labels.chmod(0)
    with without_privileges():
        outcome = bound.release(bound.labels)
    bound.expect_bad(outcome, "labels.csv", "read")


def test_an_input_in_a_closed_folder(bound):
    inside = bound.closed / "labels.csv"
    inside.write_text(GOOD)
    bound.closed.chmod(0)
    with without_privileges():
        outcome = bound.release(inside)
    bound.expect_bad(outcome, "labels.csv")


@pytest.mark.parametrize("mode", [0o555, 0o222, 0], ids=["read-only", "write-only", "closed"])
def test_an_out_folder_without_permission(bound, mode):
    bound.closed.chmod(mode)
    with without_privileges():
        outcome = bound.release(bound.labels, out=bound.closed / "out.parquet")
    bound.closed.chmod(0o755)
    bound.expect_bad(outcome, "closed")
    assert os.listdir(bound.closed) == []


@pytest.mark.parametrize("mode", [0o555, 0], ids=["read-only", "closed"])
def test_a_ledger_folder_without_permission(bound, mode):
    bound.closed.chmod(mode)
    with without_privileges():
        outcome = bound.release(bound.labels, ledger=bound.closed / "ledger")
    bound.closed.chmod(0o755)
    bound.expect_bad(outcome, "ledger")
    assert os.listdir(bound.closed) == []


def test_somebody_elses_ledger(bound):
    somebody = bound.folder / "somebody.ledger"
    bound.release(bound.labels, ledger=somebody, out=bound.folder / "first")
    somebody.chmod(0)
    with without_privileges():
        outcomes = [
            bound.release(bound.labels, "--again", "charge", ledger=somebody),
            bound.run("ledger", "show", "--ledger", somebody),
        ]
    somebody.chmod(0o600)
    for outcome in outcomes:
        assert outcome.code == 2
        expect_sentence(outcome, "ledger")
    assert charges(somebody) == 1
    assert os.listdir(bound.outs) == []


def test_an_unreadable_prior(bound):
    prior = bound.files / "prior.json"
    prior.write_text("[0.5, 0.5]")
    prior.chmod(0)
    with without_privileges():
        outcome = bound.release(bound.labels, "--prior", prior)
    bound.expect_bad(outcome, "prior")


def test_a_release_in_a_closed_folder(bound):
    bound.closed.chmod(0)
    with without_privileges():
        outcome = bound.run("inspect", bound.closed / "release.parquet")
    assert outcome.code == 2
    expect_sentence(outcome, "release.parquet")


# ── a full disk ──


def test_no_room_where_the_release_goes(desk, tiny_disk):
    disk = tiny_disk("64k")
    desk.expect_bad(desk.release(desk.csv(GOOD), out=disk / "out.parquet"), "not enough room")
    assert os.listdir(disk) == []


@pytest.mark.parametrize("size", ["8k", "64k"], ids=["for its first entry", "for a copy of the release"])
def test_no_room_where_the_ledger_is(desk, tiny_disk, size):
    disk = tiny_disk(size)
    outcome = desk.release(desk.csv(GOOD), ledger=disk / "ledger")
    assert outcome.code == 2
    expect_sentence(outcome)
    assert "room" in outcome.err or "full" in outcome.err
    assert os.listdir(desk.outs) == []
    if size == "64k":
        desk.expect_untouched(disk / "ledger")


def test_no_room_for_the_hashes_of_ids(desk, tiny_disk):
    disk = tiny_disk("128k")
    labels = desk.csv("label,id\n" + "".join(f"{i % 2},{i}\n" for i in range(20_000)))
    desk.expect_bad(desk.release(labels, "--id", "id", ledger=disk / "ledger"), "room", ledger=disk / "ledger")


def test_the_same_command_succeeds_once_there_is_room(desk, tiny_disk):
    disk = tiny_disk("4m")
    filler = disk / "filler"
    filler.write_bytes(b"\0" * (3 << 20))
    out = disk / "out.parquet"
    desk.expect_bad(desk.release(desk.csv(GOOD), out=out), "not enough room")
    filler.unlink()
    assert desk.released(desk.csv(GOOD), out=out)["charged"]
    assert len(desk.load(out)) == 3


@pytest.mark.parametrize("call", [1, 2], ids=["beside the ledger", "beside the release"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_room_is_claimed_before_anything_is_charged(desk, monkeypatch, call, code):
    calls, real = [], os.posix_fallocate

    def fallocate(handle, offset, size):
        calls.append(size)
        if len(calls) == call:
            raise OSError(code, os.strerror(code))
        real(handle, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", fallocate)
    desk.expect_bad(desk.release(desk.csv(GOOD)), "not enough room on the disk")
    assert len(calls) == call
    monkeypatch.undo()


def test_the_room_claimed_is_that_of_all_rows(desk, monkeypatch):
    sizes, real = [], os.posix_fallocate
    monkeypatch.setattr(os, "posix_fallocate", lambda handle, at, size: (sizes.append(size), real(handle, at, size)))
    desk.released(desk.numbered(50_000), "--id", "id")
    text = sum(len(f"u{i}") for i in range(50_000))
    assert min(sizes) >= 50_000 + text  # a byte an observation, and the ids
    assert min(sizes) >= desk.out.stat().st_size


@pytest.mark.parametrize("kilobytes", range(2900, 3700, 100))
def test_a_shuffle_has_room_for_its_buckets_or_costs_nothing(desk, tiny_disk, monkeypatch, kilobytes):
    monkeypatch.setattr(shuffle, "_BUCKET_ROWS", 1000)
    complaints = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    ledger = tiny_disk(f"{kilobytes}k") / "ledger"
    outcome = desk.release(desk.numbered(20_000), "--id", "id", "--shuffle", ledger=ledger)
    gc.collect()
    if outcome.code:
        desk.expect_bad(outcome, ledger=ledger)
        assert "room" in outcome.err or "full" in outcome.err
    assert complaints == []


def test_a_disk_that_fails_while_it_is_written_leaves_one_sentence(desk, monkeypatch):
    """Charged by then: the same command goes on under the same charge."""
    complaints = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    real = format.Writer.write

    def write(self, *rows):
        real(self, *rows)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(format.Writer, "write", write)
        outcome = desk.release(desk.csv(GOOD))
        gc.collect()
    assert outcome.code == 4
    expect_sentence(outcome, "not enough room")
    assert complaints == []
    assert os.listdir(desk.outs) == []
    done = desk.released(desk.csv(GOOD))
    assert (done["charged"], done["resumed"], desk.charges(), len(desk.load())) == (False, True, 1, 3)

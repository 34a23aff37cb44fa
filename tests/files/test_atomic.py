"""A file is there whole or not at all."""

import errno
import os
import threading
from pathlib import Path

import pytest

from labeldp.errors import InputError
from labeldp.files.atomic import place_file, reserve, sweep, unfinished

ALICE, BOB = b"A" * 100, b"B" * 100


def test_a_file_is_placed_with_the_usual_permissions(tmp_path):
    old = os.umask(0o027)
    try:
        place_file(tmp_path / "out", lambda file: file.write(ALICE))
    finally:
        os.umask(old)
    assert (tmp_path / "out").read_bytes() == ALICE
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path) == ["out"]


def test_while_it_is_written_only_its_owner_sees_it(tmp_path):
    seen = []

    def write(file):
        seen.append((os.fstat(file.fileno()).st_mode & 0o777, (tmp_path / "out").exists()))

    place_file(tmp_path / "out", write)
    assert seen == [(0o600, False)]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), RuntimeError("a defect"), KeyboardInterrupt()])
def test_a_failure_leaves_what_was_there(tmp_path, error):
    out = tmp_path / "out"
    out.write_bytes(BOB)

    def write(file):
        file.write(ALICE)
        raise error

    with pytest.raises(InputError if isinstance(error, OSError) else type(error)):
        place_file(out, write)
    assert out.read_bytes() == BOB
    assert os.listdir(tmp_path) == ["out"]


def test_two_writers_at_once_never_mix(tmp_path):
    """Bob begins while Alice writes, and is half done when she finishes."""
    out = tmp_path / "out"
    begun, half, done = (threading.Event() for _ in range(3))
    results = {}

    def alice(file):
        file.write(ALICE)
        begun.set()
        half.wait(2)

    def bob(file):
        file.write(BOB[:50])
        file.flush()
        half.set()
        done.wait(2)
        file.write(BOB[50:])

    def place(name, write):
        try:
            place_file(out, write)
            results[name] = "placed"
        except InputError:
            results[name] = "refused"

    def second():
        begun.wait(2)
        place("bob", bob)

    thread = threading.Thread(target=second)
    thread.start()
    place("alice", alice)
    between = out.read_bytes() if out.exists() else None
    done.set()
    thread.join()
    # Whoever was told "placed" had the whole file there at that moment.
    assert between == (ALICE if results["alice"] == "placed" else None)
    assert out.read_bytes() == (BOB if results["bob"] == "placed" else ALICE)
    assert os.listdir(tmp_path) == ["out"]


def test_reserved_room_is_really_taken(tmp_path):
    reserve(tmp_path / "room", 1 << 20)
    stat = (tmp_path / "room").stat()
    assert stat.st_mode & 0o777 == 0o600
    assert stat.st_size == 1 << 20
    assert stat.st_blocks * 512 >= 1 << 20


def test_room_that_is_not_there_leaves_nothing(tmp_path):
    with pytest.raises(InputError, match="room"):
        reserve(tmp_path / "room", 1 << 62)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", [".", "folder", ".."])
def test_a_directory_is_no_file(tmp_path, monkeypatch, name):
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="is a directory"):
        place_file(Path(name), lambda file: file.write(b"x"))
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_reserved_file_that_cannot_be_opened_is_said_and_not_left(tmp_path, monkeypatch):
    plain = os.open

    def broken(path, flags, *mode):
        if os.fspath(path).endswith(".part") and not flags & os.O_CREAT:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return plain(path, flags, *mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", broken)
        with pytest.raises(InputError, match=r"out cannot be written: Input/output error\."):
            place_file(tmp_path / "out", lambda file: file.write(ALICE))
    assert os.listdir(tmp_path) == []


def test_a_room_that_can_neither_be_claimed_nor_left_is_said_all_the_same(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "posix_fallocate", broken)
    monkeypatch.setattr(Path, "unlink", broken)
    with pytest.raises(InputError, match="cannot be written"):
        reserve(tmp_path / "out", 10)


def test_a_sweep_removes_what_the_dead_left_and_nothing_else(tmp_path):
    (tmp_path / "out").write_bytes(BOB)
    (tmp_path / ".labeldp-01234567-dead.part").write_bytes(b"half")
    with unfinished(tmp_path / "other") as alive:
        sweep(tmp_path)
        assert sorted(os.listdir(tmp_path)) == sorted([alive.name, "out"])

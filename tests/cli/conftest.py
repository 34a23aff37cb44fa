"""A label owner at the desk: a folder of label files, a ledger, an empty folder for releases, and the command line."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import Ledger, Release
from labeldp.cli import main

# Planted where a label is at fault: neither may ever be printed.
SECRET_NUMBER = 87654321
SECRET_TEXT = "SECRETVALUE"
NOBODY = 65534


@dataclass(frozen=True)
class Outcome:
    """What a command left behind on the terminal."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out, parse_constant=_no_constant)

    def fact(self, name):
        """The line of human output that starts with this name."""
        return next(line.split(None, 1)[1] for line in self.out.splitlines() if line.split()[:1] == [name])


def _no_constant(name):
    raise ValueError(f"{name} is not JSON")


class Desk:
    """Runs commands in one folder. `files` holds labels, `outs` the releases."""

    def __init__(self, folder, run):
        self.folder, self.run = folder, run
        self.files, self.outs = folder / "files", folder / "outs"
        self.files.mkdir()
        self.outs.mkdir()
        self.ledger = folder / "owner.ledger"
        self.out = self.outs / "out.parquet"

    def csv(self, text, name="labels.csv"):
        path = self.files / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def parquet(self, name="labels.parquet", **columns):
        path = self.files / name
        pq.write_table(pa.table(columns), path)
        return path

    def numbered(self, rows=200, name="labels.csv", shift=0):
        """Labels 0, 1, 0, 1, …, an id, and a feature that `shift` changes."""
        lines = (f"{i % 2},u{i + shift},{i + shift}" for i in range(rows))
        return self.csv("label,id,x\n" + "\n".join(lines) + "\n", name)

    def release(self, labels, *options, label="label", classes="2", epsilon="1", out=None, ledger=None):
        """`labeldp release` with usual options; each of `options` may say otherwise (the last one counts)."""
        return self.run(
            "release", labels, "--label", label, "--classes", classes, "--epsilon", epsilon, "--mechanism", "response",
            "--out", out or self.out, "--ledger", ledger or self.ledger, *options,
        )  # fmt: skip

    def released(self, *arguments, **options):
        """A release that succeeds, as its JSON summary."""
        outcome = self.release(*arguments, "--json", **options)
        assert outcome.code == 0, outcome.err
        return outcome.json

    def charges(self):
        """How many releases have been charged."""
        return len(Ledger(self.ledger, create=False).book().releases) if self.ledger.exists() else 0

    def load(self, out=None):
        return Release.load(out or self.out)

    def expect_untouched(self, ledger=None):
        """Nothing is charged, no ledger is begun, and no file is left, not even a hidden or half-written one."""
        ledger = ledger or self.ledger
        assert os.listdir(self.outs) == []
        assert not ledger.is_file()
        assert not ledger.with_name(ledger.name + ".releases").exists()

    def expect_bad(self, outcome, *words, ledger=None):
        """Exit code 2, one sentence with these words that gives no label away, and nothing done."""
        expect_sentence(outcome, *words)
        assert outcome.code == 2
        self.expect_untouched(ledger)


def expect_sentence(outcome, *words):
    """One line on standard error, for people, that quotes no label; nothing on standard output."""
    assert outcome.out == ""
    assert outcome.err.endswith("\n")
    assert len(outcome.err.splitlines()) == 1, outcome.err
    assert outcome.err.startswith("error: ")
    assert outcome.err.rstrip()[-1] in ".)", outcome.err
    assert "unexpected" not in outcome.err
    assert "Traceback" not in outcome.err
    assert str(SECRET_NUMBER) not in outcome.err
    assert SECRET_TEXT not in outcome.err
    for word in words:
        assert word in outcome.err, outcome.err


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line in this process."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["labeldp", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def desk(tmp_path, run):
    return Desk(tmp_path, run)


@pytest.fixture
def shared_desk(run):
    """A desk that every user of the machine can reach (pytest's own folders are closed to others)."""
    folder = Path(tempfile.mkdtemp(prefix="labeldp-test-"))
    folder.chmod(0o777)
    desk = Desk(folder, run)
    for path in (desk.files, desk.outs):
        path.chmod(0o777)
    yield desk
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(stat.S_IRWXU)
    shutil.rmtree(folder)


@contextmanager
def without_privileges():
    """Act as a user whom permissions bind: root steps down for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.fixture
def tiny_disk(tmp_path):
    """A function that mounts a file system of the given size; skipped where that is not allowed."""
    mounted = []

    def mount(size):
        point = tmp_path / f"disk{len(mounted)}"
        point.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", point]
        if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("a small disk cannot be mounted here")
        mounted.append(point)
        return point

    yield mount
    for point in mounted:
        subprocess.run(["umount", point], check=True)

"""`labeldp download`, in this process and on a terminal."""

import hashlib
import os
import pty
import subprocess
import sys

import pytest

from labeldp.data.download import PUBLISHED, File, PublishedFiles
from tests.cli.conftest import expect_sentence
from tests.data.server import serving

NAME, CONTENT = "cifar-10-python.tar.gz", bytes(500_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with serving() as server:
        server.files[NAME] = CONTENT
        monkeypatch.setitem(PUBLISHED, "cifar10", PublishedFiles((File(server.url + NAME, MD5),)))
        yield server


def test_downloads_and_says_so(run, server, tmp_path):
    for words in ("downloaded; its md5 is the published one", "was there already, and is right"):
        outcome = run("download", "cifar10", "--data", tmp_path)
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.out == f"{tmp_path / NAME}: {words}\n"


def test_says_what_went_wrong(run, server, tmp_path):
    server.cut_after = 1000
    outcome = run("download", "cifar10", "--data", tmp_path)
    assert outcome.code == 2
    expect_sentence(outcome, "1,000 bytes of it are kept", "the same command goes on", server.url + NAME)
    expect_sentence(run("download", "imagenet"), "cifar10, cifar100, fashion")


def test_a_missing_data_set_names_the_command(run, tmp_path):
    arguments = ("--epsilon", "1", "--mechanism", "response", "--out", tmp_path / "run", "--data", tmp_path)
    expect_sentence(run("experiment", "--dataset", "cifar10", *arguments), "labeldp download cifar10")


def test_a_bar_on_a_terminal_only(server, tmp_path):
    """On standard error; standard output stays for programs."""
    code = (
        "from labeldp.data.download import PUBLISHED, File, PublishedFiles; from labeldp.cli import main\n"
        f"PUBLISHED['cifar10'] = PublishedFiles((File({server.url + NAME!r}, {MD5!r}),)); main()"
    )
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    command = [sys.executable, "-c", code, "download", "cifar10", "--data", str(tmp_path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.returncode == 0, shown
    assert done.stdout == f"{tmp_path / NAME}: downloaded; its md5 is the published one\n"
    assert NAME in shown
    assert "kB" in shown

"""A real process, with pipes or on a terminal of a given width; and the tree of commands."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass

import typer

from labeldp.cli import app

_NOT_OURS = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "LABELDP_LEDGER", "LABELDP_DEBUG")


def environment(**changes):
    kept = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
    return kept | {"TERM": "xterm", "OMP_NUM_THREADS": "1", **changes}


def process(*arguments, **changes):
    """`labeldp …` with pipes."""
    command = [sys.executable, "-m", "labeldp", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment(**changes))


@dataclass(frozen=True)
class Shown:
    code: int
    out: str | None  # what went into the pipe, if standard output was one
    raw: str

    @property
    def text(self):
        """Without the codes for colours and the cursor."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.raw).replace("\r\n", "\n")


def terminal(*arguments, columns=80, pipe=False, program=("-m", "labeldp"), **changes):
    """`labeldp …` with standard error, and standard output unless it is to be a pipe, on a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    command = [sys.executable, *program, *map(str, arguments)]
    out = subprocess.PIPE if pipe else theirs
    started = subprocess.Popen(command, stdin=theirs, stdout=out, stderr=theirs, env=environment(**changes))
    os.close(theirs)
    pieces = []
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(ours)
    piped = started.communicate()[0]
    return Shown(started.returncode, piped.decode() if pipe else None, b"".join(pieces).decode())


def commands():
    """Every command that can be run, by its words."""

    def walk(node, words):
        if not hasattr(node, "commands"):
            yield words, node
            return
        for name, child in node.commands.items():
            yield from walk(child, (*words, name))

    return dict(walk(typer.main.get_command(app), ()))

"""Processes without the seconds that imports take: one process imports everything once, and is forked for every call.

A call comes from a script of a few lines, which hands over arguments, folder, environment and streams, and ends with the call's exit code.
What is called is the real thing, in a process of its own.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

IMPORTS = (
    "labeldp.cli", "labeldp.release.make", "labeldp.mechanisms.plan", "labeldp.audit", "labeldp.runs.run", "labeldp.runs.run",
    "labeldp.pate.run", "pyarrow.csv", "rich.table", "sklearn.datasets", "torch._dynamo", "torch.utils.flop_counter",
)  # fmt: skip

SCRIPT = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as line:
    line.connect({address!r})
    said = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(line, [len(said).to_bytes(8, "big")], [0, 1, 2])
    line.sendall(said)
    code = line.recv(1)
os._exit(code[0] if code else 1)
"""


@contextlib.contextmanager
def door(script: Path) -> Iterator[socket.socket]:
    """Where calls come in; running the script is a call."""
    address = f"{script}.door"
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(address)
        opened.listen()
        unready = script.with_suffix(".unready")
        unready.write_text(SCRIPT.format(python=sys.executable, address=address))
        unready.chmod(0o755)
        unready.rename(script)
        yield opened


def serve(opened: socket.socket, call: Callable[[list[str]], None]) -> None:
    """Answer every call in a process of its own, for ever."""
    for name in IMPORTS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    while True:
        line, _ = opened.accept()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork() == 0:
            opened.close()
            _answer(line, call)
        line.close()


@contextlib.contextmanager
def serving(script: Path, call: Callable[[list[str]], None]) -> Iterator[None]:
    """Serve beside what this process does."""
    with door(script) as opened:
        server = os.fork()
        if server == 0:
            serve(opened, call)
        try:
            yield
        finally:
            os.kill(server, signal.SIGTERM)
            os.waitpid(server, 0)


def command(arguments: list[str]) -> None:
    """`labeldp`, as its console script calls it."""
    sys.argv = ["labeldp", *arguments]
    from labeldp.cli import main

    main()


def _answer(line: socket.socket, call: Callable[[list[str]], None]) -> None:
    code = 1
    try:
        size, streams, _, _ = socket.recv_fds(line, 8, 3)
        with line.makefile("rb") as told:
            arguments, folder, environment = json.loads(told.read(int.from_bytes(size, "big")))
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        # New ones: Python remembers what the old streams could do.
        sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, closefd=False)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        call(arguments)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        with contextlib.suppress(OSError):
            line.sendall(bytes([code]))
        os._exit(code)

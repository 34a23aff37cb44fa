"""`labeldp` without the seconds that its imports take: one process imports them, and is forked for every command of a page.

The command is the real one, in a process of its own; `labeldp` on the path is a few lines that hand over arguments, environment, streams.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

LIGHT = ("labeldp.cli", "labeldp.release.make", "labeldp.mechanisms.plan", "labeldp.audit", "rich.table", "pyarrow.csv")
HEAVY = ("labeldp.training.run", "labeldp.training.finished", "labeldp.pate.run", "sklearn.datasets", "torch._dynamo")

CLIENT = """\
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
def quick_commands(heavy: bool) -> Iterator[Path]:
    """A folder for the path, with a quick `labeldp` in it."""
    for name in (*LIGHT, *(HEAVY if heavy else ())):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as door:
        address = f"{folder}/door"
        door.bind(address)
        door.listen()
        client = Path(folder) / "labeldp"
        client.write_text(CLIENT.format(python=sys.executable, address=address))
        client.chmod(0o755)
        server = os.fork()
        if server == 0:
            _serve(door)
        try:
            yield Path(folder)
        finally:
            os.kill(server, signal.SIGTERM)
            os.waitpid(server, 0)


def _serve(door: socket.socket) -> None:
    while True:
        line, _ = door.accept()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork() == 0:
            door.close()
            _run(line)
        line.close()


def _run(line: socket.socket) -> None:
    """One command, in a process that is its own."""
    code = 1
    try:
        size, streams, _, _ = socket.recv_fds(line, 8, 3)
        with line.makefile("rb") as told:
            arguments, folder, environment = json.loads(told.read(int.from_bytes(size, "big")))
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = ["labeldp", *arguments]
        from labeldp.cli import main

        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        with contextlib.suppress(OSError):
            line.sendall(bytes([code]))
        os._exit(code)

"""A process that has imported what commands need, and forks for each: hundreds of commands cost one import.

Orders come as lines of JSON on standard input, and answers go to standard output:

    {"arguments": [...], "folder": where to be, "blow": [mode, at, errno]}
    {"code": ..., "stdout": ..., "stderr": ..., "calls": ["open owner/labels.ledger", ...]}
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from tests.torture.scene import Ended
from tests.torture.shim import COUNT, Blow, Control, PythonShim, arm_preload, build_preload, set_control, shared_control


@dataclass(frozen=True)
class Struck(Ended):
    """How a command ended, and its file calls, one line each."""

    calls: tuple[str, ...]


class Server:
    """Runs commands one at a time, each in a process of its own."""

    def __init__(self, folder: Path, *, preload: bool = True, torch: bool = False) -> None:
        """Build what it needs in `folder`; without `preload`, or where there is no compiler, only Python's own calls are seen.

        Commands that need `torch` run in any; a server without it is much smaller, and forks faster for all others.
        """
        temporary = folder / "tmp"
        temporary.mkdir(exist_ok=True)
        library = build_preload(folder) if preload else None
        self.shim = "python" if library is None else "preload"
        self._environment = {name: value for name, value in os.environ.items() if name != "LABELDP_LEDGER"}
        self._environment |= {"OMP_NUM_THREADS": "1", "TMPDIR": str(temporary), "HOME": str(folder), "NO_COLOR": "1"}
        if library is not None:
            self._environment["LD_PRELOAD"] = str(library)
        self._options = [self.shim, *(["torch"] if torch else [])]

    @cached_property
    def _process(self) -> subprocess.Popen[str]:
        """Started when it is first needed."""
        command = [sys.executable, "-m", "tests.torture.server", *self._options]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self._environment
        )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        if "_process" in vars(self):
            with self._process as process:
                process.kill()

    def run(self, arguments: Sequence[str], folder: Path, blow: Blow | None = None) -> Struck:
        """Run `labeldp` with these arguments in this folder. Its calls below the folder are counted, if a blow is given."""
        given = None if blow is None else [blow.mode, blow.at, blow.error]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"arguments": list(arguments), "folder": str(folder), "blow": given}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return Struck(answer["code"], answer["stdout"], answer["stderr"], tuple(answer["calls"]))


# ---------------------------------------------------------------- within the process


def import_torch() -> None:
    import torch

    torch.set_num_threads(1)
    import_all(("safetensors.torch", "torch._dynamo"))


def import_all(names: Iterable[str]) -> None:
    for name in names:
        with suppress(ImportError):  # some modules are there only once another is
            importlib.import_module(name)


def parse_once() -> None:
    """Typer builds all its parsers anew whenever it is called, which takes longer than most commands here."""
    import typer.main

    from labeldp.cli import app

    typer.main.get_command = functools.cache(typer.main.get_command)
    typer.main.get_command(app)


def serve(shim: str, torch: bool) -> None:
    if torch:
        import_torch()
    parse_once()
    gc.freeze()
    control = shared_control()
    for line in sys.stdin:
        print(json.dumps(obey(json.loads(line), control, shim)), flush=True)


def obey(order: dict[str, Any], control: Control, shim: str) -> dict[str, Any]:
    folder = Path(order["folder"])
    set_control(control, folder, Blow(*(order["blow"] or ())))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as imported:
        child = os.fork()
        if child == 0:
            be_the_command(order, control, shim, folder, (out, err, imported))
        _, status = os.waitpid(child, 0)
        said = [_content(file) for file in (out, err)]
        import_all(_content(imported).split())
    calls = control.log.decode(errors="replace").splitlines()
    return {"code": os.waitstatus_to_exitcode(status), "stdout": said[0], "stderr": said[1], "calls": calls}


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def be_the_command(
    order: dict[str, Any], control: Control, shim: str, folder: Path, streams: tuple[IO[bytes], IO[bytes], IO[bytes]]
) -> None:
    """Never returns."""
    for number, file in enumerate(streams[:2], start=1):
        os.dup2(file.fileno(), number)
    os.umask(0o022)
    os.chdir(folder)
    known = set(sys.modules)
    sys.argv = ["labeldp", *order["arguments"]]
    from labeldp.cli import main

    if order["blow"] is not None:
        arm_preload(control) if shim == "preload" else PythonShim(control).arm()
    code: Any = 0
    try:
        main()
    except SystemExit as leaving:
        code = leaving.code or 0
    except BaseException as error:
        print(f"Traceback: {type(error).__name__} {error}", file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    if not order["blow"] or order["blow"][0] == COUNT:
        streams[2].write("\n".join(set(sys.modules) - known).encode())
        streams[2].flush()
    os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1], torch=len(sys.argv) > 2)

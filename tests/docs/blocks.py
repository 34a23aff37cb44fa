"""A page's code blocks, and a reader who types them all in: one folder, one shell, one Python session.

A block is run unless the line above its fence says `<!-- not run: why -->`, which readers of the page do not see. One below
`<!-- needs: FILE … -->` is run where $LABELDP_DATA has these files.
`python -m tests.docs.blocks PAGE` runs a page in a fresh folder and says how long each block took.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labeldp.data.download import data_folder
from tests.docs.quick import command, door, serve, serving

ROOT = Path(__file__).parents[2]
RUN = ("bash", "python")
SHOWN = ("", "text", "json", "csv", "toml", "yaml", "html", "css", "markdown")  # never run

_FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=indent)(?P=fence)[`~]*[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_MARK = re.compile(r"<!-- *not run\b(?P<rest>.*?)-->\s*\Z", re.DOTALL)
_NEEDS = re.compile(r"<!-- *needs: *(?P<files>[^>]*?) *-->\s*\Z")
_COMMAND = re.compile(r"^(?: {4,}|\t)(?:\$ )?(?:labeldp|python3?|pip|torchrun|from \w+|import) ", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    line: int
    language: str
    code: str
    not_run: str | None  # why
    needs: tuple[str, ...] = ()  # files of public data sets

    @property
    def runs(self) -> bool:
        return self.language in RUN and self.not_run is None and not self.lacks()

    def lacks(self) -> list[str]:
        """Which of the files that it needs are not here."""
        return [file for file in self.needs if not (data_folder() / file).is_file()]


def blocks(markdown: str) -> list[Block]:
    """All fenced blocks of a page."""
    found, end = [], 0
    for match in _FENCE.finditer(markdown):
        indent = match["indent"]
        code = "".join(line.removeprefix(indent) for line in match["code"].splitlines(keepends=True))
        mark, needs = (one.search(markdown[end : match.start()]) for one in (_MARK, _NEEDS))
        files = () if needs is None else tuple(needs["files"].split())
        why = None if mark is None else mark["rest"].removeprefix(":").strip()
        found.append(Block(markdown.count("\n", 0, match.start()) + 1, match["language"].strip(), code, why, files))
        end = match.end()
    return found


def commands_outside_blocks(markdown: str) -> list[str]:
    """Commands in indented code, which nothing runs."""
    return [match[0].strip() for match in _COMMAND.finditer(_FENCE.sub("", markdown))]


def pages() -> list[str]:
    """The README and every page of docs/."""
    return ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@contextlib.contextmanager
def nursery(folder: Path) -> Iterator[Path]:
    """Where readers come from: a script that starts one. Everything is imported once for all of them."""
    script = folder / "reader"
    command = [sys.executable, "-m", "tests.docs.blocks", "--nursery", str(script)]
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}) as process:
        while not script.exists() and process.poll() is None:
            time.sleep(0.05)
        try:
            yield script
        finally:
            process.terminate()


def type_in(page: str, folder: Path, reader: Path) -> subprocess.CompletedProcess[str]:
    """Run a page's blocks in this folder."""
    chosen = [(block.line, block.language, block.code) for block in blocks(read(page)) if block.runs]
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "LABELDP_LEDGER": str(folder / "reader.ledger"),
        "LABELDP_DATA": str(data_folder().absolute()),  # its default is a folder of where one stands
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
    }
    return subprocess.run(
        [reader, json.dumps(chosen)],
        cwd=folder,
        env=environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        check=False,
    )


def _read_and_type(arguments: list[str]) -> None:
    """What a reader does, in a process of its own: the blocks in order, until one fails."""
    session: dict[str, object] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as scripts, serving(Path(scripts) / "labeldp", command):
        os.environ["PATH"] = f"{scripts}{os.pathsep}{os.environ['PATH']}"
        for line, language, code in json.loads(arguments[0]):
            print(f"── line {line} ──", flush=True)
            began = time.perf_counter()
            try:
                _bash(code) if language == "bash" else exec(compile(code, f"<line {line}>", "exec"), session)
            except Exception:
                traceback.print_exc()
                print(f"the block at line {line} failed:\n{code}", flush=True)
                sys.exit(1)
            print(f"── {time.perf_counter() - began:.1f} s ──", flush=True)


def _bash(code: str) -> None:
    """What a shell keeps between two blocks is kept: its folder and its variables (`-a` exports them all)."""
    with tempfile.NamedTemporaryFile() as kept:
        done = subprocess.run(["bash", "-aeuo", "pipefail", "-c", f"{code}\nenv -0 > {kept.name}"], check=False)
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}")
        after = dict(entry.split("=", 1) for entry in kept.read().decode().split("\0") if entry)
    os.environ.update(after)
    os.chdir(after["PWD"])


if __name__ == "__main__":
    if sys.argv[1] == "--nursery":
        with door(Path(sys.argv[2])) as opened:
            serve(opened, _read_and_type)
    with tempfile.TemporaryDirectory() as place, nursery(Path(place)) as started:
        for name in sys.argv[1:]:
            with tempfile.TemporaryDirectory() as empty:
                print(name, type_in(name, Path(empty), started).stdout, sep="\n")

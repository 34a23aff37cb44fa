"""A page's code blocks, and a reader who types them all in: one folder, one shell, one Python session.

A block is run unless the line above its fence says `<!-- not run: why -->`, which readers of the page do not see.
`python -m tests.docs.blocks PAGE` runs a page in a fresh folder and says how long each block took.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN = ("bash", "python")
SHOWN = ("", "text", "json", "csv", "toml", "yaml", "html", "css", "markdown")  # never run

_FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=indent)(?P=fence)[`~]*[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_TORCH = r"labeldp (train|predict|evaluate|select|pate|audit-)|torch|labeldp\.training"
_MARK = re.compile(r"<!-- *not run\b(?P<rest>.*?)-->\s*\Z", re.DOTALL)
_COMMAND = re.compile(r"^(?: {4,}|\t)(?:\$ )?(?:labeldp|python3?|pip|torchrun|from \w+|import) ", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    line: int
    language: str
    code: str
    not_run: str | None  # why

    @property
    def runs(self) -> bool:
        return self.language in RUN and self.not_run is None


def blocks(markdown: str) -> list[Block]:
    """All fenced blocks of a page."""
    found, end = [], 0
    for match in _FENCE.finditer(markdown):
        indent = match["indent"]
        code = "".join(line.removeprefix(indent) for line in match["code"].splitlines(keepends=True))
        mark = _MARK.search(markdown[end : match.start()])
        why = None if mark is None else mark["rest"].removeprefix(":").strip()
        found.append(Block(markdown.count("\n", 0, match.start()) + 1, match["language"].strip(), code, why))
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


def type_in(page: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a page's blocks in a process of their own, started in this folder."""
    chosen = [(block.line, block.language, block.code) for block in blocks(read(page)) if block.runs]
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "LABELDP_LEDGER": str(folder / "reader.ledger"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "MPLBACKEND": "agg",
    }
    command = [sys.executable, "-m", "tests.docs.blocks", "--reader"]
    return subprocess.run(
        command,
        input=json.dumps(chosen),
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def _reader(chosen: list[tuple[int, str, str]]) -> None:
    from tests.docs.quick import quick_commands

    session: dict[str, object] = {"__name__": "__main__"}
    heavy = any(re.search(_TORCH, code) for _, _, code in chosen)
    with quick_commands(heavy) as folder:
        os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
        for line, language, code in chosen:
            print(f"── line {line} ──", flush=True)
            began = time.perf_counter()
            try:
                _bash(code) if language == "bash" else exec(compile(code, f"<line {line}>", "exec"), session)
            except Exception:
                traceback.print_exc()
                sys.exit(f"the block at line {line} failed:\n{code}")
            print(f"── {time.perf_counter() - began:.1f} s ──", flush=True)


def _bash(code: str) -> None:
    """What a shell keeps between two blocks, its folder and exported variables, is kept."""
    with tempfile.NamedTemporaryFile() as kept:
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", f"{code}\nenv -0 > {kept.name}"], check=False)
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}")
        after = dict(entry.split("=", 1) for entry in kept.read().decode().split("\0") if entry)
    os.environ.update(after)
    os.chdir(after["PWD"])


if __name__ == "__main__":
    if sys.argv[1:] == ["--reader"]:
        _reader(json.load(sys.stdin))
    else:
        with tempfile.TemporaryDirectory() as place:
            print(type_in(sys.argv[1], Path(place)).stdout)

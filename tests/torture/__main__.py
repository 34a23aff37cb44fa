"""Kill commands at any moment, race them, fail each of their file calls in turn, and check that the ledger's promises hold.

    python -m tests.torture [--part calls|kills|races …] [--kills 100] [--races 200] [--out result.json] [--seed N]
                            [--calls N] [--command NAME …]

Where only some parts or commands are run, the others stay in the result file as they were.
"""

from __future__ import annotations

import argparse
import json
import platform
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.torture.calls import calls
from tests.torture.commands import COMMANDS, Command
from tests.torture.kills import kills
from tests.torture.races import races

PARTS = ("calls", "kills", "races")


def measured(part: Callable[[Path, int], dict[str, Any]], folder: Path, seed: int) -> dict[str, Any]:
    """What a part found, and where and how long it looked."""
    folder.mkdir()
    began = time.monotonic()
    found = part(folder, seed)
    seconds = round(time.monotonic() - began, 1)
    return {
        **found,
        "seed": seed,
        "seconds": seconds,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def _chosen(names: list[str] | None) -> list[Command]:
    return [command for command in COMMANDS if names is None or command.name in names]


def _with_others(now: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Commands that were not struck this time, as they were."""
    struck = {**before.get("commands", {}), **now["commands"]}
    return {**now, "commands": {command.name: struck[command.name] for command in COMMANDS if command.name in struck}}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__.splitlines()[0])
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one; may be given twice")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--races", type=int, default=200)
    parser.add_argument("--calls", type=int, help="so many blows a command, drawn by the seed; default: all")
    parser.add_argument(
        "--command", action="append", help="calls of this one only; may be given twice; the others stay as they were"
    )
    parser.add_argument("--out", type=Path, help="write the result here as JSON")
    parser.add_argument("--seed", type=int, default=None, help="of cases and moments; processes still run as they like")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="labeldp-torture-"))
    seed = secrets.randbits(32) if options.seed is None else options.seed
    torments: dict[str, Callable[[Path, int], dict[str, Any]]] = {
        "calls": lambda folder, seed: calls(folder, seed, options.calls, commands=_chosen(options.command)),
        "kills": lambda folder, seed: kills(options.kills, folder, seed),
        "races": lambda folder, seed: races(options.races, folder, seed),
    }
    result = {part: measured(torments[part], folder / part, seed) for part in options.part or PARTS}
    print(json.dumps(result, indent=2, ensure_ascii=False))
    if options.out is not None:
        kept = json.loads(options.out.read_text()) if options.out.exists() else {}
        if "calls" in result:
            result["calls"] = _with_others(result["calls"], kept.get("calls", {}))
        merged = {part: found for part in PARTS if (found := result.get(part, kept.get(part))) is not None}
        options.out.write_text(json.dumps(merged, indent=2, ensure_ascii=False) + "\n")
    if any(found["failures"] for found in result.values()):
        print(f"what failed is kept in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

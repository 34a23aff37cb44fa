"""Kill the real command at any moment, race it against itself, and check that the ledger's promises hold.

python -m tests.torture --kills 100 --races 200 [--out result.json] [--seed N]
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
from pathlib import Path
from typing import Any

from tests.torture.kills import kills
from tests.torture.races import races


def torture(kill_count: int, race_count: int, folder: Path, seed: int) -> dict[str, Any]:
    began = time.monotonic()
    killed = kills(kill_count, folder, seed)
    middle = time.monotonic()
    raced = races(race_count, folder, seed)
    return {
        "kills": {**killed, "seconds": round(middle - began, 1)},
        "races": {**raced, "seconds": round(time.monotonic() - middle, 1)},
        "failures": len(killed["failures"]) + len(raced["failures"]),
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--races", type=int, default=200)
    parser.add_argument("--out", type=Path, help="write the result here as JSON")
    parser.add_argument("--seed", type=int, default=None, help="of cases and moments; processes still run as they like")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="labeldp-torture-"))
    seed = secrets.randbits(32) if options.seed is None else options.seed
    result = torture(options.kills, options.races, folder, seed)
    text = json.dumps(result, indent=2, ensure_ascii=False)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")
    if result["failures"]:
        print(f"what failed is kept in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.forged [--all] [KIND …]`: forge every field (with five values, or all), print the table."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from .forge import forged
from .kinds import KINDS
from .world import build


def main() -> None:
    names = [word for word in sys.argv[1:] if word != "--all"]
    with tempfile.TemporaryDirectory() as place:
        world = build(Path(place) / "world")
        print(
            "| kind of file | fields | forgeries | refused | weaker | by its account | unused |\n|---|---|---|---|---|---|---|"
        )
        total, faults = [0, 0], []
        for kind in KINDS:
            if names and kind.name not in names:
                continue
            began = time.monotonic()
            found = forged(kind, world, most=1000 if "--all" in sys.argv else 5)
            counts = " | ".join(str(found.counts[word]) for word in ("refused", "weaker", "by its account", "unused"))
            print(f"| {kind.name} | {found.fields} | {found.forgeries} | {counts} |", flush=True)
            print(f"{time.monotonic() - began:.1f} s", file=sys.stderr)
            total = [total[0] + found.fields, total[1] + found.forgeries]
            faults += found.faults
            print("\n".join(found.faults), file=sys.stderr, flush=True)
        print(f"| all | {total[0]} | {total[1]} | | | | |")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()

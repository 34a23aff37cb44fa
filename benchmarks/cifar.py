"""CIFAR from released labels with the `fast` model, as one resumable queue: most telling cells first.

    python benchmarks/cifar.py --data ../shared/data [--runs runs/cifar] [--only 4] [--out benchmarks/results/cifar.json]
    python benchmarks/cifar.py --data ../shared/data --queue audit --out benchmarks/results/cifar-audit.json     # with 1,000 canaries
    python benchmarks/cifar.py --queue digits --runs runs/digits --out benchmarks/results/digits-audit.json      # the same in minutes

Two processes of one thread each. A cell is one `labeldp experiment --dataset …` in a directory of its own; a finished cell is never
repeated, an interrupted one goes on. Noise comes from the operating system, so another run of the queue is another draw.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measuring import machine


@dataclass(frozen=True)
class Cell:
    """One training."""

    dataset: str
    mechanism: str
    epsilon: float | None
    seed: int
    epochs: int = 8
    canaries: int = 0
    model: str = "fast"

    @property
    def name(self) -> str:
        budget = "" if self.epsilon is None else f"-eps{self.epsilon:g}"
        planted = f"-{self.canaries}canaries" if self.canaries else ""
        return f"{self.dataset}-{self.mechanism}{budget}-{self.epochs}epochs-seed{self.seed}{planted}"

    def command(self, data: Path | None, folder: Path) -> list[str]:
        options = {
            "--dataset": self.dataset, "--mechanism": self.mechanism, "--epsilon": self.epsilon, "--seed": self.seed,
            "--epochs": self.epochs, "--model": self.model, "--threads": 1, "--data": data, "--out": folder,
            "--canaries": self.canaries or None, "--candidates": 10 if self.canaries else None,
        }  # fmt: skip
        given = [str(part) for name, value in options.items() if value is not None for part in (name, value)]
        return [sys.executable, "-m", "labeldp", "experiment", *given]


QUEUE = (
    Cell("cifar10", "subset", 1, 0),
    Cell("cifar10", "laplace", 1, 0),
    Cell("cifar10", "subset", 2, 0),
    Cell("cifar10", "laplace", 2, 0),
    Cell("cifar100", "subset", 4, 0),
    Cell("cifar100", "laplace", 4, 0),
    Cell("cifar10", "subset", 1, 1),
    Cell("cifar10", "laplace", 1, 1),
    Cell("cifar10", "subset", 2, 1),
    Cell("cifar10", "laplace", 2, 1),
    Cell("cifar10", "none", None, 0, epochs=38),
)


_AUDITED = (
    ("none", None), ("laplace", 2), ("subset", 2), ("gaussian", 2), ("laplace", 8), ("subset", 8), ("gaussian", 8),
)  # fmt: skip
AUDIT = tuple(Cell("cifar10", mechanism, epsilon, 0, canaries=1000) for mechanism, epsilon in _AUDITED)
# 200 of digits' 1,293 training rows are far more than 2%: for seeing all of it work, not for accuracy.
DIGITS = tuple(Cell("digits", mechanism, epsilon, 0, 100, 200, "mlp") for mechanism, epsilon in _AUDITED)
QUEUES = {"accuracy": QUEUE, "audit": AUDIT, "digits": DIGITS}


def run(cell: Cell, data: Path | None, runs: Path, again: bool = False) -> None:
    folder = runs / cell.name
    if (folder / "summary.json").exists() and not (again and cell.canaries):
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        subprocess.run(cell.command(data, folder), stdout=log, stderr=log, check=True)


def collect(queue: tuple[Cell, ...], runs: Path, out: Path) -> list[str]:
    """Write what is finished; return what is not."""
    done: list[dict[str, Any]] = []
    missing = []
    for cell in queue:
        path = runs / cell.name / "summary.json"
        if path.exists():
            done.append({"cell": vars(cell), **json.loads(path.read_text(encoding="utf-8"))})
        else:
            missing.append(cell.name)
    report = {"machine": machine("torch", "numpy", "labeldp"), "cells": done, "missing": missing}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return missing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="where CIFAR is; digits are bundled")
    parser.add_argument("--runs", type=Path, default=Path("runs/cifar"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/cifar.json"))
    parser.add_argument("--only", type=int, help="the first so many cells")
    parser.add_argument("--queue", choices=list(QUEUES), default="accuracy")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--audit-again", action="store_true", help="audit finished cells anew; nothing is trained again"
    )
    arguments = parser.parse_args()
    queue = QUEUES[arguments.queue]
    with ThreadPoolExecutor(arguments.processes) as pool:
        futures = {
            pool.submit(run, c, arguments.data, arguments.runs, arguments.audit_again): c
            for c in queue[: arguments.only]
        }
        for future in as_completed(futures):
            future.result()
            missing = collect(queue, arguments.runs, arguments.out)
            print(f"{futures[future].name} is done; {len(missing)} cells are missing", flush=True)


if __name__ == "__main__":
    main()

"""README.md's table of what one gets at which ε: from the cells that `labeldp reproduce frontier` has finished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "frontier.json"
BEGIN, END = "<!-- accuracy: written by `make references` -->\n", "<!-- end -->"
OURS, THEIRS, CLEAN = "k-subset", "ALIBI", "no privacy"
DATASET = "cifar10"


def page() -> str:
    """The whole of README.md, its table written anew."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.split(END, 1)[1]}"


def table() -> str:
    """Test accuracy by ε: our default mechanism, ALIBI's noise with the same loss and compute, and no privacy."""
    found: dict[str, dict[str, Any]] = {}  # by ε, and by algorithm; no privacy has no ε
    for row in json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]:
        if row["dataset"] == DATASET and row["accuracy"] is not None:
            found.setdefault(row["level"], {})[row["algorithm"]] = row["accuracy"]
    lines = [
        f"| ε | `labeldp` ({OURS}) | {THEIRS}'s noise, same compute | {CLEAN} |",
        "| --- | --- | --- | --- |",
    ]
    for level, by_algorithm in found.items():
        if OURS in by_algorithm and THEIRS in by_algorithm:
            cells = (_said(by_algorithm[OURS]), _said(by_algorithm[THEIRS]), _said(found.get("", {}).get(CLEAN)))
            lines.append(f"| {level} | {' | '.join(cells)} |")
    return "\n".join(
        [*lines, "", "Test accuracy, mean over n seeds; [all methods, with compute and seconds](docs/results.md).", ""]
    )


def _said(accuracy: dict[str, Any] | None) -> str:
    return "–" if accuracy is None else f"{accuracy['mean']:.1%} (n = {accuracy['n']})"

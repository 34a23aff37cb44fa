"""README.md's table of what one gets at which ε: from the cells that `labeldp reproduce` has finished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SHORT = ROOT / "benchmarks" / "results" / "equal-compute.json"  # 6e13 FLOP
LONGER = ROOT / "benchmarks" / "results" / "frontier.json"
BEGIN, END = "<!-- accuracy: written by `make references` -->\n", "<!-- end -->"
DATASET, CLEAN = "cifar10", "no privacy"
# What a column is called, in which file it is, and under which name.
COLUMNS = (
    ("`labeldp`, 3e14 FLOP", LONGER, "labeldp, 3e14 FLOP"),
    ("ALIBI's noise, 3e14", LONGER, "ALIBI's noise, 3e14 FLOP"),
    ("`labeldp`, 6e13 FLOP", SHORT, "k-subset"),
    ("ALIBI's noise, 6e13", SHORT, "ALIBI"),
)


def page() -> str:
    """The whole of README.md, its table written anew."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.split(END, 1)[1]}"


def table() -> str:
    """Test accuracy by ε: our default mechanism, and ALIBI's noise, with as much compute."""
    found = {file: _accuracies(file) for file in (SHORT, LONGER)}
    levels = sorted({level for _, file, name in COLUMNS for level, of in found[file] if of == name}, key=float)
    lines = [f"| ε | {' | '.join(title for title, *_ in COLUMNS)} |", "| --- " * (len(COLUMNS) + 1) + "|"]
    lines += [
        f"| {level} | {' | '.join(_said(found[file].get((level, name))) for _, file, name in COLUMNS)} |"
        for level in levels
    ]
    clean = _said(found[SHORT].get(("", CLEAN)))
    said = (
        f"Test accuracy, mean over n seeds; without privacy, at 6e13 FLOP: {clean}. [What was proven, measured and spent, and what others "
        "published](docs/results.md); [more methods at equal compute](docs/results-equal-compute.md)."
    )
    return "\n".join([*lines, "", said, ""])


def _accuracies(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """By ε and algorithm."""
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
    return {
        (row["level"], row["algorithm"]): row["accuracy"]
        for row in rows
        if row["dataset"] == DATASET and row["accuracy"] is not None
    }


def _said(accuracy: dict[str, Any] | None) -> str:
    return "–" if accuracy is None else f"{accuracy['mean']:.1%} (n = {accuracy['n']})"

"""How often the limits of an estimated accuracy hold, by enumeration: every sum of scores that there can be, with its exact chance.

    python benchmarks/coverage.py [--out benchmarks/results/coverage.json]

"drawn": rows are drawn, and each is right with probability a. "these": exactly k = a·n of these rows are right. "planted": drawn, with a
share of labels replaced by random ones, and corrected for it. Beside ours stands Wilson's interval with the exact variance, which was
used before. Laws that several settings share (a product's does not depend on the number of classes) are enumerated once.
"""

from __future__ import annotations

import argparse
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from measuring import machine

from labeldp.evaluation.accuracy import AccuracyEstimate
from labeldp.mechanisms import NoPrivacy, StatisticLaw
from labeldp.mechanisms.plan import NAMES, calibrate

EPSILONS = (0.5, 1, 2, 4, 6, 8)
ROWS = (20, 50, 200, 1000)
CLASSES = (2, 3, 10, 100)
ACCURACIES = (*(1 / c for c in reversed(CLASSES)), 0.7, 0.9, 0.95, 0.99, 0.995, 0.999, 1.0)
PLANTED = 0.05
CONFIDENCE, LEAST = 0.95, 0.94
_WIDTHS = 41  # sums at which widths are taken; between them they are interpolated

Floats = npt.NDArray[np.float64]


class Limits:
    """Of every sum, as `AccuracyEstimate` gives them; both ends grow with the sum."""

    def __init__(self, law: StatisticLaw, rows: int, share: float = 0.0, classes: int = 2) -> None:
        self.law, self.rows, self.share, self.classes = law, rows, share, classes
        self.top = law.levels * rows
        self.of = lru_cache(maxsize=None)(self._of)

    def _of(self, total: int) -> tuple[float, float]:
        estimate = AccuracyEstimate(0.0, 0.0, self.rows, self.law, total, self.share, self.classes)
        return estimate.interval(CONFIDENCE)

    def covering(self, accuracy: float) -> tuple[int, int]:
        """The sums from a to b whose limits hold this accuracy."""
        first = _first(0, self.top + 1, lambda t: self.of(t)[1] >= accuracy)
        last = _first(first, self.top + 1, lambda t: self.of(t)[0] > accuracy) - 1
        return first, last

    def mean_width(self, chances: Floats) -> float:
        """Over all sums, each with its chance."""
        inside = np.flatnonzero(chances > 1e-9)
        at = np.unique(np.linspace(inside[0], inside[-1], _WIDTHS).astype(int))
        widths = [self.of(int(t))[1] - self.of(int(t))[0] for t in at]
        return float(np.interp(inside, at, widths) @ chances[inside] / chances[inside].sum())


def _first(low: int, high: int, holds: Any) -> int:
    """The first whole number at which something holds that holds from there on; `high` if it never does."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


class Sums:
    """The exact chances of every sum, by a Fourier transform of full length."""

    def __init__(self, law: StatisticLaw, rows: int) -> None:
        self.rows, self.size = rows, law.levels * rows + 1
        self.true, self.other = (np.fft.rfft(np.array(p), self.size) for p in (law.true, law.other))

    def drawn(self, accuracy: float) -> Floats:
        return self._back((accuracy * self.true + (1 - accuracy) * self.other) ** self.rows)

    def these(self, right: int) -> Floats:
        return self._back(self.true**right * self.other ** (self.rows - right))

    def _back(self, spectrum: npt.NDArray[np.complex128]) -> Floats:
        return np.maximum(np.fft.irfft(spectrum, self.size), 0.0)


def wilson(law: StatisticLaw, rows: int) -> tuple[Floats, Floats]:
    """The interval of earlier versions, for every sum."""
    k, gap = 1.959964**2 / rows, law.gap
    seen = (np.arange(law.levels * rows + 1) / (law.levels * rows) - law.mean_other) / gap
    a = (1 + k) * gap**2
    b = -2 * seen * gap**2 - k * (law.variance_true - law.variance_other + gap**2)
    c = seen**2 * gap**2 - k * law.variance_other
    root = np.sqrt(np.maximum(0.0, b * b - 4 * a * c))
    spare = 1e-9  # for rounding
    return np.clip((-b - root) / (2 * a) - spare, 0, 1), np.clip((-b + root) / (2 * a) + spare, 0, 1)


def laws() -> dict[StatisticLaw, dict[str, Any]]:
    found: dict[StatisticLaw, dict[str, Any]] = {}
    for name in NAMES:
        for epsilon in EPSILONS:
            for classes in CLASSES:
                law = calibrate(name, epsilon=epsilon, num_classes=classes).law()
                found.setdefault(law, {"mechanism": name, "epsilon": epsilon, "classes": classes})
    found.setdefault(NoPrivacy(2).law(), {"mechanism": "none", "epsilon": None, "classes": 2})
    return found


def cells(law: StatisticLaw, rows: int) -> list[dict[str, Any]]:
    """Every accuracy, drawn and of these rows; with planted labels where rows are few."""
    limits, sums, (low, high) = Limits(law, rows), Sums(law, rows), wilson(law, rows)
    made: list[dict[str, Any]] = []
    middle = np.arange(limits.top + 1) / limits.top
    possible = (middle >= law.mean_other) & (middle <= law.mean_true)  # the unbiased estimate is from 0 to 1
    for accuracy in ACCURACIES:
        right = round(accuracy * rows)
        for what, chances, true in (
            ("drawn", sums.drawn(accuracy), accuracy),
            ("these", sums.these(right), right / rows),
        ):
            # Half-way between two counts there is no accuracy of these rows, but for the ends.
            if what == "these" and abs(right / rows - accuracy) > 0.5 / rows - 1e-12 and right not in (0, rows):
                continue
            first, last = limits.covering(true)
            cell = {
                "what": what,
                "accuracy": true,
                "coverage": float(chances[first : last + 1].sum()),
                "coverage_before": float(chances[(low <= true) & (true <= high)].sum()),
            }
            if what == "drawn":
                seen = chances * possible
                cell |= {
                    "width": limits.mean_width(chances),
                    "width_before": float((high - low) @ chances / chances.sum()),
                    "width_possible": limits.mean_width(seen) if (seen > 1e-9).any() else None,
                    "width_possible_before": float((high - low) @ seen / max(seen.sum(), 1e-300)),
                }
            made.append(cell)
    for classes in CLASSES if rows in (50, 200) else ():
        corrected = Limits(law, rows, PLANTED, classes)
        for accuracy in ACCURACIES:
            chances = sums.drawn((1 - PLANTED) * accuracy + PLANTED / classes)
            first, last = corrected.covering(accuracy)
            held = float(chances[first : last + 1].sum())
            made.append({"what": "planted", "accuracy": accuracy, "planted_classes": classes, "coverage": held})
    return made


def summed_up(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each mechanism the least coverage, ours and before, and how our widths compare where the earlier intervals held too.

    "width_possible" is over sums whose unbiased estimate is an accuracy. For others the earlier intervals were shorter, down to a point.
    """
    rows = []
    for name in dict.fromkeys(cell["mechanism"] for cell in made):
        mine = [cell for cell in made if cell["mechanism"] == name]
        least = {}
        for what in ("drawn", "these", "planted"):
            for key in ("coverage", "coverage_before"):
                known = [cell[key] for cell in mine if cell["what"] == what and key in cell]
                least |= {f"{key}_{what}": min(known)} if known else {}
        held = [cell for cell in mine if cell["what"] == "drawn" and cell["coverage_before"] >= LEAST]
        rows.append({
            "mechanism": name, "cells": len(mine), **least,
            "drawn_cells_where_it_held_before": len(held),
            "drawn_cells_where_it_did_not": sum(cell["what"] == "drawn" for cell in mine) - len(held),
            **{
                f"{width}_to_before": {
                    str(n): float(np.mean([c[width] / c[f"{width}_before"] for c in held if c["rows"] == n and c[width]])) for n in ROWS
                }
                for width in ("width", "width_possible")
            },
        })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/coverage.json"))
    out = parser.parse_args().out
    made = []
    for law, about in laws().items():
        for rows in ROWS:
            made += [{**about, "rows": rows, **cell} for cell in cells(law, rows)]
        print(about, min(cell["coverage"] for cell in made))
    worst = min(made, key=lambda cell: cell["coverage"])
    data = {
        "settings": {
            "epsilons": EPSILONS, "rows": ROWS, "classes": CLASSES, "accuracies": ACCURACIES, "planted": PLANTED,
            "confidence": CONFIDENCE, "least": LEAST,
        },
        "cells": len(made), "least_coverage": worst, "met": worst["coverage"] >= LEAST,
        "least_coverage_before": min((cell for cell in made if "coverage_before" in cell), key=lambda cell: cell["coverage_before"]),
        "mechanisms": summed_up(made), "machine": machine(),
    }  # fmt: skip
    out.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Accuracy against something, as SVG. matplotlib is an extra: where it is missing, a report does without its figures, and says so."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_FIGURES = 'Figures are left out: they are drawn by matplotlib, an extra (pip install "labeldp[figures]").'
# Okabe and Ito's colours, safe for the colour-blind; markers tell the rest apart.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")


@dataclass(frozen=True)
class Line:
    """A method's points: where, and one value a seed. A point at None is a level without a place: a dotted line."""

    name: str
    points: tuple[tuple[float | None, list[float]], ...]


@dataclass(frozen=True)
class Chart:
    """Test accuracies of so many rows, and below them, where there is one, a second line on the same axis."""

    across: str
    test_rows: int
    lines: tuple[Line, ...]
    below: Line | None = None

    def draw(self, file: Path) -> bool:
        """Means over seeds, with bars of two standard errors of the test set. False if there is nothing to draw."""
        if not any(line.points for line in self.lines):
            return False
        from matplotlib import style
        from matplotlib.figure import Figure

        from labeldp.audit.figure import save_figure

        with style.context(["default", {"font.size": 9, "svg.hashsalt": "labeldp"}]):
            figure = Figure(figsize=(6.4, 4 if self.below is None else 5.2), layout="constrained")
            if self.below is None:
                lowest = top = figure.subplots()
            else:
                top, lowest = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
                _plot(lowest, self.below.points, color=_COLORS[1], marker="s")
                lowest.set_ylabel(self.below.name)
                lowest.grid(alpha=0.3)
            for number, line in enumerate(self.lines):
                _draw(top, line, number, self.test_rows)
            top.set_title("bars: ±2 standard errors of the test set", fontsize=8, loc="right")
            top.set_ylabel("test accuracy (%)")
            top.grid(alpha=0.3)
            if len(self.lines) > 1:
                top.legend(fontsize=7)
            lowest.set_xlabel(self.across)
        file.parent.mkdir(parents=True, exist_ok=True)
        save_figure(figure, file)
        return True


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def _draw(axes: Axes, line: Line, number: int, test_rows: int) -> None:
    color, marker = _COLORS[number % len(_COLORS)], _MARKERS[number % len(_MARKERS)]
    for x, values in line.points:
        if x is None:
            axes.axhline(100 * statistics.fmean(values), color=color, linestyle=":", label=line.name)
    placed = sorted((x, statistics.fmean(values)) for x, values in line.points if x is not None)
    if placed:
        bars = [200 * math.sqrt(y * (1 - y) / test_rows) for _, y in placed]
        axes.errorbar(
            [x for x, _ in placed], [100 * y for _, y in placed], bars, color=color, marker=marker, markersize=4,
            linewidth=1, capsize=2, label=line.name,
        )  # fmt: skip


def _plot(axes: Axes, points: Sequence[tuple[float | None, list[float]]], color: str, marker: str) -> None:
    placed = sorted((x, max(values)) for x, values in points if x is not None and values)
    axes.plot([x for x, _ in placed], [y for _, y in placed], color=color, marker=marker, markersize=4, linewidth=1)
    axes.set_ylim(bottom=0)

"""What a name stands for at a scale: rows, their cells in the order in which they are worth running, and what must be said beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labeldp.reproduce.cells import Cell
from labeldp.reproduce.papers import NOTHING, PateRow, Published
from labeldp.reproduce.report import Sheet
from labeldp.reproduce.results import Result

TITLES = {"digits": "digits", "fashion": "Fashion-MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
TEST_ROWS = {"digits": 360, "fashion": 10_000, "cifar10": 10_000, "cifar100": 10_000}

Results = Mapping[str, Result]


@dataclass(frozen=True)
class Row:
    """A row of a table: a cell for each seed, and what was published."""

    dataset: str
    level: str
    algorithm: str
    cells: tuple[Cell, ...]
    paper: Published = NOTHING
    apart: tuple[tuple[Cell, ...], ...] = ()  # for each seed, repetitions with fewer canaries each
    pate: PateRow | None = None

    @property
    def title(self) -> str:
        """The data set, as people write it."""
        return TITLES[self.dataset]

    def every_cell(self) -> tuple[Cell, ...]:
        """Those for the row itself first."""
        return (*self.cells, *(cell for part in self.apart for cell in part))


@dataclass(frozen=True)
class Drawing:
    """A figure: its file's suffix, what it shows, and who draws it into a file. It may find that there is nothing to draw yet."""

    suffix: str
    alt: str
    draw: Callable[[Results, Path], bool]


@dataclass(frozen=True)
class Plan:
    """A table or figure at a scale."""

    name: str
    scale: str
    title: str
    rows: tuple[Row, ...]
    layout: Callable[[Plan, Results], list[Sheet]]
    notes: tuple[str, ...]
    queue: tuple[Cell, ...] = ()  # where the order matters; else row by row
    drawings: tuple[Drawing, ...] = ()
    beside: Callable[[Plan, Results], Any] = field(default=lambda plan, results: None)  # more for the JSON file

    def cells(self) -> tuple[Cell, ...]:
        """Each once, in order."""
        order = self.queue or tuple(cell for row in self.rows for cell in row.every_cell())
        return tuple({cell.name: cell for cell in order}.values())

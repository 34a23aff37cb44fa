"""figure1: the canary violins of ALIBI and PATE, from Table 1's own cells of the row that the paper draws."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from labeldp.reproduce.cells import Cell
from labeldp.reproduce.notes import INTERVAL, PATE_NOTES, READING, SCALE_NOTES
from labeldp.reproduce.papers import TABLE1
from labeldp.reproduce.plan import Drawing, Plan, Results, Row
from labeldp.reproduce.sheets import usual
from labeldp.reproduce.tables import alibi, pate, stand_in


def figure1(scale: str, seeds: int) -> Plan:
    """CIFAR-100, high accuracy; at smoke, digits at the ε of CIFAR-10's high accuracy. The first seed is drawn."""
    key = ("cifar10" if scale == "smoke" else "cifar100", "high")
    name = "PATE-FM" if scale == "paper" else "PATE, frozen teachers"
    made = (("ALIBI", alibi, "ALIBI"), (name, pate, "PATE-FM"))
    rows = tuple(
        Row(stand_in(scale, key[0]), key[1], title, tuple(make(scale, key, seed) for seed in range(seeds)), TABLE1[key][paper])
        for title, make, paper in made
    )  # fmt: skip
    drawings = tuple(
        Drawing(suffix, f"Right and wrong guesses of canaries by confidence: {row.algorithm} on {row.title}", _drawer(row.cells[0], row))
        for suffix, row in zip(("alibi", "pate"), rows, strict=True)
    )  # fmt: skip
    said = (
        "Each wrong canary's planted label is compared with every other wrong label; a guess is right if the model is "
        "surer of the planted one. The paper draws CIFAR-100 at high accuracy. `labeldp audit CELL/memorized.npz --method "
        "paper --figure …` draws the same."
    )
    notes = (said, READING, INTERVAL, SCALE_NOTES[scale], PATE_NOTES[scale])
    title = "Figure 1: what ALIBI and PATE memorise"
    return Plan("figure1", scale, title, rows, usual, notes, drawings=drawings)


def _drawer(cell: Cell, row: Row) -> Callable[[Results, Path], bool]:
    def draw(results: Results, file: Path) -> bool:
        from labeldp.audit.figure import memorization_figure, save_figure
        from labeldp.reproduce.memorized import MEMORIZED, read

        if cell.name not in results or not (results[cell.name].folder / MEMORIZED).exists():
            return False
        arrays = read(results[cell.name].folder / MEMORIZED)
        title = f"{row.algorithm} ({row.title}, {row.level})"
        save_figure(
            memorization_figure(arrays["confidences"], arrays["true_label"], arrays["canary_label"], title=title), file
        )
        return True

    return draw

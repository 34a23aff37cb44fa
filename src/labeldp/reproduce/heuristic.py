"""table-heuristic: does planting many canaries in one training measure what several trainings with few each do?

The column of one training is Table 1's own ALIBI cells; the other is a number of trainings alike, each with its share of the canaries.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

from labeldp.reproduce.cells import Cell
from labeldp.reproduce.methods import PAPER_CANARIES, SHORT, from_preset, trained
from labeldp.reproduce.notes import ALIBI_NOTES, INTERVAL, SCALE_NOTES
from labeldp.reproduce.papers import HEURISTIC, TABLE1
from labeldp.reproduce.plan import Plan, Results, Row
from labeldp.reproduce.report import MISSING, Sheet
from labeldp.reproduce.results import Interval, found
from labeldp.reproduce.sheets import accuracy, interval_text, missing_note
from labeldp.reproduce.tables import alibi, keys, stand_in

COLUMNS = (
    "data set", "level", "paper: 1,000 labels", "paper: 10 × 100 labels", "ε", "one training", "as many canaries in several",
    "do they overlap?", "accuracy, one", "accuracy, several (mean ± std)",
)  # fmt: skip


def table_heuristic(scale: str, seeds: int) -> Plan:
    """The paper's check of its own heuristic, against ALIBI."""
    times = 5 if scale == "smoke" else 10
    canaries = PAPER_CANARIES if scale == "paper" else SHORT[scale][2]
    rows = []
    for key in keys(scale, dict(HEURISTIC)):
        apart = tuple(
            tuple(_repetition(scale, key, seed, (number, times), canaries // times) for number in range(times))
            for seed in range(seeds)
        )
        cells = tuple(alibi(scale, key, seed) for seed in range(seeds))
        paper = replace(TABLE1[key]["ALIBI"], apart=HEURISTIC[key])
        rows.append(Row(stand_in(scale, key[0]), key[1], "ALIBI", cells, paper, apart))
    said = (
        f"{canaries:,} canaries in one training, against {times} trainings of {canaries // times} each, from seeds and "
        "plantings of their own, whose canaries are laid end to end. `labeldp audit-heuristic` makes the same comparison "
        "by one command; here one training is Table 1's cell, and all have its recipe."
    )
    notes = (INTERVAL, said, SCALE_NOTES[scale], ALIBI_NOTES[scale])
    title = "The heuristic: one training with many canaries, or several with few"
    return Plan("table-heuristic", scale, title, tuple(rows), _sheets, notes, beside=_beside)


def _repetition(scale: str, key: tuple[str, str], seed: int, repetition: tuple[int, int], canaries: int) -> Cell:
    dataset, level = key
    epsilon = TABLE1[key]["ALIBI"].epsilon
    if scale == "paper":
        return from_preset(
            f"alibi-{dataset}-{level}", f"alibi-eps{epsilon:g}", dataset, "alibi", epsilon, seed, canaries=canaries, repetition=repetition
        )  # fmt: skip
    return trained(
        scale, stand_in(scale, dataset), "alibi", epsilon, seed, canaries=canaries, repetition=repetition
    )  # fmt: skip


def _sheets(plan: Plan, results: Results) -> list[Sheet]:
    lines = []
    for row in plan.rows:
        for seed, cell in enumerate(row.cells):
            one, several = found([cell], results), found(row.apart[seed], results)
            together, apart = _both(row, seed, results)
            lines.append((
                row.title, row.level if len(row.cells) == 1 else f"{row.level}, seed {seed}", _range(row.paper.measured),
                _range(row.paper.apart), f"{row.paper.epsilon:g}", _text(together), _text(apart), _overlap(together, apart),
                accuracy(one), accuracy(several),
            ))  # fmt: skip
    return [Sheet(plan.title, COLUMNS, tuple(lines), headers=2, notes=missing_note(plan.rows, results))]


def _both(row: Row, seed: int, results: Results) -> tuple[Interval | None, Interval | None]:
    """The paper's interval from one training, and over the canaries of all the others, once all of them are there."""
    from labeldp.reproduce.memorized import MEMORIZED, interval, read

    one, several = found([row.cells[seed]], results), found(row.apart[seed], results)
    files = [result.folder / MEMORIZED for result in several]
    whole = len(files) == len(row.apart[seed]) and all(file.exists() for file in files)
    return one[0].interval if one else None, Interval(**interval([read(file) for file in files])) if whole else None


def _overlap(one: Interval | None, other: Interval | None) -> str:
    if one is None or other is None:
        return MISSING
    if any(i.low == 0 and i.high is None for i in (one, other)):
        return "one says nothing: the model is sure of too few canaries"
    ends = [(i.low, math.inf if i.high is None else i.high) for i in (one, other)]
    return "yes" if max(low for low, _ in ends) <= min(high for _, high in ends) else "no"


def _text(interval: Interval | None) -> str:
    return MISSING if interval is None else interval_text(interval)


def _range(ends: tuple[float, float] | None) -> str:
    return MISSING if ends is None else f"{ends[0]:.1f} to {ends[1]:.1f}"


def _beside(plan: Plan, results: Results) -> list[dict[str, Any]]:
    """Both intervals of each row, for programs."""
    rows = []
    for row in plan.rows:
        for seed in range(len(row.cells)):
            together, apart = (None if i is None else asdict(i) for i in _both(row, seed, results))
            rows.append(
                {"dataset": row.dataset, "level": row.level, "seed": seed, "together": together, "apart": apart}
            )
    return rows

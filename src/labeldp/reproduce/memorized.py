"""The paper's memorization attack on a finished cell, from fairly drawn canaries.

A fair canary's label is drawn from all classes without looking at the truth. Given that it is wrong, it is therefore uniform among the
wrong labels: the paper's planting (Game 3). So the paper's interval is taken over the canaries whose label happens to be wrong, about
(C−1)/C of them. Which these are only someone who has the true labels can say: public benchmarks', here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from labeldp.audit.canaries import Canaries
from labeldp.audit.measure import audit_paper
from labeldp.data.bundled import load
from labeldp.errors import InputError
from labeldp.files.atomic import place_file
from labeldp.files.run import RunFolder
from labeldp.private import PrivateLabels
from labeldp.reproduce.cells import Cell
from labeldp.reproduce.methods import PAPER_CANARIES, SHORT, from_preset, trained
from labeldp.reproduce.page import accuracy, interval_text, missing_note, usual
from labeldp.reproduce.papers import HEURISTIC, TABLE1
from labeldp.reproduce.plan import (
    ALIBI_NOTES,
    INTERVAL,
    MISSING,
    PATE_NOTES,
    READING,
    SCALE_NOTES,
    Figure,
    Interval,
    Reproduction,
    Results,
    Row,
    Sheet,
    found,
)
from labeldp.reproduce.tables import alibi, keys, pate, stand_in


def memorized(folder: Path, dataset: str, data: Path | None) -> dict[str, npt.NDArray[Any]] | None:
    """`confidences`, `true_label`, `canary_label` of a cell's wrong canaries, as `labeldp audit --method paper` takes them.

    Written once, beside the run. None where nothing was planted, or the data set's files are not here.
    """
    path = RunFolder(folder).memorized
    if not path.exists():
        planted = RunFolder(folder).planted()
        if planted is None:
            return None
        secret, said = planted
        try:
            canaries = Canaries.load(secret)
            true = canaries.truth(_labels(dataset, data))
        except InputError:
            return None
        wrong = canaries.planted != true
        if not wrong.any():
            return None
        confidences = np.load(said, mmap_mode="r", allow_pickle=False)[canaries.rows[wrong]]
        arrays = {
            "confidences": np.asarray(confidences, np.float32),
            "true_label": true[wrong],
            "canary_label": canaries.planted[wrong],
        }
        place_file(path, lambda file: np.savez_compressed(file, **arrays), private=True)
    return read(path)


def read(path: Path) -> dict[str, npt.NDArray[Any]]:
    """As written."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def interval(parts: list[dict[str, npt.NDArray[Any]]]) -> dict[str, Any]:
    """The paper's interval over several models' canaries, laid end to end."""
    whole = (np.concatenate([part[name] for part in parts]) for name in ("confidences", "true_label", "canary_label"))
    found = audit_paper(*whole).to_json()
    return {
        "low": found["epsilon_low"],
        "high": found["epsilon_high"],
        "canaries": sum(len(p["true_label"]) for p in parts),
    }


@lru_cache(maxsize=4)
def _labels(dataset: str, data: Path | None) -> PrivateLabels:
    return load(dataset, data).labels


# ----------------------------------------------------------------
# figure1: the canary violins of ALIBI and PATE, from Table 1's own cells of the row that the paper draws.


def figure1(scale: str, seeds: int) -> Reproduction:
    """CIFAR-100, high accuracy; at smoke, digits at the ε of CIFAR-10's high accuracy. The first seed is drawn."""
    key = ("cifar10" if scale == "smoke" else "cifar100", "high")
    name = "PATE-FM" if scale == "paper" else "PATE, frozen teachers"
    made = (("ALIBI", alibi, "ALIBI"), (name, pate, "PATE-FM"))
    rows = tuple(
        Row(stand_in(scale, key[0]), key[1], title, tuple(make(scale, key, seed) for seed in range(seeds)), TABLE1[key][paper])
        for title, make, paper in made
    )  # fmt: skip
    drawings = tuple(
        Figure(suffix, f"Right and wrong guesses of canaries by confidence: {row.algorithm} on {row.title}", _drawer(row.cells[0], row))
        for suffix, row in zip(("alibi", "pate"), rows, strict=True)
    )  # fmt: skip
    said = (
        "Each wrong canary's planted label is compared with every other wrong label; a guess is right if the model is "
        "surer of the planted one. The paper draws CIFAR-100 at high accuracy. `labeldp audit CELL/memorized.npz --method "
        "paper --figure …` draws the same."
    )
    notes = (said, READING, INTERVAL, SCALE_NOTES[scale], PATE_NOTES[scale])
    title = "Figure 1: what ALIBI and PATE memorise"
    return Reproduction("figure1", scale, title, rows, usual, notes, drawings=drawings)


def _drawer(cell: Cell, row: Row) -> Callable[[Results, Path], bool]:
    def draw(results: Results, file: Path) -> bool:
        from labeldp.audit.violins import memorization_figure, save_figure

        if cell.name not in results or not RunFolder(results[cell.name].folder).memorized.exists():
            return False
        arrays = read(RunFolder(results[cell.name].folder).memorized)
        title = f"{row.algorithm} ({row.title}, {row.level})"
        save_figure(
            memorization_figure(arrays["confidences"], arrays["true_label"], arrays["canary_label"], title=title), file
        )
        return True

    return draw


# ----------------------------------------------------------------
# table-heuristic: does planting many canaries in one training measure what several trainings with few each do?
#
# The column of one training is Table 1's own ALIBI cells; the other is a number of trainings alike, each with its share of the canaries.

COLUMNS = (
    "data set", "level", "paper: 1,000 labels", "paper: 10 × 100 labels", "ε", "one training", "as many canaries in several",
    "do they overlap?", "accuracy, one", "accuracy, several (mean ± std)",
)  # fmt: skip


def table_heuristic(scale: str, seeds: int) -> Reproduction:
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
    return Reproduction("table-heuristic", scale, title, tuple(rows), _sheets, notes, beside=_beside)


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


def _sheets(plan: Reproduction, results: Results) -> list[Sheet]:
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

    one, several = found([row.cells[seed]], results), found(row.apart[seed], results)
    files = [RunFolder(result.folder).memorized for result in several]
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


def _beside(plan: Reproduction, results: Results) -> list[dict[str, Any]]:
    """Both intervals of each row, for programs."""
    rows = []
    for row in plan.rows:
        for seed in range(len(row.cells)):
            together, apart = (None if i is None else asdict(i) for i in _both(row, seed, results))
            rows.append(
                {"dataset": row.dataset, "level": row.level, "seed": seed, "together": together, "apart": apart}
            )
    return rows

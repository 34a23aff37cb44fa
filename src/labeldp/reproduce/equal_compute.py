"""All methods at the same ε, with the same model, compute and seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from labeldp.reproduce.cells import Cell
from labeldp.reproduce.methods import ALGORITHMS, ENSEMBLES, from_preset, frozen, trained
from labeldp.reproduce.page import missing_note, ours
from labeldp.reproduce.papers import FRONTIER, FRONTIER100
from labeldp.reproduce.plan import (
    INTERVAL,
    MISSING,
    READING,
    SCALE_NOTES,
    TEST_ROWS,
    TITLES,
    Figure,
    Reproduction,
    Results,
    Row,
    Sheet,
    found,
)
from labeldp.reproduce.tables import nearest_preset

METHODS = (
    "alibi", "subset", "response", "lp-2st-hard", "lp-2st-evidence", "subset-2st", "min-projection", "agibi",
)  # fmt: skip
_HUNDRED = ("alibi", "subset", "lp-2st-hard", "lp-2st-evidence", "subset-2st")
# What is subtracted from what, and why anybody would want to know.
PAIRS = (
    ("subset", "alibi", "the more informative mechanism against ALIBI's noise"),
    ("subset-2st", "subset", "two stages against one, at the same compute"),
    (
        "lp-2st-evidence",
        "lp-2st-hard",
        "the same mechanism in two stages, its releases read as evidence against taken at their word",
    ),
)
COLUMNS = (
    "algorithm", "published", "accuracy, mean ± std over seeds", "certificate ε", "measured ε, sees the model",
    "measured ε, sees the release", "ε_m, the paper's interval", "FLOP", "seconds",
)  # fmt: skip


def equal_compute(scale: str, seeds: int | None) -> Reproduction:
    """All of it. Without a number of seeds: those of the queue that we ran, most telling cells first."""
    queue = tuple(_queue(scale, seeds))
    rows: dict[tuple[str, float | None, str], list[Cell]] = {}
    for cell in queue:
        rows.setdefault((cell.dataset, cell.epsilon, cell.method), []).append(cell)
    made = tuple(
        Row(dataset, "" if epsilon is None else f"{epsilon:g}", ALGORITHMS[method], tuple(cells))
        for (dataset, epsilon, method), cells in rows.items()
    )
    notes = (
        READING,
        INTERVAL,
        "An interval that ends at ∞ has no wrong guess among its surest. How much canaries can show is limited by their number: the most "
        "stands in the row without privacy. Seconds are of machines that did other things too, and are not compared.",
        SCALE_NOTES[scale],
        "Within a data set all trainings have the same model and rows, and as many FLOP at most: methods of two stages "
        "train three quarters of the epochs on half of the rows and five eighths on all. LP-2ST as evidence takes fewer: "
        "rows with a single candidate tell nothing, and are left out. PATE is another matter: central trust, linear "
        "teachers on features learned from the images alone (which is not in its FLOP), and a student on those features. No "
        "canaries are planted in it here; table1 has that.",
        "Published are percentages of others' models and compute: ALIBI of Malek et al. (Wide-ResNet, 200 epochs; "
        "CIFAR-100: ResNet-18), LP-1ST and LP-2ST of Ghazi et al.",
    )
    drawings = tuple(
        Figure(name, f"{TITLES[name]}: test accuracy against ε", _drawer(name, made))
        for name in dict.fromkeys(row.dataset for row in made)
    )
    return Reproduction(
        "equal-compute", scale, "Accuracy at equal ε and compute", made, _sheets, notes, queue, drawings, differences,
        (("tables, with linear models, mlp and LightGBM", "results-tables.md"),),
    )  # fmt: skip


def _queue(scale: str, seeds: int | None) -> Iterator[Cell]:
    if scale == "smoke":
        for seed in range(seeds or 1):
            yield from (_trained(scale, "digits", method, 2.0, seed) for method in METHODS)
            yield trained(scale, "digits", "none", None, seed)
            yield frozen("digits", ENSEMBLES["digits"], 2.0, seed)
        return
    first, pate = (1.0, 2.0), scale == "cpu"
    for seed in range(seeds or 2):
        yield from (_trained(scale, "cifar10", method, epsilon, seed) for epsilon in first for method in METHODS)
        yield _trained(scale, "cifar10", "none", None, seed)
        if pate:
            yield from (frozen("cifar10", ENSEMBLES["cifar10"], epsilon, seed) for epsilon in first)
        if seeds is not None or seed == 0:
            yield from (_trained(scale, "cifar10", method, 4.0, seed) for method in METHODS)
            if pate:
                yield frozen("cifar10", ENSEMBLES["cifar10"], 4.0, seed)
    for seed in range(seeds or 1):
        yield from (_trained(scale, "cifar100", method, 4.0, seed) for method in _HUNDRED)


def _trained(scale: str, dataset: str, method: str, epsilon: float | None, seed: int) -> Cell:
    if scale != "paper":
        return trained(scale, dataset, method, epsilon, seed)
    staged: dict[str, Any] = {}
    if method in ("lp-2st-hard", "lp-2st-evidence", "subset-2st"):
        staged = {"stages": 2, "stage_epochs": 150, "epochs": 125}
    name = method if epsilon is None else f"{method}-eps{epsilon:g}"
    return from_preset(nearest_preset(dataset, epsilon or 8.0), name, dataset, method, epsilon, seed, **staged)


# ── what is shown ──


def _sheets(plan: Reproduction, results: Results) -> list[Sheet]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in plan.rows:
        groups.setdefault((row.dataset, row.level), []).append(row)
    sheets = []
    for (dataset, level), rows in groups.items():
        if level == "":
            continue
        whole = (*rows, *groups.get((dataset, ""), ()))
        lines = [(row.algorithm, _published(row), *ours(found(row.cells, results))) for row in whole]
        caption = f"{TITLES[dataset]}, ε = {level}"
        notes = (*_difference_lines(plan, results, dataset, float(level)), *missing_note(whole, results))
        sheets.append(Sheet(caption, COLUMNS, tuple(lines), notes=notes))
    return sheets


def _published(row: Row) -> str:
    cell = row.cells[0]
    said = {"cifar10": FRONTIER, "cifar100": FRONTIER100}.get(row.dataset, {})
    return said.get(cell.epsilon or 0.0, {}).get(cell.method, MISSING)


def differences(plan: Reproduction, results: Results) -> list[dict[str, Any]]:
    """Of each pair at each ε, over the seeds that both have."""
    by_key = {(row.dataset, row.cells[0].epsilon, row.cells[0].method): row for row in plan.rows}
    found_all = []
    for (dataset, epsilon, method), row in by_key.items():
        for first, second, _ in PAIRS:
            other = by_key.get((dataset, epsilon, second))
            if method == first and other is not None:
                found_all.append(_difference(dataset, epsilon, (first, second), row, other, results))
    return [one for one in found_all if one is not None]


def _difference(
    dataset: str, epsilon: float | None, names: tuple[str, str], one: Row, other: Row, results: Results
) -> dict[str, Any] | None:
    pairs = []
    for mine, theirs in zip(one.cells, other.cells, strict=True):
        if mine.name in results and theirs.name in results:
            a, b = results[mine.name].accuracy, results[theirs.name].accuracy
            if a is not None and b is not None:
                pairs.append((a, b))
    if not pairs:
        return None
    n, rows = len(pairs), TEST_ROWS[dataset]
    a, b = (sum(pair[k] for pair in pairs) / n for k in (0, 1))
    gaps = [first - second for first, second in pairs]
    seeds = math.sqrt(sum((gap - (a - b)) ** 2 for gap in gaps) / (n - 1) / n) if n > 1 else None
    return {
        "dataset": dataset, "epsilon": epsilon, "methods": list(names), "difference": a - b, "n": n,
        "error_test_rows": math.sqrt((a * (1 - a) + b * (1 - b)) / rows), "error_seeds": seeds,
    }  # fmt: skip


def _difference_lines(plan: Reproduction, results: Results, dataset: str, epsilon: float) -> Iterator[str]:
    why = {(first, second): text for first, second, text in PAIRS}
    for one in differences(plan, results):
        if (one["dataset"], one["epsilon"]) == (dataset, epsilon):
            first, second = one["methods"]
            seeds = (
                ""
                if one["error_seeds"] is None
                else f"; standard error over {one['n']} paired seeds {100 * one['error_seeds']:.2f}"
            )
            yield (
                f"{ALGORITHMS[first]} − {ALGORITHMS[second]} ({why[first, second]}): {100 * one['difference']:+.2f} "
                f"points; standard error {100 * one['error_test_rows']:.2f} (test-set sampling only, as if the two had "
                f"been tested on different rows){seeds}."
            )


def _drawer(dataset: str, rows: tuple[Row, ...]) -> Any:
    def draw(results: Results, file: Path) -> bool:
        from labeldp.reproduce.page import Chart, Line

        lines = []
        for method, name in ALGORITHMS.items():
            points = [
                (row.cells[0].epsilon, [r.accuracy for r in found(row.cells, results) if r.accuracy is not None])
                for row in rows
                if row.dataset == dataset and row.cells[0].method == method
            ]
            known = [(epsilon, values) for epsilon, values in points if values]
            if known:
                lines.append(Line(name, tuple(known)))
        return Chart("ε", TEST_ROWS[dataset], tuple(lines)).draw(file)

    return draw

"""The frontier: test accuracy against ε, ours at three budgets of compute, ALIBI's noise at the same, and what others have published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from labeldp.reproduce.cells import Cell, options
from labeldp.reproduce.methods import trained
from labeldp.reproduce.page import Chart, Line, missing_note, ours
from labeldp.reproduce.papers import CURVES, NOISY_LABELS, NOISY_RATES
from labeldp.reproduce.plan import (
    MISSING,
    READING,
    TEST_ROWS,
    TITLES,
    Figure,
    Reproduction,
    Results,
    Row,
    Sheet,
    Spread,
    found,
)

CANARIES, CANDIDATES = 500, 10
# What training consists of, by budget; chosen at ε = 1 by the likelihood of held-out released labels. ALIBI's noise has the paper's loss,
# and as many FLOP: consistency is a third of an epoch more.
_HELD_BACK = {"average": 0.99, "randaugment": 1, "cutout": 8, "consistency": 0.5, "strong_from": 0.5, "select": "best"}
OURS: dict[str, dict[str, Any]] = {
    "3e14": {"model": "fast-medium", "epochs": 20, **_HELD_BACK},
    "1e15": {"model": "fast-wide", "epochs": 26, **_HELD_BACK},
}
THEIRS: dict[str, dict[str, Any]] = {
    "3e14": {"model": "fast-medium", "epochs": 22, "average": 0.99, "select": "best"},
    "1e15": {"model": "fast-wide", "epochs": 31, "average": 0.99, "select": "best"},
}
SHORT = "6e13"
NAMES = {"subset": "labeldp", "alibi": "ALIBI's noise"}
_MECHANISMS = {"subset": "subset", "alibi": "laplace"}
# Data set, budget, levels of ε, seeds: the most telling first.
GRID: tuple[tuple[str, str, tuple[float, ...], int], ...] = (
    ("cifar10", "3e14", (1.0, 2.0), 1),
    ("cifar10", SHORT, (1.0, 2.0, 4.0, 0.5, 8.0), 1),
    ("cifar10", "3e14", (0.5, 4.0), 1),
    ("cifar10", "1e15", (1.0, 2.0), 1),
    ("cifar100", "3e14", (4.0, 8.0), 1),
    ("cifar10", "3e14", (1.0, 2.0, 0.5, 4.0), 2),
    ("cifar10", SHORT, (1.0, 2.0, 4.0, 0.5, 8.0), 3),
)
SMOKE_EPSILONS = (1.0, 2.0)

NOTES = (
    READING,
    "FLOP are those of training, everything included. The recipe of the longer budgets was chosen at ε = 1 by the "
    "likelihood of released labels that were held out (it costs no privacy), on rows that do "
    "not report; test labels were looked at once, for this page. Of the longer budgets the epoch is "
    "chosen in the same way, for ALIBI's noise, too.",
    "labeldp is k-subset selection, local and pure. At 6e13 FLOP: the model `fast`, 8 epochs. From 3e14 on: wider, longer, and in the "
    "second half of the epochs with strong views and consistency with the averaged weights. ALIBI's noise is Laplace, with the "
    "paper's loss, the same networks and the same FLOP.",
    "Grey are others' numbers, with their models and compute (a ResNet for 200 epochs is 2e16 to 4e17 FLOP): most of them are the best "
    "epoch by clean test labels. Symmetric label noise of rate r over C classes is randomized response at ε = log(1 + C(1 − r)/r), so that "
    "the literature on noisy labels is one on pure label-DP, which no paper on label-DP quotes.",
)
SMOKE = "Scale smoke: scikit-learn's digits and an mlp. It shows that everything works, and nothing else."


def frontier(scale: str, seeds: int | None) -> Reproduction:
    """All of it; with a number of seeds, so many everywhere."""
    queue = tuple({cell.name: cell for cell in _queue(scale, seeds)}.values())
    rows: dict[tuple[str, str, str, float | None], list[Cell]] = {}
    for cell in sorted(queue, key=_place):
        rows.setdefault((cell.dataset, cell.method, budget_of(cell), cell.epsilon), []).append(cell)
    made = tuple(
        Row(dataset, "" if epsilon is None else f"{epsilon:g}", f"{NAMES[method]}, {budget} FLOP", tuple(cells))
        for (dataset, method, budget, epsilon), cells in rows.items()
    )
    drawings = tuple(
        Figure(name, f"{TITLES[name]}: test accuracy against ε, and what others published", _drawer(name, made))
        for name in dict.fromkeys(row.dataset for row in made)
    )
    notes = (SMOKE, *NOTES) if scale == "smoke" else NOTES
    return Reproduction(
        "frontier", scale, "Accuracy against ε", made, _sheets, notes, queue, drawings,
        related=(("all methods at equal ε and compute", "results-equal-compute.md"), ("tables", "results-tables.md")),
    )  # fmt: skip


def _queue(scale: str, seeds: int | None) -> Iterator[Cell]:
    if scale == "smoke":
        for seed in range(seeds or 1):
            yield from (trained(scale, "digits", method, e, seed) for e in SMOKE_EPSILONS for method in NAMES)
        return
    for dataset, budget, epsilons, count in GRID:
        for seed in range(seeds or count):
            for epsilon in epsilons:
                yield from (_cell(dataset, method, budget, epsilon, seed) for method in NAMES)


def _cell(dataset: str, method: str, budget: str, epsilon: float, seed: int) -> Cell:
    if budget == SHORT:
        return trained("cpu", dataset, method, epsilon, seed)
    recipe = (OURS if method == "subset" else THEIRS)[budget]
    said = options(
        dataset=dataset, epsilon=epsilon, mechanism=_MECHANISMS[method], seed=seed, threads=1, canaries=CANARIES, candidates=CANDIDATES,
        **recipe,
    )  # fmt: skip
    return Cell(
        f"{dataset}-{method}-{budget}-eps{epsilon:g}-seed{seed}", dataset, method, epsilon, seed, ("experiment", *said)
    )


def budget_of(cell: Cell) -> str:
    """Of compute, by the cell's name."""
    return next((budget for budget in OURS if f"-{budget}-" in cell.name), SHORT)


def _place(cell: Cell) -> tuple[Any, ...]:
    """In a table: by data set, ours first, by compute, by ε."""
    return cell.dataset, list(NAMES).index(cell.method), float(budget_of(cell)), cell.epsilon, cell.seed


# ── what is shown ──


def _sheets(plan: Reproduction, results: Results) -> list[Sheet]:
    names = list(dict.fromkeys(row.dataset for row in plan.rows))
    sheets = [_accuracies([row for row in plan.rows if row.dataset == name], results) for name in names]
    sheets += [_details([row for row in plan.rows if row.dataset == name], results) for name in names]
    return [*sheets, noisy_labels()]


def _accuracies(rows: Sequence[Row], results: Results) -> Sheet:
    """A method and a budget a line, an ε a column; below them what others published at that very ε."""
    levels = sorted({row.level for row in rows}, key=float)
    lines = []
    for algorithm in dict.fromkeys(row.algorithm for row in rows):
        by_level = {row.level: row for row in rows if row.algorithm == algorithm}
        spreads = [
            Spread.of(r.accuracy for r in found(by_level[x].cells, results)) if x in by_level else None for x in levels
        ]
        lines.append((algorithm, *(MISSING if one is None else one.percent() for one in spreads)))
    for curve in CURVES.get(rows[0].dataset, ()):
        said = [curve.accuracies.get(float(level)) for level in levels]
        if any(one is not None for one in said):
            lines.append((f"published: {curve.name}", *(MISSING if one is None else f"{one:.1f}%" for one in said)))
    caption = f"{rows[0].title}: test accuracy, mean ± std over seeds"
    return Sheet(
        caption, ("", *(f"ε = {level}" for level in levels)), tuple(lines), notes=missing_note(tuple(rows), results)
    )


_DETAILS = (
    "algorithm", "ε", "accuracy, mean ± std over seeds", "certificate ε", "measured ε, sees the model", "measured ε, sees the release",
    "ε_m, the paper's interval", "FLOP", "seconds",
)  # fmt: skip


def _details(rows: Sequence[Row], results: Results) -> Sheet:
    lines = [(row.algorithm, row.level, *ours(found(row.cells, results))) for row in rows]
    return Sheet(f"{rows[0].title}: what was proven, measured and spent", _DETAILS, tuple(lines), headers=2)


def noisy_labels() -> Sheet:
    """CIFAR-10 from randomized response, though nobody called it that."""
    columns = (
        "CIFAR-10, symmetric label noise",
        *(f"ε = {epsilon:g} ({rate:.0%} noise)" for rate, epsilon in NOISY_RATES),
        "source",
    )
    lines = tuple(
        (curve.name, *(_shown(curve.accuracies.get(e)) for _, e in NOISY_RATES), curve.source) for curve in NOISY_LABELS
    )
    note = (
        "Quoted, in percent; ResNet-18 or larger, about 2e17 to 4e17 training FLOP, mostly the best epoch by clean test labels, which "
        "flatters a method that peaks early."
    )
    return Sheet("The literature on noisy labels, as label-DP", columns, lines, notes=(note,))


def _shown(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1f}"


def _drawer(dataset: str, rows: tuple[Row, ...]) -> Any:
    def draw(results: Results, file: Path) -> bool:
        own = [row for row in rows if row.dataset == dataset]
        lines = []
        for algorithm in dict.fromkeys(row.algorithm for row in own):
            points = [
                (row.cells[0].epsilon, [r.accuracy for r in found(row.cells, results) if r.accuracy is not None])
                for row in own
                if row.algorithm == algorithm
            ]
            known = tuple((epsilon, values) for epsilon, values in points if values)
            if known:
                lines.append(Line(algorithm, known))
        others = [*CURVES.get(dataset, ()), *(NOISY_LABELS if dataset == "cifar10" else ())]
        quoted = tuple(
            Line(curve.name, tuple((epsilon, [value / 100]) for epsilon, value in curve.accuracies.items()))
            for curve in others
        )
        return Chart("ε (log)", TEST_ROWS[dataset], tuple(lines), log=True, quoted=quoted).draw(file)

    return draw

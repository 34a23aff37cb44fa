"""One statistic against rows, answers and gradients, at equal ε, by AUC and log loss on true test labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labeldp.reproduce.cells import Cell, options
from labeldp.reproduce.page import Chart, Line, Panels, missing_note
from labeldp.reproduce.plan import MISSING, TITLES, Figure, Reproduction, Results, Row, Sheet
from labeldp.reproduce.tabular import CLEAN, SCORES, Mean, fits

TABLES = ("adult", "bank", "diabetes", "criteo")
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
SEEDS = 10
# (model, reading) and what it is called; in the order of the page.
METHODS = {
    ("moments", "statistic"): "moments, δ = 1e-5",
    ("clusters", "histogram"): "clusters, pure ε",
    ("linear", "response"): "rows: response, linear",
    ("lightgbm", "response"): "rows: response, LightGBM",
    ("pate", "answers"): "PATE, linear teachers, δ = 1e-5",
    ("dp-sgd", "gradients"): "DP-SGD, linear, δ = 1e-5 (protects features too)",
}
WITHOUT = {("linear", CLEAN): "no privacy, linear", ("lightgbm", CLEAN): "no privacy, LightGBM"}
# What a cell fits: the quick ones of all seeds come first.
_GROUPS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("statistic", ("moments", "clusters"), ()),
    ("others", ("linear", "pate", "dp-sgd"), ("response",)),
    ("trees", ("lightgbm",), ("response",)),
)
_CLEAN = (("linear", ("linear",)), ("trees", ("lightgbm",)))

NOTES = (
    "Scores are on true labels of test rows, mean ± standard error over seeds. A seed is a split (30% of the rows are tested on; of "
    "Diabetes-130, 30% of the people; Adult has a fixed test set), a draw of noise from the operating system, and a training.",
    "Moments: one noisy XᵀY of public, whitened, clipped and rounded columns; columns of many values are eight hats each. "
    "Dimension, power and clipping follow from a public rule, the shrinkage from the statistic itself. Clusters: one noisy "
    "histogram of labels by k-means cluster of the same columns, pure ε. For both, the label owner needs the features; nobody else "
    "sees a label.",
    "Rows: randomized response, pure ε, read as evidence; the labels' owner needs no features. The linear model has numbers as "
    "they are, LightGBM codes of categories; both choose their strength by held-out likelihood.",
    "PATE: teachers of 100 rows each, ridge regression on 64 whitened axes; a linear student of the answers. DP-SGD: Opacus, "
    "thirty steps of the whole batch, clipping at ½, averaged over the second half; its ε is that of the exact Gaussian curve at δ "
    "= 1e-5; its learning rate was set by looking at Adult. It protects a whole row, features and label, against its being there "
    "or not: that is more than the others promise, and part of its price.",
    "What was chosen by looking at test scores: of the rule, how signal follows variance and how much there is (eight settings, on "
    "digits, Adult and bank); of the fit, the most that logits may vary (five, on digits); of clusters, how many and along how "
    "many axes (three each, on digits, Adult and bank); of DP-SGD, the learning rate (three, on Adult), and nothing else of it: "
    "its clipping, steps and calibration are as they came, and its log loss shows it. All are the same for every table and ε. "
    "Adult's test rows are the very ones that were looked at, and bank's of the first seed; on Diabetes-130 and Criteo nothing was "
    "chosen.",
    "Criteo's file states no licence: results are shown, rows never.",
)
SMOKE = "Scale smoke: a small table that comes with scikit-learn, one seed. It shows that everything works, and nothing else."


def moments(scale: str, seeds: int | None) -> Reproduction:
    """All of it; the quick cells of all seeds come first, then those of trees, seed by seed."""
    smoke = scale == "smoke"
    names, epsilons = (("cancer",), (0.5, 2.0)) if smoke else (TABLES, EPSILONS)
    count = seeds or (1 if smoke else SEEDS)
    made = tuple(
        Row(name, "∞" if epsilon is None else f"{epsilon:g}", "all", tuple(_cells(name, epsilon, count)))
        for name in names
        for epsilon in (*epsilons, None)
    )
    order = {group: number for number, (group, *_) in enumerate((*_GROUPS, ("linear",)))}
    queue = sorted(
        (cell for row in made for cell in row.cells), key=lambda cell: (order[cell.method] == order["trees"], cell.seed)
    )
    drawings = (Figure("auc", f"{', '.join(TITLES[name] for name in names)}: test AUC against ε", _drawer(made)),)
    title = "One noisy statistic against rows, answers and gradients, at equal ε"
    notes = (SMOKE, *NOTES) if smoke else NOTES
    return Reproduction(
        "moments",
        scale,
        title,
        made,
        _sheets,
        notes,
        tuple(queue),
        drawings,
        beside,
        (("tables", "results-tables.md"),),
    )


def _cells(dataset: str, epsilon: float | None, seeds: int) -> list[Cell]:
    groups = _GROUPS if epsilon is not None else tuple((name, models, (CLEAN,)) for name, models in _CLEAN)
    return [_cell(dataset, epsilon, seed, *group) for group in groups for seed in range(seeds)]


def _cell(
    dataset: str, epsilon: float | None, seed: int, group: str, models: tuple[str, ...], readings: tuple[str, ...]
) -> Cell:
    said = options(dataset=dataset, epsilon=epsilon, seed=seed, threads=1)
    said += [part for one in models for part in ("--model", one)] + [
        part for one in readings for part in ("--reading", one)
    ]
    at = "clean" if epsilon is None else f"eps{epsilon:g}"
    return Cell(f"{dataset}-moments-{group}-{at}-seed{seed}", dataset, group, epsilon, seed, ("compare", *said))


def _values(row: Row, results: Results, method: tuple[str, str], score: str) -> list[float]:
    every = (one.fit(*method) for one in fits(row.cells, results))
    return [float(getattr(fit, score)) for fit in every if fit is not None]


def _sheets(plan: Reproduction, results: Results) -> list[Sheet]:
    names = list(dict.fromkeys(row.dataset for row in plan.rows))
    return [
        _sheet([row for row in plan.rows if row.dataset == name], results, score) for name in names for score in SCORES
    ]


def _sheet(rows: Sequence[Row], results: Results, score: str) -> Sheet:
    """A method a row, an ε a column."""
    private, clean = [row for row in rows if row.level != "∞"], [row for row in rows if row.level == "∞"]
    lines = []
    for method, name in METHODS.items():
        means = [Mean.of(_values(row, results, method, score)) for row in private]
        seconds = [value for row in private for value in _values(row, results, method, "cpu_seconds")]
        n = max((one.n for one in means if one is not None), default=0)
        took = f"{sum(seconds) / len(seconds):,.1f}" if seconds else MISSING
        lines.append((name, *(MISSING if one is None else one.text() for one in means), took, str(n) if n else MISSING))
    for method, name in WITHOUT.items():
        known = Mean.of([value for row in clean for value in _values(row, results, method, score)])
        seconds = [value for row in clean for value in _values(row, results, method, "cpu_seconds")]
        took = f"{sum(seconds) / len(seconds):,.1f}" if seconds else MISSING
        text = MISSING if known is None else known.text()
        lines.append((name, *(text for _ in private), took, MISSING if known is None else str(known.n)))
    one = next(fits((cell for row in rows for cell in row.cells), results), None)
    size = "" if one is None else f", trained on {one.rows_trained:,} rows and tested on {one.rows_tested:,}"
    columns = (SCORES[score], *(f"ε = {row.level}" for row in private), "CPU seconds", "seeds")
    return Sheet(
        f"{rows[0].title}: {SCORES[score]}{size}", columns, tuple(lines), notes=missing_note(tuple(rows), results)
    )


def beside(plan: Reproduction, results: Results) -> dict[str, Any]:
    """Every number of the page, never rounded."""
    return {
        "scores": [
            {"dataset": row.dataset, "epsilon": row.cells[0].epsilon, "model": method[0], "reading": method[1]}
            | {score: asdict(value) for score in (*SCORES, "average_precision", "cpu_seconds")
               if (value := Mean.of(_values(row, results, method, score))) is not None}
            for row in plan.rows
            for method in (*METHODS, *WITHOUT)
            if _values(row, results, method, "roc_auc")
        ]
    }  # fmt: skip


def _drawer(rows: Sequence[Row]) -> Callable[[Results, Path], bool]:
    """A panel a table. A method keeps its colour in all of them: one that has no cell yet is a line without points."""

    def draw(results: Results, file: Path) -> bool:
        names = dict.fromkeys(row.dataset for row in rows)
        return Panels(
            tuple((TITLES[name], _chart([r for r in rows if r.dataset == name], results)) for name in names)
        ).draw(file)

    return draw


def _chart(rows: Sequence[Row], results: Results) -> Chart:
    lines = []
    for method, name in (METHODS | WITHOUT).items():
        points = [(row.cells[0].epsilon, _values(row, results, method, "roc_auc")) for row in rows]
        lines.append(Line(name, tuple((epsilon, values) for epsilon, values in points if values)))
    return Chart("ε (log)", None, tuple(lines), up="test AUC", log=True)

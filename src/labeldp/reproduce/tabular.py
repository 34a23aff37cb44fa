"""Public tables: every model and every way to read noisy labels at the same ε, by AUC and log loss on true test labels."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labeldp.files.summary import TablesSummary
from labeldp.reproduce.cells import Cell, options
from labeldp.reproduce.page import Chart, Line, missing_note
from labeldp.reproduce.papers import FORWARD, FORWARD_LEAST
from labeldp.reproduce.plan import MISSING, TITLES, Figure, Reproduction, Results, Row, Sheet, found

TWO_CLASSES, MORE = ("adult", "bank", "diabetes", "criteo"), ("diabetes3", "digits")
EPSILONS = (0.5, 1.0, 2.0, 4.0, None)  # None: clean labels
SEEDS = 5
MODELS = {"linear": "linear", "mlp": "mlp", "lightgbm": "LightGBM"}
STOPPED = "lightgbm-stopped"
SHOWN = {**MODELS, STOPPED: "LightGBM, plain, stopped early"}
READINGS = {
    "naive": "naive",
    "inverted": "inverted",
    "laplace": "Laplace (ALIBI), evidence",
    "response": "response, evidence",
    "subset": "k-subset, evidence",
}
OURS = ("lightgbm", "response")
CLEAN = "clean"  # how labels are read where there is no noise
SCORES = {"roc_auc": "AUC", "log_loss": "log loss"}

NOTES = (
    "Scores are on true labels of test rows, mean ± standard error over seeds. A seed is a split (30% of the rows are tested on; of "
    "Diabetes-130, 30% of the people; Adult and digits have a fixed test set), a draw of noise from the operating system, and a training. "
    "All readings of a cell have the same rows; naive, inverted and response the same release.",
    "Naive takes the observed class for the label: LightGBM with its own defaults, 200 rounds, or stopped early by the observed labels of "
    "a tenth of the rows; the others with our defaults. Inverted "
    "leads naive's probabilities back through the channel. Evidence reads the likelihood of what was released, with our defaults. At "
    "ε = ∞ the label itself is released: evidence and naive are then the same, but for LightGBM.",
    "Forward is a column of issue 23 of this repository: 21 lines around LightGBM, test rows of another split (but for Adult), means of "
    "three seeds (of Criteo and Diabetes-130: one); so is its inverted. Our "
    "AUC is to reach it within our standard error (of bank at ε = 0.5: 0.885), our log loss is to be at most both.",
    "Estimates are from released labels of the test rows, by the same mechanism. Their 95% intervals are for the population; held "
    "against them is the score on these rows' true labels. Fits of one cell share its rows and their noise, so that their intervals "
    "are not independent.",
    "Linear and mlp have a column for each of a category's 48 most frequent values, LightGBM codes of the 998 most frequent ones: "
    "up to 30 are split as sets, more by how common they are, ours and plain alike. CPU "
    "seconds are of fitting and predicting, one thread, on machines that did other things too.",
    "Criteo's file states no licence: results are shown, rows never.",
)
SMOKE = "Scale smoke: two small tables that come with scikit-learn, one seed. It shows that everything works, and nothing else."


def tabular(scale: str, seeds: int | None) -> Reproduction:
    """All of it; cells of the first seed come first."""
    groups = _SMOKE if scale == "smoke" else [(name, EPSILONS, ()) for name in (*TWO_CLASSES, *MORE)]
    count = seeds or (1 if scale == "smoke" else SEEDS)
    made = tuple(
        Row(name, _level(epsilon), "all", tuple(_cell(name, epsilon, seed, models) for seed in range(count)))
        for name, epsilons, models in groups
        for epsilon in epsilons
    )
    queue = sorted((cell for row in made for cell in row.cells), key=lambda cell: cell.seed)
    names = dict.fromkeys(row.dataset for row in made)
    drawings = tuple(
        Figure(name, f"{TITLES[name]}: test AUC against ε", _drawer([row for row in made if row.dataset == name]))
        for name in names
    )
    notes = (SMOKE, *NOTES) if scale == "smoke" else NOTES
    title = "Tables: models, and ways to read noisy labels, at equal ε"
    return Reproduction(
        "tabular", scale, title, made, _sheets, notes, tuple(queue), drawings, beside, (("images", "results.md"),)
    )


_SMOKE: list[tuple[str, tuple[float | None, ...], tuple[str, ...]]] = [
    ("cancer", (2.0, None), ()),
    ("digits", (2.0,), ("linear", "lightgbm")),
]


def _cell(dataset: str, epsilon: float | None, seed: int, models: tuple[str, ...]) -> Cell:
    said = options(dataset=dataset, epsilon=epsilon, seed=seed, threads=1)
    some = [part for model in models for part in ("--model", model)]
    at = "clean" if epsilon is None else f"eps{epsilon:g}"
    name = "-".join((dataset, "compare", *models, at))
    return Cell(f"{name}-seed{seed}", dataset, "compare", epsilon, seed, ("compare", *said, *some))


def _level(epsilon: float | None) -> str:
    return "∞" if epsilon is None else f"{epsilon:g}"


# ----------------------------------------------------------------
# Numbers over seeds.


@dataclass(frozen=True)
class Mean:
    """With its standard error, which a single seed has not."""

    mean: float
    error: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean | None:
        """None of nothing."""
        if not values:
            return None
        error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
        return cls(statistics.fmean(values), error, len(values))

    def text(self, sign: str = "") -> str:
        """For people."""
        return f"{self.mean:{sign}.4f}" + ("" if self.error is None else f" ± {self.error:.4f}")


def fits(cells: Iterable[Cell], results: Results) -> Iterator[TablesSummary]:
    """Of the cells that are finished."""
    return (one.summary for one in found(cells, results) if isinstance(one.summary, TablesSummary))


def _mean(row: Row, results: Results, model: str, reading: str, score: str) -> Mean | None:
    every = (one.fit(model, _reading(one, reading)) for one in fits(row.cells, results))
    return Mean.of([float(getattr(fit, score)) for fit in every if fit is not None])


def _reading(summary: TablesSummary, reading: str) -> str:
    """Without noise, response is the label itself."""
    return CLEAN if summary.epsilon is None and reading == "response" else reading


def difference(row: Row, results: Results, one: tuple[str, str], other: tuple[str, str], score: str) -> Mean | None:
    """Of two (model, reading), seed by seed."""
    pairs = [
        (s.fit(one[0], _reading(s, one[1])), s.fit(other[0], _reading(s, other[1]))) for s in fits(row.cells, results)
    ]
    return Mean.of([getattr(a, score) - getattr(b, score) for a, b in pairs if a is not None and b is not None])


def _text(value: Mean | None, sign: str = "") -> str:
    return MISSING if value is None else value.text(sign)


# ----------------------------------------------------------------
# What must be shown, cell by cell.


@dataclass(frozen=True)
class Verdict:
    """Our LightGBM (response, as evidence) at one ε of one table, against what it has to reach. None: cannot be said yet."""

    dataset: str
    epsilon: float | None
    roc_auc: Mean
    log_loss: Mean
    less_naive: Mean | None  # paired: AUC − naive LightGBM's, with all its rounds or stopped early, whichever is better
    naive_does_not_win: bool | None  # by more than two paired standard errors
    least_auc: float | None  # by the issue
    reaches_forward: bool | None  # within a standard error
    less_inverted: Mean | None  # paired: log loss − that of naive LightGBM, inverted, whichever is better
    most_loss: float | None  # by the issue: the better of its inverted and forward
    loss_is_lower: bool | None  # than both
    loss_is_near: bool | None  # within a standard error of it

    @property
    def holds(self) -> bool | None:
        """All that is asked of it."""
        asked = (self.naive_does_not_win, self.reaches_forward, self.loss_is_lower)
        known = [one for one in asked if one is not None]
        return all(known) if known else None


def verdicts(plan: Reproduction, results: Results) -> list[Verdict]:
    """Of every table of two classes."""
    every = (_verdict(row, results) for row in plan.rows if row.dataset not in MORE)
    return [one for one in every if one is not None]


def _verdict(row: Row, results: Results) -> Verdict | None:
    epsilon = row.cells[0].epsilon
    auc, loss = (_mean(row, results, *OURS, score) for score in SCORES)
    if auc is None or loss is None:
        return None
    # Of plain LightGBM whichever does better: with all its rounds, or stopped early.
    plain = [difference(row, results, OURS, (model, "naive"), "roc_auc") for model in ("lightgbm", STOPPED)]
    back = [difference(row, results, OURS, (model, "inverted"), "log_loss") for model in ("lightgbm", STOPPED)]
    naive = min((one for one in plain if one is not None), key=lambda one: one.mean, default=None)
    inverted = max((one for one in back if one is not None), key=lambda one: one.mean, default=None)
    forward = FORWARD.get((row.dataset, epsilon))
    least = None if forward is None else max(forward.roc_auc, FORWARD_LEAST.get((row.dataset, epsilon), 0.0))
    most = None if forward is None else min(forward.log_loss, forward.inverted_log_loss)
    above = [] if inverted is None else [(inverted.mean, inverted.error)]
    above += [] if most is None else [(loss.mean - most, loss.error)]
    known = all(error is not None for _, error in above)
    return Verdict(
        row.dataset, epsilon, auc, loss, naive,
        None if naive is None or naive.error is None else naive.mean >= -2 * naive.error,
        least,
        None if least is None or auc.error is None else auc.mean + auc.error >= least,
        inverted, most,
        all(gap <= 0 for gap, _ in above) if above else None,
        all(gap <= (error or 0.0) for gap, error in above) if above and known else None,
    )  # fmt: skip


_VERDICTS = (
    "data set", "ε", "AUC", "− naive, paired", "naive does not win", "issue: forward", "reaches it", "log loss", "− inverted, paired",
    "issue: better of inverted and forward", "at most both",
)  # fmt: skip


def _verdict_sheet(plan: Reproduction, results: Results) -> Sheet:
    known = {(one.dataset, one.epsilon): one for one in verdicts(plan, results)}
    lines = []
    for row in plan.rows:
        if row.dataset in MORE:
            continue
        one = known.get((row.dataset, row.cells[0].epsilon))
        if one is None:
            lines.append((row.title, row.level, *(MISSING,) * 9))
            continue
        near = (
            "yes" if one.loss_is_lower else "within a standard error" if one.loss_is_near else _word(one.loss_is_lower)
        )
        lines.append((
            row.title, row.level, one.roc_auc.text(), _text(one.less_naive, "+"), _word(one.naive_does_not_win), _number(one.least_auc),
            _word(one.reaches_forward), one.log_loss.text(), _text(one.less_inverted, "+"), _number(one.most_loss), near,
        ))  # fmt: skip
    said = [one.holds for one in known.values() if one.holds is not None]
    count = (f"All that is asked holds in {sum(said)} of {len(said)} cells.",) if said else ()
    return Sheet(
        "Our LightGBM (response, as evidence), against what it has to reach",
        _VERDICTS,
        tuple(lines),
        headers=2,
        notes=count,
    )


def _word(value: bool | None) -> str:
    return MISSING if value is None else "yes" if value else "NO"


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3f}"


# ----------------------------------------------------------------
# The tables themselves.


def _sheets(plan: Reproduction, results: Results) -> list[Sheet]:
    names = list(dict.fromkeys(row.dataset for row in plan.rows))
    by_name = {name: tuple(row for row in plan.rows if row.dataset == name) for name in names}
    two = [name for name in names if name not in MORE]
    sheets = [_verdict_sheet(plan, results)]
    sheets += [_scores_sheet(by_name[name], results, ("naive", "inverted", "laplace", "response")) for name in two]
    sheets += [
        _scores_sheet(by_name[name], results, ("naive", "inverted", "response", "subset"))
        for name in names
        if name in MORE
    ]
    sheets += [
        _subset_sheet(plan.rows, results),
        _models_sheet(plan.rows, results),
        _estimates_sheet(plan.rows, results),
    ]
    return [sheet for sheet in sheets if sheet.rows]


def _scores_sheet(rows: Sequence[Row], results: Results, readings: Sequence[str]) -> Sheet:
    scored = [f"{title}: {READINGS[reading]}" for title in SCORES.values() for reading in readings]
    last = readings[-1]
    columns = ("ε", "model", *scored, "CPU seconds: naive", f"CPU seconds: {READINGS[last]}", "seeds")
    lines = []
    for row in rows:
        for model, title in SHOWN.items():
            if row.cells[0].arguments.count("--model") and model.removesuffix("-stopped") not in row.cells[0].arguments:
                continue
            values = [_mean(row, results, model, reading, score) for score in SCORES for reading in readings]
            used = "response" if row.cells[0].epsilon is None else last
            seconds = [_mean(row, results, model, reading, "cpu_seconds") for reading in ("naive", used)]
            n = max((value.n for value in values if value is not None), default=0)
            shown = [MISSING if one is None else f"{one.mean:,.1f}" for one in seconds]
            lines.append((row.level, title, *map(_text, values), *shown, str(n) if n else MISSING))
    one = next(fits((cell for row in rows for cell in row.cells), results), None)
    size = (
        ""
        if one is None
        else f", {one.num_classes} classes, trained on {one.rows_trained:,} rows and tested on {one.rows_tested:,}"
    )
    return Sheet(f"{rows[0].title}{size}", columns, tuple(lines), headers=2, notes=missing_note(tuple(rows), results))


_SUBSET = ("data set", "ε", "model", "AUC", "log loss", "seeds")


def _subset_sheet(rows: Sequence[Row], results: Results) -> Sheet:
    """Of more than two classes: what the more informative mechanism is worth."""
    lines = [
        (row.title, row.level, MODELS[model], *_differences(row, results, (model, "subset"), (model, "response")))
        for row in rows
        if row.dataset in MORE and row.cells[0].epsilon is not None
        for model in MODELS
    ]
    return Sheet("k-subset − response, both as evidence, paired by seed", _SUBSET, tuple(lines), headers=3)


def _models_sheet(rows: Sequence[Row], results: Results) -> Sheet:
    """The mlp is to be no worse than the linear model."""
    lines = [
        (
            row.title,
            row.level,
            f"mlp − {MODELS[other]}",
            *_differences(row, results, ("mlp", "response"), (other, "response")),
        )
        for row in rows
        for other in ("linear", "lightgbm")
    ]
    columns = ("data set", "ε", "models", *_SUBSET[3:])
    return Sheet("One model − another, response as evidence, paired by seed", columns, tuple(lines), headers=3)


def _differences(row: Row, results: Results, one: tuple[str, str], other: tuple[str, str]) -> tuple[str, str, str]:
    auc, loss = (difference(row, results, one, other, score) for score in SCORES)
    return _text(auc, "+"), _text(loss, "+"), MISSING if auc is None else str(auc.n)


# ----------------------------------------------------------------
# What released labels say of the same models.


@dataclass(frozen=True)
class Coverage:
    """Of one score, over all fits of some cells: how many intervals hold the score on true labels; and where there is no number."""

    intervals: int
    hold: int
    untold: int
    width: float | None  # the median

    @classmethod
    def of(cls, summaries: Iterable[TablesSummary], score: str) -> Coverage:
        """Counted."""
        hold = untold = 0
        widths = []
        for fit in (fit for summary in summaries for fit in summary.fits if score in fit.estimates):
            stated = fit.estimates[score]
            low, high = stated.interval_95
            if stated.value is None:
                untold += 1
                continue
            ends = -math.inf if low is None else low, math.inf if high is None else high
            widths.append(ends[1] - ends[0])
            hold += ends[0] <= getattr(fit, score) <= ends[1]
        finite = [width for width in widths if math.isfinite(width)]
        return cls(len(widths), hold, untold, statistics.median(finite) if finite else None)

    def text(self) -> str:
        """For people."""
        if not self.intervals + self.untold:
            return MISSING
        untold = f"; {self.untold} cannot be told" if self.untold else ""
        return f"{self.hold} of {self.intervals}{untold}"


_ESTIMATES = (
    "data set", "ε", "AUC", "estimated", "intervals that hold it, all fits", "median width", "log loss", "estimated",
    "intervals that hold it, all fits", "median width",
)  # fmt: skip


def _estimates_sheet(rows: Sequence[Row], results: Results) -> Sheet:
    lines = []
    for row in rows:
        if row.cells[0].epsilon is None:
            continue
        cells: list[str] = []
        for score in SCORES:
            covered = Coverage.of(fits(row.cells, results), score)
            ours = [
                fit
                for one in fits(row.cells, results)
                if (fit := one.fit(*OURS)) is not None and score in fit.estimates
            ]
            said = [fit.estimates[score].value for fit in ours]
            estimated = Mean.of([value for value in said if value is not None])
            width = MISSING if covered.width is None else f"{covered.width:.3f}"
            cells += [_text(_mean(row, results, *OURS, score)), _text(estimated), covered.text(), width]
        lines.append((row.title, row.level, *cells))
    whole = [Coverage.of((one for row in rows for one in fits(row.cells, results)), score) for score in SCORES]
    notes = tuple(
        f"{title}: {one.hold} of {one.intervals} intervals ({one.hold / one.intervals:.1%}) hold the score on true labels."
        for title, one in zip(SCORES.values(), whole, strict=True)
        if one.intervals
    )
    return Sheet(
        "Our LightGBM by true labels, and by released labels of the same test rows", _ESTIMATES, tuple(lines), headers=2, notes=notes
    )  # fmt: skip


# ----------------------------------------------------------------
# For programs, and the figures.


def beside(plan: Reproduction, results: Results) -> dict[str, Any]:
    """Every number of the page, never rounded."""
    scores = [
        {"dataset": row.dataset, "epsilon": row.cells[0].epsilon, "model": model, "reading": reading}
        | {score: asdict(value) for score in (*SCORES, "average_precision", "cpu_seconds")
           if (value := _mean(row, results, model, reading, score)) is not None}
        for row in plan.rows
        for model in SHOWN
        for reading in READINGS
        if _mean(row, results, model, reading, "roc_auc") is not None
    ]  # fmt: skip
    covered = [
        {
            "dataset": row.dataset,
            "epsilon": row.cells[0].epsilon,
            "score": score,
            **asdict(Coverage.of(fits(row.cells, results), score)),
        }
        for row in plan.rows
        for score in SCORES
        if row.cells[0].epsilon is not None
    ]
    judged = [asdict(one) | {"holds": one.holds} for one in verdicts(plan, results)]
    return {"scores": scores, "verdicts": judged, "estimates": covered}


_DRAWN = (
    ("lightgbm", "response"),
    ("lightgbm", "subset"),
    ("lightgbm", "laplace"),
    (STOPPED, "naive"),
    ("linear", "response"),
    ("mlp", "response"),
)


def _drawer(rows: Sequence[Row]) -> Callable[[Results, Path], bool]:
    def draw(results: Results, file: Path) -> bool:
        lines = []
        for model, reading in _DRAWN:
            points = [(row.cells[0].epsilon, _all(row, results, model, reading)) for row in rows]
            known = tuple((epsilon, values) for epsilon, values in points if values)
            if known:
                lines.append(Line(f"{SHOWN[model]}, {READINGS[reading]}", known))
        return Chart("ε", None, tuple(lines), up="test AUC").draw(file)

    return draw


def _all(row: Row, results: Results, model: str, reading: str) -> list[float]:
    every = (one.fit(model, _reading(one, reading)) for one in fits(row.cells, results))
    return [fit.roc_auc for fit in every if fit is not None]

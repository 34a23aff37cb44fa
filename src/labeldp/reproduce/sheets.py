"""The usual columns: the paper's row beside ours."""

from __future__ import annotations

from typing import Any

from labeldp.reproduce.plan import Plan, Results, Row
from labeldp.reproduce.report import MISSING, Sheet
from labeldp.reproduce.results import Interval, Result, Spread, found, span

COLUMNS = (
    "data set", "level", "algorithm", "paper: accuracy", "paper: ε", "paper: ε_m (95%)", "accuracy, mean ± std over seeds", "certificate ε",
    "measured ε, sees the model", "measured ε, sees the release", "ε_m, the paper's interval", "FLOP", "seconds",
)  # fmt: skip


def usual(plan: Plan, results: Results) -> list[Sheet]:
    """All rows in one table."""
    rows = tuple(_row(row, results) for row in plan.rows)
    return [Sheet(plan.title, COLUMNS, rows, headers=3, notes=missing_note(plan.rows, results))]


def _row(row: Row, results: Results) -> tuple[str, ...]:
    done, paper = found(row.cells, results), row.paper
    return (
        row.title,
        row.level,
        row.algorithm,
        MISSING if paper.accuracy is None else f"{paper.accuracy:g}%",
        MISSING if paper.epsilon is None else f"{paper.epsilon:g}",
        MISSING if paper.measured is None else f"{paper.measured[0]:.1f} to {paper.measured[1]:.1f}",
        *ours(done),
    )


def ours(done: list[Result]) -> tuple[str, ...]:
    """Accuracy, certificate, both bounds, interval, compute."""
    if not done:
        return (MISSING,) * 7
    return accuracy(done), certificate(done), *measured(done), intervals(done), *compute(done)


def accuracy(done: list[Result]) -> str:
    """Over the seeds."""
    spread = Spread.of(result.accuracy for result in done)
    return MISSING if spread is None else spread.percent()


def certificate(done: list[Result]) -> str:
    """The largest of the seeds', which are of one mechanism; with δ where there is one."""
    if not done:
        return MISSING
    if any(result.epsilon is None for result in done):
        return "∞"
    worst = max(done, key=lambda result: result.epsilon or 0.0)
    return f"{worst.epsilon:.4g}" + (f" (δ = {worst.delta:g})" if worst.delta else "")


def measured(done: list[Result]) -> tuple[str, str]:
    """By who sees the model, and by who sees the release."""
    columns = [[getattr(result, name) for result in done] for name in ("model_low", "release_low")]
    known = [[value for value in column if value is not None] for column in columns]
    first, second = (span(column) if column else MISSING for column in known)
    return first, second


def intervals(done: list[Result]) -> str:
    """Each seed's."""
    return "; ".join(interval_text(result.interval) for result in done if result.interval is not None) or MISSING


def interval_text(interval: Interval) -> str:
    """From, to, and of how many canaries."""
    high = "∞" if interval.high is None else f"{interval.high:.2g}"
    return f"{interval.low:.2g} to {high} ({interval.canaries:,})"


def compute(done: list[Result]) -> tuple[str, str]:
    """A cell's FLOP, and seconds from the fastest to the slowest."""
    if not done:
        return MISSING, MISSING
    return f"{max(result.flop for result in done):.3g}", span([result.seconds for result in done], ",.0f")


def missing_note(rows: tuple[Row, ...], results: Results) -> tuple[str, ...]:
    """What a dash among our numbers means, if there is one."""
    unfinished = sum(cell.name not in results for row in rows for cell in row.every_cell())
    said = f"{unfinished} cells of this table, of these or of further seeds, are not finished; {MISSING}: not there, or not measured."
    return (said,) if unfinished else ()


def rows_json(plan: Plan, results: Results) -> list[dict[str, Any]]:
    """The rows with their means, for programs."""
    rows = []
    for row in plan.rows:
        done = found(row.cells, results)
        spread = Spread.of(result.accuracy for result in done)
        rows.append({
            "dataset": row.dataset, "level": row.level, "algorithm": row.algorithm, "cells": [cell.name for cell in row.cells],
            "accuracy": None if spread is None else spread.to_json(),
            "epsilon": max((r.epsilon for r in done if r.epsilon is not None), default=None),
            "delta": max((r.delta for r in done if r.delta is not None), default=None),
            "paper": {"accuracy": row.paper.accuracy, "epsilon": row.paper.epsilon, "measured": row.paper.measured},
        })  # fmt: skip
    return rows

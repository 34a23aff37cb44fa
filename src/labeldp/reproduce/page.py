"""From finished cells to <name>.json, .md, .html and figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.reproduce.plan import MISSING, Interval, Reproduction, Result, Results, Row, Sheet, Spread, found, span

if TYPE_CHECKING:
    from matplotlib.axes import Axes
from dataclasses import replace

from markupsafe import Markup

from labeldp.provenance import machine_line
from labeldp.report.page import render
from labeldp.reproduce.cells import Place, to_text, write_text
from labeldp.reproduce.plan import Document, Picture

# ----------------------------------------------------------------
# The usual columns: the paper's row beside ours.

COLUMNS = (
    "data set", "level", "algorithm", "paper: accuracy", "paper: ε", "paper: ε_m (95%)", "accuracy, mean ± std over seeds", "certificate ε",
    "measured ε, sees the model", "measured ε, sees the release", "ε_m, the paper's interval", "FLOP", "seconds",
)  # fmt: skip


def usual(plan: Reproduction, results: Results) -> list[Sheet]:
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


def rows_json(plan: Reproduction, results: Results) -> list[dict[str, Any]]:
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


# ----------------------------------------------------------------
# Accuracy against something, as SVG. matplotlib is an extra: where it is missing, a report does without its figures, and says so.

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
    """Test accuracies of so many rows, and below them, where there is one, a second line on the same axis.

    Without a number of test rows the values are drawn as they are, with their errors over seeds.
    """

    across: str
    test_rows: int | None
    lines: tuple[Line, ...]
    below: Line | None = None
    up: str = "test accuracy (%)"
    log: bool = False  # the axis across
    quoted: tuple[Line, ...] = ()  # others' numbers, in grey

    def draw(self, file: Path) -> bool:
        """Means over seeds, with bars of two standard errors of the test set, or of the seeds. False if there is nothing to draw."""
        if not any(line.points for line in self.lines):
            return False
        from matplotlib import style
        from matplotlib.figure import Figure

        from labeldp.audit.violins import save_figure

        with style.context(["default", {"font.size": 9, "svg.hashsalt": "labeldp"}]):
            width = 8.8 if self.quoted else 6.4
            figure = Figure(figsize=(width, 4 if self.below is None else 5.2), layout="constrained")
            if self.below is None:
                lowest = top = figure.subplots()
            else:
                top, lowest = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
                _plot(lowest, self.below.points, color=_COLORS[1], marker="s")
                lowest.set_ylabel(self.below.name)
                lowest.grid(alpha=0.3)
            self.draw_in(top)
            of = "over seeds" if self.test_rows is None else "of the test set"
            top.set_title(f"bars: ±2 standard errors {of}", fontsize=8, loc="right")
            if self.quoted:
                figure.legend(*top.get_legend_handles_labels(), loc="outside right upper", fontsize=7)
            elif len(self.lines) > 1:
                top.legend(fontsize=7)
            lowest.set_xlabel(self.across)
        file.parent.mkdir(parents=True, exist_ok=True)
        save_figure(figure, file)
        return True

    def draw_in(self, axes: Axes) -> None:
        """All lines; the axis across has no name yet."""
        for number, line in enumerate(self.lines):
            _draw(axes, line, number, self.test_rows)
        for number, line in enumerate(self.quoted, start=1):
            _quote(axes, line, number, self.test_rows)
        axes.set_ylabel(self.up)
        axes.grid(alpha=0.3)
        if self.log:
            axes.set_xscale("log")


@dataclass(frozen=True)
class Panels:
    """Several charts of the same methods in one figure, each with a title, and one legend."""

    charts: tuple[tuple[str, Chart], ...]

    def draw(self, file: Path) -> bool:
        """Two in a row. False if there is nothing to draw in any of them."""
        shown = [(title, chart) for title, chart in self.charts if any(line.points for line in chart.lines)]
        if not shown:
            return False
        from matplotlib import style
        from matplotlib.figure import Figure

        from labeldp.audit.violins import save_figure

        columns = min(2, len(shown))
        rows = -(-len(shown) // columns)
        with style.context(["default", {"font.size": 8, "svg.hashsalt": "labeldp"}]):
            figure = Figure(figsize=(4.6 * columns, 3.1 * rows + 0.7), layout="constrained")
            places = figure.subplots(rows, columns, squeeze=False).ravel()
            for axes, (title, chart) in zip(places, shown, strict=False):
                chart.draw_in(axes)
                axes.set_title(title)
                axes.set_xlabel(chart.across)
            for axes in places[len(shown) :]:
                axes.set_axis_off()
            named = {
                name: handle for axes in places for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)
            }
            figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=2, fontsize=7)
        file.parent.mkdir(parents=True, exist_ok=True)
        save_figure(figure, file)
        return True


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def _draw(axes: Axes, line: Line, number: int, test_rows: int | None) -> None:
    times = 1 if test_rows is None else 100
    color, marker = _COLORS[number % len(_COLORS)], _MARKERS[number % len(_MARKERS)]
    for x, values in line.points:
        if x is None:
            axes.axhline(times * statistics.fmean(values), color=color, linestyle=":", label=line.name)
    placed = sorted(
        (x, statistics.fmean(values), 2 * times * _error(values, test_rows))
        for x, values in line.points
        if x is not None
    )
    if placed:
        axes.errorbar(
            [x for x, _, _ in placed], [times * y for _, y, _ in placed], [bar for _, _, bar in placed], color=color, marker=marker,
            markersize=4, linewidth=1, capsize=2, label=line.name,
        )  # fmt: skip


def _quote(axes: Axes, line: Line, number: int, test_rows: int | None) -> None:
    """Behind ours; all are grey, so that a number at the first point says which it is."""
    times = 1 if test_rows is None else 100
    placed = sorted((x, times * statistics.fmean(values)) for x, values in line.points if x is not None)
    axes.plot(
        *zip(*placed, strict=True), color="0.65", marker=".", markersize=4, linewidth=0.8, linestyle="--", zorder=1,
        label=f"{number}  {line.name}",
    )  # fmt: skip
    axes.annotate(
        str(number), placed[0], xytext=(-3, 0), textcoords="offset points", fontsize=6, ha="right", va="center"
    )


def _error(values: list[float], test_rows: int | None) -> float:
    """The standard error of a mean accuracy, as the test rows have it; or of a mean over seeds, 0 where there is one."""
    if test_rows is not None:
        mean = statistics.fmean(values)
        return math.sqrt(mean * (1 - mean) / test_rows)
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def _plot(axes: Axes, points: Sequence[tuple[float | None, list[float]]], color: str, marker: str) -> None:
    placed = sorted((x, max(values)) for x, values in points if x is not None and values)
    axes.plot([x for x, _ in placed], [y for _, y in placed], color=color, marker=marker, markersize=4, linewidth=1)
    axes.set_ylim(bottom=0)


# ----------------------------------------------------------------
# A report as one HTML file: nothing is fetched, and it is read in light, dark and print.


def to_html(report: Document, folder: Path) -> str:
    """The whole page; pictures are taken from `folder` into the page itself."""
    return render(
        "tables.html", report=report, drawn=[(picture, _drawn(picture, folder)) for picture in report.pictures]
    )


def _drawn(picture: Picture, folder: Path) -> Markup:
    """matplotlib's own SVG; an XML prologue has no place within a page."""
    svg = (folder / picture.file).read_text(encoding="utf-8")
    return Markup(svg[svg.index("<svg") :])


def to_markdown(report: Document) -> str:
    """The whole page."""
    parts = [f"# {_text(report.title)}", f"Made by: `{report.made_by}`. Nothing here is typed by hand."]
    parts.append("Measured on: " + ("; ".join(map(_text, report.machines)) or "nothing yet") + ".")
    if report.related:
        parts.append("See also: " + ", ".join(f"[{_text(title)}]({file})" for title, file in report.related) + ".")
    for sheet in report.sheets:
        parts += _sheet(sheet)
    parts += [f"![{_text(picture.alt)}]({picture.file})" for picture in report.pictures]
    if report.notes:
        parts.append("\n".join(f"- {_text(note)}" for note in report.notes))
    parts.append(_names("Not finished", report.missing))
    if report.failed:
        parts.append(_names("Failed when last started (see their log.txt)", report.failed))
    return "\n\n".join(parts) + "\n"


def _sheet(sheet: Sheet) -> list[str]:
    lines = [
        _line(map(_text, sheet.columns)),
        _line(["---"] * len(sheet.columns)),
        *(_line(map(_text, row)) for row in sheet.rows),
    ]
    return [f"**{_text(sheet.caption)}**", "\n".join(lines), *map(_text, sheet.notes)]


def _line(cells: Sequence[str] | map[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _names(title: str, names: tuple[str, ...]) -> str:
    return f"{title}: " + (", ".join(f"`{name}`" for name in names) if names else "nothing") + "."


def _text(text: str) -> str:
    """As it is: nothing in it is taken for markup or for the end of a cell."""
    for special in ("\\", "|", "*", "_", "`", "<", "[", "]"):
        text = text.replace(special, "\\" + special)
    return text.replace("\n", " ")


@dataclass(frozen=True)
class Collected:
    """What there is, what is not, and the page about it."""

    data: dict[str, Any]
    report: Document
    missing: tuple[str, ...]


def collect(
    plan: Reproduction,
    place: Place,
    made_by: str,
    failed: Sequence[str] = (),
    markdown: Path | None = None,
    note: str | None = None,
) -> Collected:
    """Read every finished cell and write the plan's files anew; the Markdown also to a path of one's choice, figures beside it."""
    known = {cell.name: place.facts(cell) for cell in plan.cells()}
    facts = {name: one for name, one in known.items() if one is not None}
    missing = tuple(name for name, one in known.items() if one is None)
    results = {name: Result.of(one, place.cells / name) for name, one in facts.items()}
    machines = tuple(dict.fromkeys(_machine(one) for one in facts.values()))
    notes = plan.notes if can_draw() or not plan.drawings else (*plan.notes, NO_FIGURES)
    notes = notes if note is None else (*notes, f"Said by whoever collected this: {note}")
    report = Document(
        f"{plan.title} (scale {plan.scale})", made_by, machines, tuple(plan.layout(plan, results)), notes, missing, tuple(failed)
    )  # fmt: skip
    data = {
        "name": plan.name, "scale": plan.scale, "made_by": made_by, "rows": rows_json(plan, results), "beside": plan.beside(plan, results),
        "missing": list(missing), "failed": list(failed), "cells": list(facts.values()),
    }  # fmt: skip

    def drawn(file: Path) -> Document:
        pictures = []
        for drawing in plan.drawings if can_draw() else ():
            path = file.with_name(f"{file.stem}-{drawing.suffix}.svg")
            if drawing.draw(results, path):
                pictures.append(Picture(path.name, drawing.alt))
        return replace(report, pictures=tuple(pictures))

    here = place.out / plan.name
    whole = drawn(here.with_suffix(".md"))
    write_text(here.with_suffix(".json"), to_text(data))
    write_text(here.with_suffix(".md"), to_markdown(whole))
    write_text(here.with_suffix(".html"), to_html(whole, place.out))
    if markdown is not None:
        write_text(markdown, to_markdown(replace(drawn(markdown), related=plan.related)))
    return Collected(data, whole, missing)


def _machine(facts: dict[str, Any]) -> str:
    found = " (which found cells that were started elsewhere)" if facts["started_elsewhere"] else ""
    return f"{machine_line(facts['machine'])}, labeldp {facts['labeldp']}{found}"

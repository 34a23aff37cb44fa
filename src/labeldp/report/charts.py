"""The pictures of a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

from labeldp.audit.violins import BINS, HIGHEST, Violins, log_odds, smooth
from labeldp.files.summary import Metrics, StatedCurves, StatedSearch
from labeldp.report.runs import Accuracy, Measured, Run
from labeldp.report.svg import Drawing, Scale, ticks
from labeldp.wording import downward, upward

if TYPE_CHECKING:
    from labeldp.report.view import ClassShare

_TICKS = (0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)
_POINTS = 150  # of a curve or of one side of a violin: more nobody sees
_DRAWN = 1e15  # what is larger has no place in a picture
HUES = 6  # of style.css: .hue0 …


def epsilon_axis(proven: float | None, measured: Sequence[Measured], cap: float | None, at: str = "") -> Markup:
    """What is proven and what was measured, on one axis of ε; `at` which δ the cap is, where that is another than the others'."""
    sure = [("proven: ε ≤ {}", proven, "proven")] if proven is not None else []
    if cap is not None and (proven is None or at or not math.isclose(cap, proven, rel_tol=1e-6)):
        sure.append(("all releases of the data set: ε ≤ {}" + at, cap, "cap"))
    ends = [x for x in (proven, cap, *(m.low for m in measured), *(m.high for m in measured)) if x is not None]
    top = 1.15 * max([*ends, 0.5])
    said = [words.format(upward(value)) for words, value, _ in sure]
    said += [f"{m.who}: {_reach(m)}" for m in measured]
    drawing = Drawing(460, 40 + 36 * len(said), "Proven and measured ε on one axis", "; ".join(said))
    x, foot = Scale(0, top, 10, 450), 36.0 * len(said) + 6
    for tick in ticks(0, top):
        drawing.line(x(tick), 4, x(tick), foot, "grid")
        drawing.text(x(tick), foot + 16, f"{tick:g}", "quiet", "middle")
    drawing.text(450, foot + 30, "ε", "quiet", "end")
    for number, words in enumerate(said):
        drawing.text(x(0) + 2, 18 + 36 * number, words)
    for number, (_, value, css) in enumerate(sure):
        y = 30 + 36 * number
        drawing.rect(x(0), y - 4, x(value) - x(0), 8, f"fill {css}")
        drawing.line(x(value), y - 8, x(value), y + 8, f"stroke {css}")
    for number, found in enumerate(measured, start=len(sure)):
        y = 30 + 36 * number
        css = "danger" if proven is not None and found.low > proven and not found.apart else "measured"
        drawing.line(x(found.low), y, x(found.high) if found.high is not None else 450, y, f"stroke dashed {css}")
        drawing.circle(x(found.low), y, 5, f"fill {css}", f"at least {found.low:.6g}")
    return drawing.markup()


def _reach(found: Measured) -> str:
    if found.apart is None:
        return f"ε ≥ {downward(found.low)}"
    if found.high is None:
        return f"ε ≥ {downward(found.low)} by its own account"
    return f"{downward(found.low)} to {upward(found.high)}, no bound"


def curves(
    history: Sequence[tuple[str, list[Metrics]]], key: str, title: str, *, percent: bool = False
) -> Markup | None:
    """One line for each training, over epochs. None where nothing of the kind was noted."""
    possible = (lambda value: min(1.0, max(0.0, value))) if percent else float
    lines = []
    for name, epochs in history:
        pairs = [(one.epoch, getattr(one, key)) for one in epochs]
        points = [(float(x), possible(y)) for x, y in pairs if y is not None and abs(x) < _DRAWN and abs(y) < _DRAWN]
        if len(points) > 1:
            lines.append((name, _thinned(points)))
    if not lines:
        return None
    values = [v for _, points in lines for _, v in points]
    low, high = min(values), max(values)
    room = (high - low) * 0.08 or 0.1
    last = max(p[0] for _, points in lines for p in points)
    drawing = Drawing(
        440, 240, title, "; ".join(f"{name}: from {points[0][1]:.4g} to {points[-1][1]:.4g}" for name, points in lines)
    )
    bottom, top = possible(low - room), possible(high + room)
    x, y = Scale(1, max(last, 2), 52, 428), Scale(bottom, top, 200, 14)
    for tick in ticks(bottom, top, 4):
        drawing.line(52, y(tick), 428, y(tick), "grid")
        drawing.text(46, y(tick) + 4, f"{tick:.0%}" if percent else f"{tick:g}", "quiet", "end")
    for tick in (t for t in ticks(1, max(last, 2), 6) if t == int(t)):
        drawing.text(x(tick), 216, f"{tick:g}", "quiet", "middle")
    drawing.text(428, 232, "epoch", "quiet", "end")
    for number, (name, points) in enumerate(lines):
        drawing.path([(x(a), y(b)) for a, b in points], f"curve hue{number % HUES}")
        if len(lines) > 1:
            drawing.text(x(points[-1][0]) - 4, y(points[-1][1]) - 6, name, f"hue{number % HUES}", "end")
    return drawing.markup()


def trials(search: StatedSearch) -> Markup | None:
    """Each recipe that was tried, by what it was given: its likelihood, with the standard error. None where nothing was tried."""
    if not search.trials:
        return None
    names = list(dict.fromkeys(one.name for one in search.trials))
    said = [
        f"{one.name}, {one.flop:.3g} FLOP: {one.log_likelihood:.4f} ± {one.standard_error:.4f}" for one in search.trials
    ]
    drawing = Drawing(440, 240, "Log-likelihood of each recipe that was tried", "; ".join(said))
    ends = [one.log_likelihood + sign * one.standard_error for one in search.trials for sign in (-1, 1)]
    room = (max(ends) - min(ends)) * 0.08 or 0.1
    bottom, top = min(ends) - room, max(ends) + room
    spent = sorted({one.flop for one in search.trials})
    x, y = Scale(spent[0] / 1.3, spent[-1] * 1.3, 52, 428, log=True), Scale(bottom, top, 200, 14)
    for tick in ticks(bottom, top, 4):
        drawing.line(52, y(tick), 428, y(tick), "grid")
        drawing.text(46, y(tick) + 4, f"{tick:g}", "quiet", "end")
    for flop in _apart(spent, x, 60):
        drawing.text(x(flop), 216, f"{flop:.2g}", "quiet", "middle")
    drawing.text(428, 232, "FLOP of a trial", "quiet", "end")
    for number, name in enumerate(names):
        hue, own = f"hue{number % HUES}", [one for one in search.trials if one.name == name]
        drawing.path([(x(one.flop), y(one.log_likelihood)) for one in own], f"curve {hue}")
        for one in own:
            low, high = (y(one.log_likelihood + sign * one.standard_error) for sign in (-1, 1))
            drawing.line(x(one.flop), low, x(one.flop), high, f"curve {hue}")
            drawing.circle(
                x(one.flop),
                y(one.log_likelihood),
                5 if name == search.winner else 3,
                f"fill {hue}",
                said[search.trials.index(one)],
            )
    return drawing.markup()


_SIDE = 300.0  # of the square that a curve of shares is drawn in


@dataclass(frozen=True)
class _Unit:
    """A square with an axis from 0 to `right` and one from 0 to `top`; what lies beyond is drawn at its edge."""

    drawing: Drawing
    right: float = 1.0
    top: float = 1.0

    def __call__(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is drawn."""
        return 52 + _SIDE * min(1.0, x / self.right), 14 + _SIDE * (1 - min(1.0, y / self.top))

    def axes(self, across: str, up: str, *, percent: bool = True) -> None:
        """Grid, numbers, and what they are."""
        for tick in ticks(0, self.right):
            x, _ = self(tick, 0)
            self.drawing.line(x, 14, x, 14 + _SIDE, "grid")
            self.drawing.text(x, 30 + _SIDE, _percent(tick, self.right), "quiet", "middle")
        for tick in ticks(0, self.top):
            _, y = self(0, tick)
            self.drawing.line(52, y, 52 + _SIDE, y, "grid")
            self.drawing.text(46, y + 4, _percent(tick, self.top) if percent else f"{tick:g}", "quiet", "end")
        self.drawing.text(52 + _SIDE, 48 + _SIDE, f"across: {across}", "quiet", "end")
        self.drawing.text(52 + _SIDE, 64 + _SIDE, f"up: {up}", "quiet", "end")

    def band(self, upper: Sequence[tuple[float, float]], lower: Sequence[tuple[float, float]]) -> None:
        """What lies between two lines."""
        self.drawing.path([self(*at) for at in (*upper, *reversed(lower))], "band", closed=True)

    def lines(self, points: Sequence[tuple[float, float] | None]) -> None:
        """Through neighbours; a line ends at a point that could not be told."""
        for one, other in pairwise(points):
            if one is not None and other is not None:
                self.drawing.path([self(*one), self(*other)], "curve hue0")

    def dot(self, x: float, y: float, says: str) -> None:
        """A point, with what it says."""
        self.drawing.circle(*self(x, y), 3, "fill proven", says)


def _percent(share: float, most: float) -> str:
    return f"{share:.0%}" if most >= 0.1 else f"{100 * share:.3g}%"


def _said(value: float | None, ends: tuple[float, float]) -> str:
    return "cannot be told" if value is None else f"{value:.1%} ({ends[0]:.1%} to {ends[1]:.1%})"


def _square(title: str, said: Sequence[str]) -> Drawing:
    """A few of what its points say stand for all: a table has the others."""
    step = max(1, len(said) // 6)
    return Drawing(372, 384, title, "; ".join(said[::step]))


def roc(curves: StatedCurves) -> Markup | None:
    """True against false positives, threshold by threshold. None where nothing can be told."""
    found = [p for p in curves.points if p.called < 1]
    if all(p.true_positive_rate is None or p.false_positive_rate is None for p in found):
        return None
    said = [
        f"threshold {p.threshold:.3g}: true positive rate {_said(p.true_positive_rate, p.true_positive_rate_95)}, "
        f"false positive rate {_said(p.false_positive_rate, p.false_positive_rate_95)}"
        for p in found
    ]
    unit = _Unit(_square("ROC curve: true against false positive rate", said))
    unit.axes("false positive rate", "true positive rate (recall)")
    # Whichever the two rates are within their limits, the point lies between the corners.
    unit.band(
        [(0.0, 0.0), *((p.false_positive_rate_95[0], p.true_positive_rate_95[1]) for p in found), (1.0, 1.0)],
        [(0.0, 0.0), *((p.false_positive_rate_95[1], p.true_positive_rate_95[0]) for p in found), (1.0, 1.0)],
    )
    unit.drawing.line(*unit(0, 0), *unit(1, 1), "axis dashed")
    points = [
        None if p.false_positive_rate is None or p.true_positive_rate is None
        else (p.false_positive_rate, p.true_positive_rate)
        for p in found
    ]  # fmt: skip
    unit.lines([(0.0, 0.0), *points, (1.0, 1.0)])
    for point, words in zip(points, said, strict=True):
        if point is not None:
            unit.dot(*point, words)
    return unit.drawing.markup()


def lift(curves: StatedCurves) -> Markup | None:
    """How many times as common the class is among the rows that score highest. None where nothing can be told."""
    found = [p for p in curves.points if p.called < 1]
    known = [p.lift for p in found if p.lift is not None]
    if not known:
        return None
    said = [
        f"{p.called:.1%} of the rows called positive: lift "
        + ("cannot be told" if p.lift is None else f"{p.lift:.2f} ({p.lift_95[0]:.2f} to {p.lift_95[1]:.2f})")
        for p in found
    ]
    top = max(2.0, 1.3 * max(known))
    unit = _Unit(_square("Lift, by the share of rows that is called positive", said), top=top)
    unit.axes("share of the rows called positive", "lift", percent=False)
    unit.band([(p.called, p.lift_95[1]) for p in found], [(p.called, p.lift_95[0]) for p in found])
    unit.drawing.line(*unit(0, 1), *unit(1, 1), "axis dashed")
    points = [None if p.lift is None else (p.called, p.lift) for p in found]
    unit.lines([*points, (1.0, 1.0)])
    for point, words in zip(points, said, strict=True):
        if point is not None:
            unit.dot(*point, words)
    return unit.drawing.markup()


def calibration(curves: StatedCurves) -> Markup | None:
    """What the model says, and how often it is so. None where nothing can be told."""
    found = sorted(curves.calibration, key=lambda one: one.predicted)
    known = [one.observed for one in found if one.observed is not None]
    if not known:
        return None
    said = [
        f"{one.rows:,} rows, probability {one.predicted:.1%} on average: positive {_said(one.observed, one.observed_95)}"
        for one in found
    ]
    usual = float(np.median([one.observed_95[1] for one in found]))
    end = min(1.0, 1.15 * max(*known, usual, *(one.predicted for one in found), 1e-6))
    unit = _Unit(_square("Calibration: what the model says against how often it is so", said), right=end, top=end)
    unit.axes("probability that the model gives", "share that is positive")
    unit.drawing.line(*unit(0, 0), *unit(end, end), "axis dashed")
    for one, words in zip(found, said, strict=True):
        low, high = (unit(one.predicted, limit) for limit in one.observed_95)
        unit.drawing.line(*low, *high, "bar")
        if one.observed is not None:
            unit.dot(one.predicted, one.observed, words)
    return unit.drawing.markup()


def violin(guesses: Violins) -> Markup:
    """Wrong guesses to the left, right ones to the right, by how sure the model was."""
    right, wrong = int(guesses.right.sum()), int(guesses.wrong.sum())
    drawing = Drawing(
        440, 330, "Right and wrong guesses of planted labels, by the model's confidence",
        f"{right:,} right and {wrong:,} wrong comparisons where a label gets at least {guesses.low:.0%}",
    )  # fmt: skip
    y = Scale(log_odds(guesses.low), log_odds(HIGHEST), 290, 34)
    for tick in (t for t in _TICKS if t >= guesses.low):
        drawing.line(70, y(log_odds(tick)), 428, y(log_odds(tick)), "grid")
        drawing.text(64, y(log_odds(tick)) + 4, f"{100 * tick:g}%", "quiet", "end")
    middle, total = 249, right + wrong
    if total == 0:
        drawing.text(middle, 160, "no label gets this much", "quiet", "middle")
        return drawing.markup()
    widths = [smooth(side)[:: BINS // _POINTS] for side in (guesses.wrong, guesses.right)]
    widest = max(float(w.max()) for w in widths) or 1.0
    heights = np.linspace(290, 34, len(widths[0]))
    for sign, css, width in zip((-1, 1), ("measured", "proven"), widths, strict=True):
        outline = [(middle + sign * 168 * w / widest, h) for w, h in zip(width.tolist(), heights.tolist(), strict=True)]
        drawing.path([(middle, 290), *outline, (middle, 34)], f"fill {css}", closed=True)
    drawing.line(middle, 30, middle, 290, "axis")
    drawing.text(81, 20, f"wrong {wrong / total:.1%}", "hue1")
    drawing.text(428, 20, f"right {right / total:.1%}", "hue0", "end")
    drawing.text(middle, 308, "up: the model's confidence in the surer label", "quiet", "middle")
    drawing.text(middle, 324, "across: how many comparisons", "quiet", "middle")
    return drawing.markup()


def balance(shares: Sequence[ClassShare]) -> Markup:
    """Each class's share as released, and the estimate of what it truly is."""
    known = [s.estimate for s in shares if s.estimate is not None]
    top = 1.1 * max([s.released for s in shares] + [e.interval()[1] for e in known])
    drawing = Drawing(
        460, 40 + 26 * len(shares), "Class balance: released, and corrected for the noise",
        "; ".join(f"{s.name}: released {s.released:.1%}" + (f", truly {s.estimate.accuracy:.1%}" if s.estimate else "") for s in shares),
    )  # fmt: skip
    x, foot = Scale(0, top, 112, 446), 26 * len(shares) + 8
    for tick in ticks(0, top):
        drawing.line(x(tick), 4, x(tick), foot, "grid")
        drawing.text(x(tick), foot + 18, f"{tick:.3g}".rstrip(".") if top < 0.05 else f"{tick:.0%}", "quiet", "middle")
    for number, share in enumerate(shares):
        y = 8 + 26 * number
        drawing.text(106, y + 13, share.name if len(share.name) < 17 else share.name[:15] + "…", anchor="end")
        drawing.rect(x(0), y + 3, x(share.released) - x(0), 12, "fill faint")
        if share.estimate is not None:
            low, high = share.estimate.interval()
            drawing.line(x(low), y + 9, x(high), y + 9, "stroke proven")
            drawing.circle(x(min(top, share.estimate.accuracy)), y + 9, 4, "fill proven", str(share.estimate))
    return drawing.markup()


def frontier(runs: Sequence[Run]) -> Markup | None:
    """Accuracy against the proven ε; runs without a guarantee are levels. None unless two runs can be compared."""
    known = [(run, run.accuracy) for run in runs if run.accuracy is not None]
    epsilons = [run.epsilon for run, _ in known if run.epsilon]
    if len(known) < 2 or not epsilons:
        return None
    names = dict(zip((run.name for run, _ in known), _shortened([run.name for run, _ in known]), strict=True))
    ends = [e for _, a in known for e in (a.value, a.low, a.high) if e is not None]
    low, high = max(0.0, min(ends) - 0.03), min(1.0, max(ends) + 0.03)
    drawing = Drawing(
        460, 380, "Accuracy against proven ε",
        "; ".join(f"{run.name}: {a.parts()[0]} at {f'ε = {run.epsilon:.4g}' if run.epsilon else 'no guarantee'}" for run, a in known),
    )  # fmt: skip
    x, y = Scale(min(epsilons) / 1.2, max(epsilons) * 1.2, 48, 300, log=True), Scale(low, high, 330, 14)
    for tick in ticks(low, high):
        drawing.line(48, y(tick), 300, y(tick), "grid")
        drawing.text(42, y(tick) + 4, f"{tick:.0%}", "quiet", "end")
    for epsilon in _apart(sorted(epsilons), lambda e: x(e), 26):
        drawing.text(x(epsilon), 348, f"{epsilon:.3g}", "quiet", "middle")
    drawing.text(300, 366, "proven ε", "quiet", "end")
    methods = sorted({_method(run) for run, _ in known})
    written = _spread([y(a.value) for _, a in known], 14, 350)
    for (run, a), level in zip(known, written, strict=True):
        css = f"hue{methods.index(_method(run)) % HUES}"
        at = x(run.epsilon) if run.epsilon else 300
        if not run.epsilon:
            drawing.line(48, y(a.value), 300, y(a.value), f"curve dashed {css}")
        else:
            if a.low is not None and a.high is not None:
                drawing.line(at, y(a.low), at, y(a.high), f"curve {css}")
            drawing.circle(at, y(a.value), 5, f"fill {css}", f"{run.name}: {a.parts(2)[0]}")
        drawing.line(at + 6, y(a.value), 312, level, "grid")
        drawing.text(316, level + 4, names[run.name][:20] + _marks(run, a), css)
    return drawing.markup()


def _marks(run: Run, accuracy: Accuracy) -> str:
    """What keeps a point from being compared with the others as it is."""
    marks = ["no ε"] if not run.epsilon else []
    marks += ["δ"] if run.certificate is not None and run.certificate.delta else []
    marks += ["not checked"] if run.epsilon and not run.checked else []
    marks += ["est."] if accuracy.how == "estimated" else []
    return f" ({', '.join(marks)})" if marks else ""


def _method(run: Run) -> str:
    return f"{run.kind} {run.mechanism}"


def _shortened(names: Sequence[str]) -> list[str]:
    """Without the words that all of them begin or end with."""
    words = [name.split("-") for name in names]
    while all(len(w) > 1 for w in words) and len({w[0] for w in words}) == 1:
        words = [w[1:] for w in words]
    while all(len(w) > 1 for w in words) and len({w[-1] for w in words}) == 1:
        words = [w[:-1] for w in words]
    return ["-".join(w) for w in words]


def _apart(values: Sequence[float], place: Callable[[float], float], least: float) -> list[float]:
    """Those that are drawn at least so many pixels from the one before."""
    chosen: list[float] = []
    for value in values:
        if not chosen or place(value) - place(chosen[-1]) >= least:
            chosen.append(value)
    return chosen


def _spread(levels: Sequence[float], least: float, foot: float) -> list[float]:
    """These heights, moved as far as it takes for lines of text not to overlap."""
    order = sorted(range(len(levels)), key=lambda i: levels[i])
    moved = list(levels)
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + least)
    limit = foot
    for i in reversed(order):
        moved[i] = min(moved[i], limit)
        limit = moved[i] - least
    return moved


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most so many points, first and last among them."""
    if len(points) <= _POINTS:
        return points
    return [points[i] for i in np.linspace(0, len(points) - 1, _POINTS).round().astype(int)]

"""How good a model is by one judge, drawn: metrics, curves and confusions, whoever stated them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from labeldp.files.summary import StatedConfusion, StatedCurves
from labeldp.report import charts
from labeldp.report.runs import ShownMetric

_MATRIX = 15  # classes that a matrix shows; of more, the commonest confusions are listed
_LISTED = 20  # classes whose precision and recall are listed
_MOST_CLASSES = 200  # whose metrics are
HELD_OUT = "the released labels of {rows:,} rows that the model was not trained on, corrected for the noise"


@dataclass(frozen=True)
class Taken:
    """A cell of a confusion matrix; `depth` is its colour's."""

    share: float
    error: float
    depth: float
    right: bool
    stands_out: bool


@dataclass(frozen=True)
class Mistake:
    """A class that is taken for another."""

    true: str
    said: str
    share: float
    error: float


@dataclass(frozen=True)
class OneClass:
    """How often it is said, right, and found; with errors, where there is enough of it."""

    name: str
    called: float
    right: tuple[float, float] | None
    found: tuple[float, float] | None


@dataclass(frozen=True)
class Scorecard:
    """What one judge says of a model. `judge` names it, with the number of its rows: released labels of rows held out, or a score."""

    judge: str
    class_names: tuple[str, ...]
    metrics: tuple[ShownMetric, ...]
    by_class: tuple[tuple[str, tuple[ShownMetric, ...]], ...]  # one class against the rest, for the first classes
    curves: StatedCurves | None
    roc: Markup | None
    lift: Markup | None
    calibration: Markup | None
    matrix: tuple[tuple[str, tuple[Taken, ...]], ...]
    confusions: tuple[Mistake, ...]
    classes: tuple[OneClass, ...]

    @classmethod
    def of(
        cls,
        class_names: tuple[str, ...],
        metrics: tuple[ShownMetric, ...] = (),
        curves: StatedCurves | None = None,
        confusion: StatedConfusion | None = None,
        judge: str = HELD_OUT,
    ) -> Scorecard:
        """Draw what there is."""
        few = len(class_names) <= _MATRIX
        return cls(
            judge=judge,
            class_names=class_names,
            metrics=metrics,
            by_class=_by_class(metrics, class_names),
            curves=curves,
            roc=charts.roc(curves) if curves is not None else None,
            lift=charts.lift(curves) if curves is not None else None,
            calibration=charts.calibration(curves) if curves is not None else None,
            matrix=_matrix(confusion, class_names) if confusion is not None and few else (),
            confusions=_confusions(confusion, class_names) if confusion is not None and not few else (),
            classes=class_by_class(confusion, class_names)
            if confusion is not None and len(class_names) <= _LISTED
            else (),
        )

    @property
    def sure(self) -> str:
        """How sure its limits are, each for itself."""
        return self.metrics[0].sure if self.metrics else "95%"

    def judged_by(self, rows: int) -> str:
        """Its judge, of so many rows."""
        return self.judge.format(rows=rows)


def _matrix(confusion: StatedConfusion, names: Sequence[str]) -> tuple[tuple[str, tuple[Taken, ...]], ...]:
    """True classes down, what the model says across."""
    shares, errors = confusion.shares, confusion.standard_errors
    most = max(max(row) for row in shares) or 1.0
    rows = []
    for true, name in enumerate(names):
        cells = [
            Taken(s, e, depth=max(0.0, min(1.0, s / most)), right=said == true, stands_out=abs(s) > 2 * e)
            for said, (s, e) in enumerate(zip(shares[true], errors[true], strict=True))
        ]
        rows.append((name, tuple(cells)))
    return tuple(rows)


def _confusions(confusion: StatedConfusion, names: Sequence[str]) -> tuple[Mistake, ...]:
    """The commonest mistakes that stand out of the noise."""
    shares, errors = confusion.shares, confusion.standard_errors
    wrong = [
        Mistake(names[t], names[s], shares[t][s], errors[t][s])
        for t in range(len(shares)) for s in range(len(shares)) if s != t and shares[t][s] > 2 * errors[t][s]
    ]  # fmt: skip
    return tuple(sorted(wrong, key=lambda found: -found.share)[:20])


def class_by_class(confusion: StatedConfusion, names: Sequence[str]) -> tuple[OneClass, ...]:
    """How often the model says a class, how often it is right then, and how many of the class it finds; errors of the first order."""
    shares, errors = confusion.shares, confusion.standard_errors
    called = [share / sum(confusion.called) for share in confusion.called]
    rows = []
    for c, name in enumerate(names):
        there, squares = sum(shares[c]), [error**2 for error in errors[c]]
        # Whether it is shown must not depend on how large the class came out.
        enough = there > 0 and math.sqrt(sum(squares)) < 0.2 * called[c]
        found = min(1.0, max(0.0, shares[c][c] / there)) if enough else 0.0
        spread = (1 - found) ** 2 * squares[c] + found**2 * (sum(squares) - squares[c])
        right = (shares[c][c] / called[c], errors[c][c] / called[c]) if called[c] else None
        rows.append(OneClass(name, called[c], right, (found, math.sqrt(spread) / there) if enough else None))
    return tuple(rows)


def _by_class(metrics: Sequence[ShownMetric], names: Sequence[str]) -> tuple[tuple[str, tuple[ShownMetric, ...]], ...]:
    """One class against the rest, where there are more than two."""
    each = [metric.by_class for metric in metrics if metric.by_class]
    return tuple(zip(names, zip(*each, strict=True), strict=True))[:_MOST_CLASSES] if each else ()

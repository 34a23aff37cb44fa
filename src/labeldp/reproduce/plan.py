"""What a name stands for at a scale: rows, their cells in the order in which they are worth running, and what must be said beside them.

And what the cells say once they are finished.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labeldp.errors import InputError
from labeldp.files.schema import SchemaError, decode
from labeldp.files.summary import OwnersSummary, PateSummary, TablesSummary, TrainingSummary, read_summary
from labeldp.reproduce.cells import Cell
from labeldp.reproduce.papers import NOTHING, PateRow, Published

# ----------------------------------------------------------------
# What a finished cell has to say, whatever its command was.


@dataclass(frozen=True)
class Interval:
    """The paper's ε_m: its 95% interval, from so many canaries. An upper end of None is infinite."""

    low: float
    high: float | None
    canaries: int


@dataclass(frozen=True)
class Result:
    """Numbers of one cell. ε is None where there is no privacy; measured ones where nothing was planted."""

    accuracy: float | None
    epsilon: float | None
    delta: float | None
    model_low: float | None
    release_low: float | None
    interval: Interval | None
    flop: float
    seconds: float
    summary: TrainingSummary | PateSummary | TablesSummary
    owner: OwnersSummary
    folder: Path

    @classmethod
    def of(cls, facts: Mapping[str, Any], folder: Path) -> Result:
        """From what stands in cell.json."""
        try:
            summary, owner = read_summary(facts["summary"]), decode(OwnersSummary, facts.get("owner") or {})
            interval = None if facts.get("interval") is None else decode(Interval, facts["interval"])
        except SchemaError as error:
            raise InputError(f"{folder} holds a cell that is damaged, or too old: {error}") from None
        if isinstance(summary, TablesSummary):
            return cls._of_tables(summary, owner, folder)
        if not isinstance(summary, TrainingSummary | PateSummary):
            raise InputError(f"{folder} holds a cell of no training.")
        low = {attack: found.epsilon_low for attack, found in summary.audit.items()}
        return cls(
            accuracy=summary.accuracy_test.mean if isinstance(summary, PateSummary) else summary.accuracy_test,
            epsilon=summary.certificate.epsilon,
            delta=summary.certificate.delta,
            model_low=low.get("model"),
            release_low=low.get("release"),
            interval=interval,
            flop=_flop(summary),
            seconds=_seconds(summary, owner),
            summary=summary,
            owner=owner,
            folder=folder,
        )

    @classmethod
    def _of_tables(cls, summary: TablesSummary, owner: OwnersSummary, folder: Path) -> Result:
        """Of many fits: what each says is in the summary."""
        known = [one.epsilon for one in summary.certificates.values() if one.epsilon is not None]
        seconds = sum(one.cpu_seconds for one in summary.fits)
        return cls(
            None,
            max(known, default=None),
            0.0 if known else None,
            None,
            None,
            None,
            0.0,
            seconds,
            summary,
            owner,
            folder,
        )


def _flop(summary: TrainingSummary | PateSummary) -> float:
    if isinstance(summary, PateSummary):
        return summary.teachers_flop + summary.students_flop
    return summary.train_flop + summary.start_flop


def _seconds(summary: TrainingSummary | PateSummary, owner: OwnersSummary) -> float:
    if isinstance(summary, PateSummary):
        earlier = sum(student.seconds for student in summary.students)  # as earlier versions noted it
        return owner.teachers_seconds + owner.students_seconds + earlier
    return summary.seconds or 0.0


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (n − 1) over seeds."""

    mean: float
    std: float | None
    n: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Spread | None:
        """Of what is there; None of nothing."""
        known = [value for value in values if value is not None]
        if not known:
            return None
        return cls(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))

    def percent(self) -> str:
        """For people; a single seed has no deviation."""
        return f"{self.mean:.2%} (n = 1)" if self.std is None else f"{self.mean:.2%} ± {self.std:.2%} (n = {self.n})"

    def to_json(self) -> dict[str, Any]:
        """Never rounded."""
        return {"mean": self.mean, "std": self.std, "n": self.n}


def found(cells: Iterable[Any], results: Mapping[str, Result]) -> list[Result]:
    """The results of those cells that are finished."""
    return [results[cell.name] for cell in cells if cell.name in results]


def span(values: Sequence[float], digits: str = ".3g") -> str:
    """One value, or from the smallest to the largest."""
    low, high = f"{min(values):{digits}}", f"{max(values):{digits}}"
    return low if low == high else f"{low} to {high}"


# ----------------------------------------------------------------
# What must be said beside a table, at each scale, so that nobody takes our numbers for something that they are not.

READING = (
    "Accuracy is on the public test set. The certificate is proven, for neighbours that differ in one label; it is quoted from "
    "each cell's summary, and `labeldp report` computes it anew from the cell's release. Measured are "
    "lower bounds, each at 95%, from planted labels (Steinke et al. 2023), by who sees the model's probabilities and by who sees "
    "the release; of several seeds, from the lowest to the highest."
)
INTERVAL = (
    "ε_m, the paper's interval, is its memorization attack with its own interval, for comparing with its columns; it is "
    "no proven bound. It is taken over those of our canaries whose planted label happens to be wrong (so many are in "
    "brackets): candidates are drawn without looking at the truth, so given that it is wrong, a label is uniform among "
    "the wrong ones, as the paper plants it. It uses true labels of a public benchmark."
)
SCALE_NOTES = {
    "smoke": (
        "Scale smoke: scikit-learn's digits and an MLP, one small run each. It shows that everything works. It says "
        "nothing about the paper, whose numbers beside it are of CIFAR and of large ResNets."
    ),
    "cpu": (
        "Scale cpu: the small `fast` model, 8 epochs, about 6e13 FLOP a cell; the paper's ALIBI runs take about 5e16. A "
        "tenth of the rows is held out. Our accuracies are those of a thousandth of the compute, and are to be compared "
        "with each other."
    ),
    "paper": (
        "Scale paper: the paper's models (Wide-ResNet-28-4 and 28-8, which its text calls Wide-ResNet18), epochs and "
        "hyper-parameters, trained on all rows. We report the last epoch; the paper's code picks the best checkpoint by "
        "test accuracy."
    ),
}
ALIBI_NOTES = {
    "smoke": "Canaries are 4% of the digits, which lowers accuracy.",
    "cpu": "500 canaries of ten candidates are planted in each cell, 1% of the rows.",
    "paper": (
        "1,000 canaries are planted in each training, as in the paper. The learning rates of CIFAR-100's two best rows "
        "are ten times those printed: they are those of a table that is commented out in the paper's source (presets "
        "`…-printed` have the printed ones)."
    ),
}
PATE_NOTES = {
    "smoke": (
        "Linear teachers stand in for FixMatch, and few of them; noise is such that the ε that may be published, that of "
        "the caps at δ = 1e-5, is the one that the paper states for the row."
    ),
    "cpu": (
        "PATE's rows are linear teachers on features that were learned from the images alone (contrastively), not "
        "FixMatch; noise is such that the ε that may be published, that of the caps at δ = 1e-5, is the one that the "
        "paper states for the row. What learning the features takes is not in the FLOP."
    ),
    "paper": (
        "PATE-FM's certificate is the caps' ε at δ = 1e-5, which may be published whatever the votes were; we allow twice "
        "as many questions as answers. The paper's ε depends on the votes and was not sanitised. Three students of one "
        "ensemble; ± is over seeds, each of which is an ensemble."
    ),
}


# ----------------------------------------------------------------
# A report: what Markdown and HTML have in common. Text only; every number in it was computed from finished cells, or quoted.

MISSING = "–"


@dataclass(frozen=True)
class Sheet:
    """One table: the first `headers` columns name the row. Notes belong below it."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    headers: int = 1
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """A figure: the file beside the report, and what it shows."""

    file: str
    alt: str


@dataclass(frozen=True)
class Document:
    """A title, how it was made, sheets, pictures, and what there is to say of it all."""

    title: str
    made_by: str
    machines: tuple[str, ...]
    sheets: tuple[Sheet, ...]
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    related: tuple[tuple[str, str], ...] = ()  # titles and files of other pages beside it


TITLES = {
    "digits": "digits", "fashion": "Fashion-MNIST", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "adult": "Adult", "bank": "bank",
    "diabetes": "Diabetes-130, < 30 days", "criteo": "Criteo, click", "diabetes3": "Diabetes-130, three classes", "cancer": "breast cancer",
}  # fmt: skip
TEST_ROWS = {"digits": 360, "fashion": 10_000, "cifar10": 10_000, "cifar100": 10_000}

Results = Mapping[str, Result]


@dataclass(frozen=True)
class Row:
    """A row of a table: a cell for each seed, and what was published."""

    dataset: str
    level: str
    algorithm: str
    cells: tuple[Cell, ...]
    paper: Published = NOTHING
    apart: tuple[tuple[Cell, ...], ...] = ()  # for each seed, repetitions with fewer canaries each
    pate: PateRow | None = None

    @property
    def title(self) -> str:
        """The data set, as people write it."""
        return TITLES[self.dataset]

    def every_cell(self) -> tuple[Cell, ...]:
        """Those for the row itself first."""
        return (*self.cells, *(cell for part in self.apart for cell in part))


@dataclass(frozen=True)
class Figure:
    """A figure: its file's suffix, what it shows, and who draws it into a file. It may find that there is nothing to draw yet."""

    suffix: str
    alt: str
    draw: Callable[[Results, Path], bool]


@dataclass(frozen=True)
class Reproduction:
    """A table or figure at a scale."""

    name: str
    scale: str
    title: str
    rows: tuple[Row, ...]
    layout: Callable[[Reproduction, Results], list[Sheet]]
    notes: tuple[str, ...]
    queue: tuple[Cell, ...] = ()  # where the order matters; else row by row
    drawings: tuple[Figure, ...] = ()
    beside: Callable[[Reproduction, Results], Any] = field(default=lambda plan, results: None)  # more for the JSON file
    related: tuple[tuple[str, str], ...] = ()  # other pages, where the Markdown is put among them

    def cells(self) -> tuple[Cell, ...]:
        """Each once, in order."""
        order = self.queue or tuple(cell for row in self.rows for cell in row.every_cell())
        return tuple({cell.name: cell for cell in order}.values())

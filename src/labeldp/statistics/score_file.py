"""`Score`: a model's evaluation on secret labels, as a noisy table of counts. Every metric follows from it, for free and for anyone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.evaluation.confusion import Confusion
from labeldp.evaluation.curves import Curves
from labeldp.evaluation.metrics import MetricEstimate
from labeldp.mechanisms.base import Guarantee
from labeldp.private import PrivateLabels, check_num_classes
from labeldp.release.sealed import Sealed
from labeldp.statistics.bins import ScoreLayout
from labeldp.statistics.counts import ScoreCounts
from labeldp.statistics.differences import difference
from labeldp.statistics.noise import CountNoise, GaussianCountNoise, GeometricNoise, noise_from_json
from labeldp.statistics.statistic import Places, Statistic, StatisticFile

MOST_MODELS = 1000
_LAYOUT = "model"  # the column that says of which model a cell is
_COUNT = "count"
_FLAG = "predicted"  # written as 0 and 1


def check_models(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names go into files and messages."""
    for name in names[: MOST_MODELS + 1]:
        if not isinstance(name, str) or not 1 <= len(name) <= 200 or not name.isprintable():
            raise InputError("the name of a model is 1 to 200 printable characters.")
    if not 1 <= len(names) <= MOST_MODELS or len(set(names)) != len(names):
        raise InputError(f"a score is of 1 to {MOST_MODELS:,} models, and each has a name of its own.")
    return names


@dataclass(frozen=True)
class ScorePlan(Statistic):
    """Of each model, how many rows of a class have which score: bins are public, one label moves a count of each model, or two."""

    models: tuple[str, ...]
    layouts: tuple[ScoreLayout, ...]
    noise: CountNoise
    name: ClassVar[str] = "score"

    def __post_init__(self) -> None:
        check_models(self.models)
        shapes = {(layout.num_classes, layout.num_rows) for layout in self.layouts}
        if len(self.layouts) != len(self.models) or len(shapes) != 1:
            raise InputError("models are scored on the same rows and the same classes.")

    @staticmethod
    def calibrated(epsilon: float, num_classes: int, models: int, delta: float | None) -> CountNoise:
        """Geometric noise for a pure ε; Gaussian, which many models need less of, where there is a δ."""
        moved = models * moved_by_a_label(num_classes)
        if delta is None:
            return GeometricNoise.calibrated(epsilon=epsilon, moved=moved)
        return GaussianCountNoise.calibrated(epsilon=epsilon, delta=delta, moved=moved)

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """Of all models alike."""
        return self.layouts[0].num_classes

    @property
    def moved(self) -> int:
        """How many counts a label moves, each by one."""
        return sum(layout.moved for layout in self.layouts)

    def certificate(self) -> Cost:
        """The noise's, for so many counts."""
        return self.noise.certificate(self.moved)

    def guarantee(self) -> Guarantee:
        """The same as (ε, δ)."""
        return self.noise.guarantee(self.moved)

    def describe(self) -> str:
        """In a few words."""
        cells = sum(len(layout) for layout in self.layouts)
        deviation = self.noise.variance**0.5
        of = "" if len(self.models) == 1 else f" of {len(self.models)} models"
        return f"{cells:,} counts of labels by score{of}, each with {self.noise.name} noise of standard deviation {deviation:.3g}"

    def to_json(self) -> dict[str, Any]:
        """Layouts are in the table."""
        return {
            "name": self.name,
            "num_classes": self.num_classes,
            "rows": self.layouts[0].num_rows,
            "models": list(self.models),
            "noise": self.noise.to_json(),
        }

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """One table, a cell a row."""
        return self.table([np.zeros(len(layout)) for layout in self.layouts])

    def table(self, counts: list[npt.NDArray[np.float64]]) -> dict[str, npt.NDArray[Any]]:
        """The same, with these counts."""
        columns = [layout.columns() for layout in self.layouts]
        model = np.repeat(np.arange(len(self.layouts)), [len(layout) for layout in self.layouts])
        joined = {name: np.concatenate([one[name] for one in columns]) for name in columns[0]}
        return {_LAYOUT: model, **joined, _COUNT: np.concatenate(counts)}

    @classmethod
    def read(cls, sealed: Sealed) -> ScorePlan:
        """From a file that may be anybody's."""
        said, arrays = sealed.header["statistic"], dict(sealed.arrays)
        names, rows, classes = said.get("models"), said.get("rows"), said.get("num_classes")
        if not isinstance(names, list) or not isinstance(rows, int) or not {_LAYOUT, _COUNT} <= set(arrays):
            raise InputError("it lacks its models or its counts")
        if sealed.header["rows"] != rows or len({one.shape for one in arrays.values()}) != 1:
            raise InputError("its numbers do not fit each other")
        check_models(tuple(names))
        model = arrays.pop(_LAYOUT)
        del arrays[_COUNT]
        if not (_FLAG in arrays and np.isin(arrays[_FLAG], (0, 1)).all()):
            raise InputError(f"its column {_FLAG} is neither 0 nor 1")
        arrays[_FLAG] = arrays[_FLAG].astype(np.bool_)
        if not np.array_equal(np.unique(model), np.arange(len(names))) or (np.diff(model) < 0).any():
            raise InputError("its models are out of order")
        layouts = tuple(
            ScoreLayout.from_columns(
                check_num_classes(classes), rows, {name: one[model == number] for name, one in arrays.items()}
            )
            for number in range(len(names))
        )
        return cls(tuple(names), layouts, noise_from_json(said.get("noise")))


def moved_by_a_label(num_classes: int) -> int:
    """Of one model: of two classes only positives are counted, of more the count of the old label and that of the new one move."""
    return 1 if num_classes == 2 else 2


class ScoreGathering:
    """Counts labels by cell. Private until the noise is in."""

    def __init__(self, plan: ScorePlan, cells: tuple[npt.NDArray[np.int32], ...]) -> None:
        """`cells` of each model are `layout.cells(probabilities)`."""
        self._plan, self._cells = plan, cells
        self._counts = [np.zeros(len(layout), dtype=np.int64) for layout in plan.layouts]

    def add(self, labels: PrivateLabels, places: Places) -> None:
        """Some more rows."""
        codes = labels.reveal()
        for counts, cells in zip(self._counts, self._cells, strict=True):
            held = cells[places[codes == 1]] if cells.ndim == 1 else cells[places, codes]
            counts += np.bincount(held, minlength=len(counts))

    def finish(self, entropy: Entropy) -> dict[str, npt.NDArray[Any]]:
        """With noise on every count."""
        return self._plan.table([counts + self._plan.noise.sample(len(counts), entropy) for counts in self._counts])


class Score(StatisticFile):
    """Metrics of one or more models, each with limits that carry the noise and the sampling of rows."""

    statistic: ScorePlan

    plan = ScorePlan
    noun = "score"

    def _check(self) -> None:
        """Counts that can be told of."""
        for model in self.models:
            self.counts(model)

    @cached_property
    def _tables(self) -> tuple[ScoreCounts, ...]:
        plan, model = self.statistic, self._arrays[_LAYOUT]
        heavy = isinstance(plan.noise, GeometricNoise)
        return tuple(
            ScoreCounts(layout, self._arrays[_COUNT][model == number], plan.noise.variance, heavy)
            for number, layout in enumerate(plan.layouts)
        )

    @property
    def models(self) -> tuple[str, ...]:
        """What they are called."""
        return self.statistic.models

    def counts(self, model: str | None = None) -> ScoreCounts:
        """The table of one model; it needs no name where there is only one."""
        if model is None and len(self.models) == 1:
            return self._tables[0]
        if model not in self.models:
            raise InputError(f"this score is of {', '.join(self.models)}: say which `model`; got {model!r}.")
        return self._tables[self.models.index(model)]

    def metric(
        self, name: str, *, model: str | None = None, positive: int | None = None, threshold: float | None = None
    ) -> MetricEstimate:
        """One metric by name."""
        return self.counts(model).metric(name, positive=positive, threshold=threshold)

    def metrics(self, model: str | None = None) -> dict[str, MetricEstimate]:
        """Accuracy, ROC AUC, average precision, log loss and Brier score."""
        return self.counts(model).metrics()

    def accuracy(self, model: str | None = None) -> MetricEstimate:
        """How many predictions are right."""
        return self.counts(model).accuracy()

    def roc_auc(self, model: str | None = None, *, positive: int | None = None) -> MetricEstimate:
        """Of more than two classes the mean of each against the rest."""
        return self.counts(model).roc_auc(positive=positive)

    def average_precision(self, model: str | None = None, *, positive: int | None = None) -> MetricEstimate:
        """The area under precision and recall."""
        return self.counts(model).average_precision(positive=positive)

    def log_loss(self, model: str | None = None) -> MetricEstimate:
        """Of the binned probabilities."""
        return self.counts(model).log_loss()

    def brier(self, model: str | None = None) -> MetricEstimate:
        """Of the binned probabilities."""
        return self.counts(model).brier()

    def class_shares(self, model: str | None = None) -> tuple[MetricEstimate, ...]:
        """How many rows are of each class."""
        return self.counts(model).class_shares()

    def confusion(self, model: str | None = None) -> Confusion:
        """Of two classes, at the threshold 0.5."""
        return self.counts(model).confusion()

    def curves(self, model: str | None = None, *, positive: int | None = None) -> Curves:
        """ROC, lift and calibration, with limits."""
        return self.counts(model).curves(positive=positive)

    def difference(
        self, name: str, first: str, second: str, first_predictions: npt.ArrayLike, second_predictions: npt.ArrayLike
    ) -> MetricEstimate:
        """The metric of one model minus that of another, on the same rows. The public predictions say how their errors go together."""
        return difference(name, self.counts(first), self.counts(second), first_predictions, second_predictions)

    def to_json(self) -> dict[str, Any]:
        """A summary, with the metrics of every model."""
        found = {
            model: {
                "metrics": {name: one.to_json() for name, one in self.metrics(model).items()},
                "class_shares": [one.to_json() for one in self.class_shares(model)],
            }
            for model in self.models
        }
        return {**self.about(), "models": found}

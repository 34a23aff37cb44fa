"""`NoisyConfusion`: which class a model takes for which, on secret labels. Of two classes a score tells it; of more it stands alone.

How many rows are called each class is public. One label that is replaced moves two counts of one column, each by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.evaluation.confusion import Confusion
from labeldp.mechanisms.base import Guarantee
from labeldp.private import PrivateLabels, check_num_classes
from labeldp.release.sealed import Sealed
from labeldp.statistics.noise import CountNoise, noise_from_json
from labeldp.statistics.statistic import Places, Statistic, StatisticFile

MOVED = 2
MOST_CLASSES = 1000  # a million counts
_TRUE, _SAID, _CALLED, _COUNT = "true", "said", "called", "count"


@dataclass(frozen=True, eq=False)
class ConfusionPlan(Statistic):
    """Counts of true classes by what the model says. `called` is how many rows it calls each class: public."""

    called: npt.NDArray[np.int64]
    noise: CountNoise
    name: ClassVar[str] = "confusion"

    def __post_init__(self) -> None:
        if not 2 <= len(self.called) <= MOST_CLASSES:
            raise InputError(f"a confusion matrix is of 2 to {MOST_CLASSES:,} classes; there are {len(self.called):,}.")

    @property
    def num_classes(self) -> int:  # type: ignore[override]
        """C."""
        return len(self.called)

    def certificate(self) -> Cost:
        """The noise's, for two counts."""
        return self.noise.certificate(MOVED)

    def guarantee(self) -> Guarantee:
        """The same as (ε, δ)."""
        return self.noise.guarantee(MOVED)

    def describe(self) -> str:
        """In a few words."""
        deviation = self.noise.variance**0.5
        return f"{self.num_classes**2:,} counts of classes by what is said, each with {self.noise.name} noise of deviation {deviation:.3g}"

    def to_json(self) -> dict[str, Any]:
        """How many rows are called what is in the table."""
        return {"name": self.name, "num_classes": self.num_classes, "noise": self.noise.to_json()}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """A cell a row."""
        return self.table(np.zeros((self.num_classes, self.num_classes)))

    def table(self, counts: npt.NDArray[np.float64]) -> dict[str, npt.NDArray[Any]]:
        """The same, with these counts: true classes down, what is said across."""
        true, said = np.divmod(np.arange(counts.size), self.num_classes)
        return {_TRUE: true, _SAID: said, _CALLED: self.called[said], _COUNT: counts.reshape(-1)}

    @classmethod
    def read(cls, sealed: Sealed) -> ConfusionPlan:
        """From a file that may be anybody's."""
        said, arrays = sealed.header["statistic"], sealed.arrays
        classes = check_num_classes(said.get("num_classes"))
        if classes > MOST_CLASSES or arrays.keys() != {_TRUE, _SAID, _CALLED, _COUNT}:
            raise InputError("it lacks its counts")
        if any(one.shape != (classes**2,) for one in arrays.values()) or not np.isfinite(arrays[_COUNT]).all():
            raise InputError("its counts are of another shape")
        if np.abs(arrays[_COUNT]).max() > 1e15 or any(arrays[one].dtype.kind != "i" for one in (_TRUE, _SAID, _CALLED)):
            raise InputError("its counts are beyond all files")
        plan = cls(arrays[_CALLED][:classes].copy(), noise_from_json(said.get("noise")))
        wanted = plan.arrays()
        if any(not np.array_equal(arrays[one], wanted[one]) for one in (_TRUE, _SAID, _CALLED)):
            raise InputError("its cells are out of order")
        if (plan.called < 0).any() or int(plan.called.sum()) != sealed.header["rows"] or not sealed.header["rows"]:
            raise InputError("its numbers do not fit each other")
        return plan


class ConfusionGathering:
    """Counts labels by what is said. Private until the noise is in."""

    def __init__(self, plan: ConfusionPlan, said: npt.NDArray[np.integer[Any]]) -> None:
        """`said` is the class that the model says of every public row."""
        self._plan, self._said = plan, said
        self._counts = np.zeros(plan.num_classes**2, dtype=np.int64)

    def add(self, labels: PrivateLabels, places: Places) -> None:
        """Some more rows."""
        cells = labels.reveal().astype(np.int64) * self._plan.num_classes + self._said[places]
        self._counts += np.bincount(cells, minlength=len(self._counts))

    def finish(self, entropy: Entropy) -> dict[str, npt.NDArray[Any]]:
        """With noise on every count."""
        noisy = self._counts + self._plan.noise.sample(len(self._counts), entropy)
        return self._plan.table(noisy.reshape(self._plan.num_classes, -1))


class NoisyConfusion(StatisticFile):
    """A confusion matrix with noise."""

    statistic: ConfusionPlan

    plan = ConfusionPlan
    noun = "confusion matrix"

    def confusion(self) -> Confusion:
        """Shares of all rows, unbiased, with errors that carry the noise and that the rows are a sample.

        A column adds up to how many rows are called so, which is public: noise is moved onto that, which takes a C-th of its variance away.
        """
        plan, n, classes = self.statistic, self.rows, self.statistic.num_classes
        raw = self._arrays[_COUNT].reshape(classes, classes)
        counts = raw + (plan.called - raw.sum(axis=0)) / classes
        shares = counts / n
        s = np.minimum(np.clip(shares, 0, plan.called / n) + 1 / n, np.maximum(plan.called, 1) / n)
        noise = plan.noise.variance * (1 - 1 / classes) / n**2
        return Confusion(shares, np.sqrt(s * (1 - s) / n + noise), plan.called)

    def to_json(self) -> dict[str, Any]:
        """A summary, with the matrix."""
        return {**self.about(), "confusion": self.confusion().to_json()}

"""`ModelChosen`: the name of the best of some models on secret labels, by the exponential mechanism; nothing else leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from labeldp.accounting.cost import Cost
from labeldp.entropy import Entropy
from labeldp.errors import InputError
from labeldp.mechanisms.base import Guarantee, check_word
from labeldp.private import PrivateLabels, check_num_classes
from labeldp.release.sealed import Sealed
from labeldp.statistics.choose import ModelChoice, row_scores
from labeldp.statistics.score_file import check_models
from labeldp.statistics.statistic import Places, Statistic, StatisticFile

_CHOSEN = "chosen"


@dataclass(frozen=True)
class ChoicePlan(Statistic):
    """Which of these models is about the best."""

    num_classes: int
    models: tuple[str, ...]
    choice: ModelChoice
    name: ClassVar[str] = "choice"

    def __post_init__(self) -> None:
        check_models(self.models)
        check_num_classes(self.num_classes)
        if self.choice.models != len(self.models):
            raise InputError("a choice is between the models that are named.")

    def certificate(self) -> Cost:
        """The exponential mechanism's."""
        return self.choice.certificate()

    def guarantee(self) -> Guarantee:
        """Pure."""
        return Guarantee(self.certificate().epsilon(), 0.0)

    def describe(self) -> str:
        """In a few words."""
        return f"the name of one of {len(self.models)} models, chosen by {self.choice.score}"

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        choice = self.choice
        return {
            "name": self.name, "num_classes": self.num_classes, "models": list(self.models), "score": choice.score,
            "spread": choice.spread, "rate": str(choice.rate),
        }  # fmt: skip

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """One number."""
        return {_CHOSEN: np.zeros(1, dtype=np.int64)}

    @classmethod
    def read(cls, sealed: Sealed) -> ChoicePlan:
        """From a file that may be anybody's."""
        said = sealed.header["statistic"]
        names, spread = said.get("models"), said.get("spread")
        if not isinstance(names, list) or not isinstance(spread, int) or isinstance(spread, bool):
            raise InputError("it lacks its models")
        rate = check_word(said.get("rate"), "the rate", 1, 1 << 70)
        choice = ModelChoice(str(said.get("score")), len(names), spread, rate)
        return cls(check_num_classes(said.get("num_classes")), tuple(names), choice)


class ChoiceGathering:
    """Adds up every model's scores at the true labels. Private."""

    def __init__(self, plan: ChoicePlan, predictions: tuple[npt.NDArray[np.floating[Any]], ...]) -> None:
        """Probabilities of each model, (rows, classes)."""
        self._plan, self._predictions, self._totals = plan, predictions, [0] * len(predictions)

    def add(self, labels: PrivateLabels, places: Places) -> None:
        """Some more rows."""
        codes = labels.reveal()
        for number, probabilities in enumerate(self._predictions):
            scores = row_scores(self._plan.choice.score, probabilities[places])
            self._totals[number] += int(scores[np.arange(len(codes)), codes].sum())

    def finish(self, entropy: Entropy) -> dict[str, npt.NDArray[Any]]:
        """One draw."""
        return {_CHOSEN: np.array([self._plan.choice.draw(self._totals, entropy)], dtype=np.int64)}


class ModelChosen(StatisticFile):
    """Which model was chosen."""

    statistic: ChoicePlan

    plan = ChoicePlan
    noun = "choice of a model"

    def _check(self) -> None:
        """One number, of a model."""
        chosen = self._arrays.get(_CHOSEN)
        if chosen is None or len(self._arrays) != 1 or (chosen.shape, chosen.dtype.kind) != ((1,), "i"):
            raise InputError("it lacks what was chosen")
        if not 0 <= int(chosen[0]) < len(self.statistic.models):
            raise InputError("what was chosen is no model of it")

    @property
    def model(self) -> str:
        """The name of the chosen one."""
        return self.statistic.models[int(self._arrays[_CHOSEN][0])]

    def to_json(self) -> dict[str, Any]:
        """A summary."""
        return {**self.about(), "chosen": self.model}

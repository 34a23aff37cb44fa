"""What a score says, for a page: every model's metrics and curves, with the certificate, which is computed anew from the file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from labeldp.files.schema import decode
from labeldp.files.summary import StatedConfusion, StatedCurves, StatedMetric
from labeldp.release.header import HandedOver
from labeldp.report.handed_over import stated_in
from labeldp.report.runs import shown_metrics
from labeldp.report.scorecard import Scorecard
from labeldp.statistics.score_file import Score

JUDGE = "the secret labels of {rows:,} rows, counted by their owner, with noise"
_Stated = TypeVar("_Stated")


@dataclass(frozen=True)
class ScoreView:
    """One score file."""

    name: str
    anchor: str
    score: Score
    cards: tuple[tuple[str, str, Scorecard], ...]  # a model's name, its accuracy in words, and the rest
    handed_over: HandedOver

    @classmethod
    def of(cls, path: Path, number: int) -> ScoreView:
        """Read and draw it; the file may be anybody's."""
        score = Score.load(path)
        cards = tuple((model, str(score.accuracy(model)), _card(score, model)) for model in score.models)
        return cls(path.name, f"score-{number}", score, cards, stated_in(score.header))

    def to_json(self) -> dict[str, Any]:
        """The numbers of the page."""
        return {"file": self.name, **self.score.to_json()}


def _card(score: Score, model: str) -> Scorecard:
    classes = score.statistic.num_classes
    metrics = {
        name: _stated(StatedMetric, one.to_json()) for name, one in score.metrics(model).items() if name != "accuracy"
    }
    two = classes == 2
    return Scorecard.of(
        score.class_names,
        shown_metrics(metrics, classes),
        _stated(StatedCurves, score.curves(model).to_json()) if two else None,
        _stated(StatedConfusion, score.confusion(model).to_json()) if two else None,
        JUDGE,
    )


def _stated(kind: type[_Stated], data: Any) -> _Stated:
    """As a run's own files have it: pages read one form."""
    return decode(kind, json.loads(json.dumps(data)))

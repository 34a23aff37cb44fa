"""Any file of a statistic, by what it says that it holds."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from labeldp.errors import FileFormatError
from labeldp.release.sealed import statistic_name
from labeldp.statistics.choice_file import ChoicePlan, ModelChosen
from labeldp.statistics.confusion_file import ConfusionPlan, NoisyConfusion
from labeldp.statistics.histogram_file import HistogramPlan, LabelHistogram, SharesFromHistogram
from labeldp.statistics.moments_file import LinearFromMoments, Moments, MomentsPlan
from labeldp.statistics.score_file import Score, ScorePlan
from labeldp.statistics.statistic import StatisticFile

Fittable: TypeAlias = Moments | LabelHistogram  # what a model is fitted to: with a δ, or without
Fitted: TypeAlias = LinearFromMoments | SharesFromHistogram  # the model

_FITTABLE: dict[str, type[Moments] | type[LabelHistogram]] = {
    MomentsPlan.name: Moments,
    HistogramPlan.name: LabelHistogram,
}
_KINDS: dict[str, type[Score] | type[ModelChosen] | type[NoisyConfusion] | type[Moments] | type[LabelHistogram]] = {
    ScorePlan.name: Score,
    ChoicePlan.name: ModelChosen,
    ConfusionPlan.name: NoisyConfusion,
    **_FITTABLE,
}


def load_statistic(path: Path) -> StatisticFile:
    """Checked, and its certificate computed anew."""
    name = statistic_name(path)
    if name not in _KINDS:
        raise FileFormatError(f"{path} holds no statistic that this labeldp knows; update to read it.")
    return _KINDS[name].load(path)


def is_fittable(path: Path) -> bool:
    """Whether a file says that a model can be fitted to it."""
    return statistic_name(path) in _FITTABLE


def load_fittable(path: Path) -> Fittable:
    """What `labeldp moments` writes, with a δ or without; checked as above."""
    return _FITTABLE.get(statistic_name(path) or "", Moments).load(path)

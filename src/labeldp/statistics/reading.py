"""Any file of a statistic, by what it says that it holds."""

from __future__ import annotations

from pathlib import Path

from labeldp.errors import FileFormatError
from labeldp.release.sealed import statistic_name
from labeldp.statistics.choice_file import ChoicePlan, ModelChosen
from labeldp.statistics.confusion_file import ConfusionPlan, NoisyConfusion
from labeldp.statistics.moments_file import Moments, MomentsPlan
from labeldp.statistics.score_file import Score, ScorePlan
from labeldp.statistics.statistic import StatisticFile

_KINDS: dict[str, type[Score] | type[ModelChosen] | type[Moments] | type[NoisyConfusion]] = {
    ScorePlan.name: Score,
    ChoicePlan.name: ModelChosen,
    MomentsPlan.name: Moments,
    ConfusionPlan.name: NoisyConfusion,
}


def load_statistic(path: Path) -> StatisticFile:
    """Checked, and its certificate computed anew."""
    name = statistic_name(path)
    if name not in _KINDS:
        raise FileFormatError(f"{path} holds no statistic that this labeldp knows; update to read it.")
    return _KINDS[name].load(path)

"""One noisy statistic: what the label owner computes from all labels at once, adds noise to once, and hands over."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeldp.statistics.choice_file import ModelChosen as ModelChosen
    from labeldp.statistics.confusion_file import NoisyConfusion as NoisyConfusion
    from labeldp.statistics.histogram_file import LabelHistogram as LabelHistogram
    from labeldp.statistics.histogram_file import histogram as histogram
    from labeldp.statistics.moments_file import Moments as Moments
    from labeldp.statistics.moments_file import moments as moments
    from labeldp.statistics.score_file import Score as Score
    from labeldp.statistics.scoring import score as score

_WHERE = {
    "LabelHistogram": "histogram_file", "ModelChosen": "choice_file", "Moments": "moments_file", "NoisyConfusion": "confusion_file",
    "Score": "score_file", "histogram": "histogram_file", "moments": "moments_file", "score": "scoring",
}  # fmt: skip

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f"labeldp.statistics.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'labeldp.statistics' has no attribute {name!r}")

"""The same idea for people who never touch torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeldp.estimators.classifier import LabelDPClassifier
    from labeldp.estimators.histogram import LabelDPHistogram
    from labeldp.estimators.moments import LabelDPMoments

__all__ = ["LabelDPClassifier", "LabelDPHistogram", "LabelDPMoments"]


def __getattr__(name: str) -> Any:
    """The estimators, when asked for: they need scikit-learn, and boosting and the linear model do not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise ImportError(f'{name} needs scikit-learn: pip install "labeldp[sklearn]"') from error
    if name == "LabelDPMoments":
        from labeldp.estimators.moments import LabelDPMoments

        return LabelDPMoments
    if name == "LabelDPHistogram":
        from labeldp.estimators.histogram import LabelDPHistogram

        return LabelDPHistogram
    from labeldp.estimators.classifier import LabelDPClassifier

    return LabelDPClassifier

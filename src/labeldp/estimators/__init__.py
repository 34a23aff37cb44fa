"""The same idea for people who never touch torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeldp.estimators.classifier import LabelDPClassifier

__all__ = ["LabelDPClassifier"]


def __getattr__(name: str) -> Any:
    """`LabelDPClassifier`, when asked for: it needs scikit-learn, and boosting and the linear model do not."""
    if name != "LabelDPClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import sklearn  # noqa: F401
    except ImportError as error:
        raise ImportError('LabelDPClassifier needs scikit-learn: pip install "labeldp[sklearn]"') from error
    from labeldp.estimators.classifier import LabelDPClassifier

    return LabelDPClassifier

"""The same idea for people who never touch torch."""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError('the estimators need scikit-learn: pip install "labeldp[sklearn]"') from error

from labeldp.estimators.classifier import LabelDPClassifier

__all__ = ["LabelDPClassifier"]

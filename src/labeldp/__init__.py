"""labeldp: train on labels that are the secret, with a proven label-differential-privacy guarantee.

Importing this does nothing; each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from labeldp.renamed import find_moved_modules

__version__ = "0.1.0"

if TYPE_CHECKING:
    from labeldp import denoise as denoise
    from labeldp.accounting.cost import Cost as Cost
    from labeldp.accounting.ledger import Ledger as Ledger
    from labeldp.entropy import SecureEntropy as SecureEntropy
    from labeldp.entropy import SeededEntropy as SeededEntropy
    from labeldp.errors import AccountingError as AccountingError
    from labeldp.errors import AlreadyReleasedError as AlreadyReleasedError
    from labeldp.errors import BudgetError as BudgetError
    from labeldp.errors import FileFormatError as FileFormatError
    from labeldp.errors import InputError as InputError
    from labeldp.errors import LabelDPError as LabelDPError
    from labeldp.errors import LedgerError as LedgerError
    from labeldp.errors import RefusedError as RefusedError
    from labeldp.errors import RepeatedReleaseWarning as RepeatedReleaseWarning
    from labeldp.errors import UnfinishedError as UnfinishedError
    from labeldp.errors import VerificationError as VerificationError
    from labeldp.evaluation.accuracy import estimate_accuracy as estimate_accuracy
    from labeldp.evaluation.confusion import estimate_class_shares as estimate_class_shares
    from labeldp.evaluation.confusion import estimate_confusion as estimate_confusion
    from labeldp.mechanisms import Gaussian as Gaussian
    from labeldp.mechanisms import Laplace as Laplace
    from labeldp.mechanisms import NoPrivacy as NoPrivacy
    from labeldp.mechanisms import RandomizedResponse as RandomizedResponse
    from labeldp.mechanisms import SubsetSelection as SubsetSelection
    from labeldp.mechanisms import UnaryEncoding as UnaryEncoding
    from labeldp.mechanisms.plan import plan as plan
    from labeldp.mechanisms.plan import recommend as recommend
    from labeldp.private import PrivateLabels as PrivateLabels
    from labeldp.release.release import Release as Release

_WHERE = {
    "Cost": "accounting.cost", "Ledger": "accounting.ledger", "SecureEntropy": "entropy", "SeededEntropy": "entropy",
    "AccountingError": "errors", "AlreadyReleasedError": "errors", "BudgetError": "errors", "FileFormatError": "errors",
    "InputError": "errors", "LabelDPError": "errors", "LedgerError": "errors", "RefusedError": "errors",
    "RepeatedReleaseWarning": "errors", "UnfinishedError": "errors", "VerificationError": "errors",
    "estimate_accuracy": "evaluation.accuracy",
    "estimate_class_shares": "evaluation.confusion", "estimate_confusion": "evaluation.confusion",
    "Gaussian": "mechanisms", "Laplace": "mechanisms", "NoPrivacy": "mechanisms", "RandomizedResponse": "mechanisms",
    "SubsetSelection": "mechanisms", "UnaryEncoding": "mechanisms", "plan": "mechanisms.plan", "recommend": "mechanisms.plan",
    "PrivateLabels": "private", "Release": "release.release",
}  # fmt: skip

__all__ = sorted(_WHERE)

find_moved_modules()


# Packages, so that `labeldp.training.PosteriorLoss()` works after `import labeldp` alone.
_PACKAGES = (
    "accounting",
    "audit",
    "commands",
    "data",
    "denoise",
    "estimators",
    "mechanisms",
    "models",
    "release",
    "report",
    "statistics",
    "training",
)


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"labeldp.{name}")
    if name in _WHERE:
        return getattr(importlib.import_module(f"labeldp.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'labeldp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

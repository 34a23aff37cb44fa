"""The feature owner's half: training from evidence. Torch begins here."""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError('training needs PyTorch: pip install "labeldp[train]"') from error

from labeldp.training.collate import EvidenceCollator
from labeldp.training.loss import PosteriorLoss, posterior

__all__ = ["EvidenceCollator", "PosteriorLoss", "posterior"]

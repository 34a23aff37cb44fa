"""The feature owner's half: training from evidence. Torch begins here."""

try:
    # Both now: what a checkpoint takes must not be missed when labels are released and an epoch is done.
    import safetensors  # noqa: F401
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError(f'training needs {error.name}: pip install "labeldp[train]"') from error

from labeldp.training.loss import EvidenceCollator, PosteriorLoss, posterior

__all__ = ["EvidenceCollator", "PosteriorLoss", "posterior"]

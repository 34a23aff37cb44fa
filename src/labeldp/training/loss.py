"""One loss for every mechanism: the likelihood of what was released.

With p = softmax(logits) and evidence_c = log p(observation | label = c) + const,

    loss = −log Σ_c p_c · p(observation | c) = −logsumexp(log_softmax(logits) + evidence) + const.

Its gradient is that of cross-entropy against the posterior softmax(log p + evidence) as a fixed soft label, which is the paper's
Algorithm 3: ∂loss/∂logits = p − posterior.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import default_collate

from labeldp.release import Release


def posterior(logits: Tensor, evidence: Tensor | npt.NDArray[np.floating]) -> Tensor:
    """p(label | observation) when softmax(logits) is the prior (the paper's Eq. 4, for any mechanism); float32."""
    return functional.softmax(_joint(logits, evidence), dim=-1)


class PosteriorLoss(nn.Module):
    """−log p(observation), up to a constant of the mechanism (so it may be negative). Two lines of an existing loop change:

        criterion = labeldp.training.PosteriorLoss()
        loss = criterion(model(x), release.evidence(rows))

    The prior is the model's own output, as in ALIBI. With `prior_logits` it is something else that no gradient flows into:
    the output of an averaged model, fixed log-probabilities (one row, or one for each example), or zeros for none.
    `reduction` is as in torch's own losses: "mean" over the batch, "sum", or "none" for one number a row.
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction is 'mean', 'sum' or 'none'; got {reduction!r}")
        self.reduction = reduction

    def forward(
        self, logits: Tensor, evidence: Tensor | npt.NDArray[np.floating], prior_logits: Tensor | None = None
    ) -> Tensor:
        """The loss of a batch: logits (n, C), evidence (n, C)."""
        if prior_logits is None:
            losses = -torch.logsumexp(_joint(logits, evidence), dim=-1)
        else:
            target = posterior(prior_logits.detach().expand_as(logits), evidence)
            losses = -(target * functional.log_softmax(logits.float(), dim=-1)).sum(dim=-1)
        return losses.mean() if self.reduction == "mean" else losses.sum() if self.reduction == "sum" else losses


class SoftLabelLoss(nn.Module):
    """Cross-entropy against `release.soft_labels(rows, …)`: −Σ_c t_c log p_c. For comparisons: it ignores how likely the noise was.

    Summed over the batch. Where additive noise was left as it is, t may be negative or not add up to 1, and the loss below zero.
    """

    def forward(self, logits: Tensor, target: Tensor | npt.NDArray[np.floating]) -> Tensor:
        """The loss of a batch: logits (n, C), target (n, C)."""
        target = torch.as_tensor(target, dtype=torch.float32).to(logits.device)
        if target.shape != logits.shape:
            raise ValueError(f"logits {tuple(logits.shape)} and targets {tuple(target.shape)} must have one shape")
        return -(target * functional.log_softmax(logits.float(), dim=-1)).sum()


def _joint(logits: Tensor, evidence: Tensor | npt.NDArray[np.floating]) -> Tensor:
    """log p(label) + evidence, in float32 whatever the model computes in."""
    if not isinstance(evidence, Tensor):
        if not isinstance(evidence, np.ndarray):
            raise TypeError(
                f"evidence is what release.evidence(rows) returns, or a tensor; got {type(evidence).__name__}"
            )
        evidence = torch.from_numpy(np.ascontiguousarray(evidence, dtype=np.float32))
    if evidence.ndim == logits.ndim - 1:
        raise ValueError(
            "the second argument is evidence, one number a class for each row (release.evidence(rows)); not labels or rows"
        )
    if evidence.shape != logits.shape:
        raise ValueError(f"logits {tuple(logits.shape)} and evidence {tuple(evidence.shape)} must have one shape")
    return functional.log_softmax(logits.float(), dim=-1) + evidence.to(logits.device, torch.float32)


# ----------------------------------------------------------------
# Batches for any data loader: rows become evidence, once a batch.


class EvidenceCollator:
    """Turns samples (x, row) into a batch (x, evidence); `collate_fn=EvidenceCollator(release)` of a DataLoader.

    Rows are positions in the release. It can be pickled, for loaders with worker processes.
    """

    def __init__(self, release: Release) -> None:
        self.release = release

    def __call__(self, samples: Sequence[tuple[Any, int]]) -> tuple[Any, Tensor]:
        """A batch."""
        x = default_collate([sample[0] for sample in samples])
        return x, torch.from_numpy(self.release.evidence([int(sample[1]) for sample in samples]))

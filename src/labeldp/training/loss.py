"""One loss for every mechanism: the likelihood of what was released.

With p = softmax(logits) and evidence_c = log p(observation | label = c) + const,

    loss = −log Σ_c p_c · p(observation | c) = −logsumexp(log_softmax(logits) + evidence) + const.

Its gradient is that of cross-entropy against the posterior softmax(log p + evidence) as a fixed soft label, which is the paper's
Algorithm 3: ∂loss/∂logits = p − posterior. A model of two classes may have a single logit z, that of class 1, as for
BCEWithLogitsLoss: log p = (−softplus(z), −softplus(−z)), and all else is the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import default_collate

from labeldp.errors import InputError
from labeldp.release import Release


def posterior(logits: Tensor, evidence: Tensor | npt.NDArray[np.floating]) -> Tensor:
    """p(label | observation), (n, C), when softmax(logits) is the prior (the paper's Eq. 4, for any mechanism).

    Logits are (n, C); of two classes also (n,) or (n, 1), that of class 1. In float32, or float64 if they are.
    """
    known = _evidence(logits, evidence)
    return functional.softmax(_log_prior(logits, known) + known, dim=-1)


class PosteriorLoss(nn.Module):
    """−log p(observation), up to a constant of the mechanism (so it may be negative). Two lines of an existing loop change:

        criterion = labeldp.training.PosteriorLoss()
        loss = criterion(model(x), release.evidence(rows))

    Logits are (n, C), or for two classes a single one, that of class 1: (n,) or (n, 1).

    The prior is the model's own output, as in ALIBI. With `prior_logits` it is something else that no gradient flows into:
    the output of an averaged model, fixed log-probabilities (one row, or one for each example), or zeros for none; for a model of
    a single logit, single logits too.

    `reduction` is as in torch's own losses: "mean" over the batch, "sum", or "none" for one number a row: multiply these by weights
    of rows, if rows have any.

    `weight` is one positive number a class, as in CrossEntropyLoss, which it is if the labels are certain: the model learns
    p^w ∝ w_c p(c | x), and

        loss = −Σ_c w_c q_c log p^w_c,        q = softmax(log p^w − log w + evidence), detached,

    where "mean" divides by Σ w_c q_c. Where labels are uncertain the weight of a row is; q is what is believed of its label, so the
    prior is the model's output with the weights taken back (without that, each step would multiply the weights in once more,
    until noisy rows all go to the heaviest class). `prior_logits` are taken as they are: of an averaged model, give its output less
    log w. The value is no likelihood: compare models by the loss without weights. If all you want is another threshold, train
    without weights, keep probabilities that mean what they say, and add log w to the logits when predicting.
    """

    weight: Tensor | None

    def __init__(self, reduction: str = "mean", *, weight: Tensor | Sequence[float] | None = None) -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction is 'mean', 'sum' or 'none'; got {reduction!r}")
        self.reduction = reduction
        weights = None if weight is None else torch.as_tensor(weight, dtype=torch.float32)
        if weights is not None and (weights.ndim != 1 or not ((weights > 0) & weights.isfinite()).all()):
            raise ValueError(
                "weight is one positive number a class. (Not 0: where labels are uncertain, what is believed of a class must show "
                "in the model's output.)"
            )
        self.register_buffer("weight", weights)

    def forward(
        self, logits: Tensor, evidence: Tensor | npt.NDArray[np.floating], prior_logits: Tensor | None = None
    ) -> Tensor:
        """The loss of a batch: logits (n, C), evidence (n, C)."""
        known = _evidence(logits, evidence)
        log_p = _log_prior(logits, known)
        total: Tensor | float = float(log_p[..., 0].numel())
        if prior_logits is None and self.weight is None:
            losses = -torch.logsumexp(log_p + known, dim=-1)
        else:
            target = self._believed(log_p, logits, known, prior_logits)
            if self.weight is not None:
                target = target * self.weight.to(target)
                total = target.sum()
            losses = -(target * log_p).sum(dim=-1)
        return losses.sum() / total if self.reduction == "mean" else losses.sum() if self.reduction == "sum" else losses

    @torch.no_grad()
    def _believed(self, log_p: Tensor, logits: Tensor, known: Tensor, prior_logits: Tensor | None) -> Tensor:
        """The posterior, as a fixed soft label."""
        if self.weight is not None and len(self.weight) != known.shape[-1]:
            raise ValueError(f"there are {len(self.weight)} weights for {known.shape[-1]} classes")
        if prior_logits is not None:
            log_p = _log_prior(_like(prior_logits, logits, single=logits.shape != known.shape), known)
        elif self.weight is not None:
            log_p = log_p - self.weight.to(log_p).log()
        return functional.softmax(log_p + known, dim=-1)


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


def _evidence(logits: Tensor, evidence: Tensor | npt.NDArray[np.floating]) -> Tensor:
    """Where the logits are, and in float32 whatever the model computes in (float64 if that is what it computes in)."""
    if not isinstance(evidence, Tensor):
        if not isinstance(evidence, np.ndarray):
            raise TypeError(
                f"evidence is what release.evidence(rows) returns, or a tensor; got {type(evidence).__name__}"
            )
        evidence = torch.from_numpy(np.ascontiguousarray(evidence))
    if evidence.ndim < 2 or evidence.ndim < logits.ndim or not evidence.is_floating_point():
        raise ValueError(
            "the second argument is evidence, one number a class for each row (release.evidence(rows)); not labels or rows"
        )
    shape, classes = tuple(logits.shape), evidence.shape[-1]
    if shape != evidence.shape or classes < 2:
        single = shape in (evidence.shape[:-1], (*evidence.shape[:-1], 1))
        if not single:
            raise ValueError(
                f"logits {shape} and evidence {tuple(evidence.shape)} must have one shape, or logits one column less if there are "
                "two classes: (n,) or (n, 1), the logit of class 1"
            )
        if classes != 2:
            raise ValueError(
                f"a single logit a row, {shape}, tells two classes apart, and this evidence is of {classes}: the model needs "
                f"{classes} outputs"
            )
    return evidence.to(logits.device, torch.promote_types(logits.dtype, torch.float32))


def _log_prior(logits: Tensor, known: Tensor) -> Tensor:
    """log p(label), one column a class."""
    if logits.shape == known.shape:
        return functional.log_softmax(logits.to(known.dtype), dim=-1)
    z = logits.reshape(known.shape[:-1]).to(known.dtype)
    return torch.stack((functional.logsigmoid(-z), functional.logsigmoid(z)), dim=-1)


def _like(prior: Tensor, logits: Tensor, *, single: bool) -> Tensor:
    """A prior, or one for all rows, in the shape of the logits."""
    if single and prior.numel() == logits.numel():  # (n,) and (n, 1) are the same
        return prior.reshape(logits.shape)
    try:
        if not single and prior.shape[-1:] == (1,):  # spread over the classes it would say nothing
            raise RuntimeError
        return prior.expand_as(logits)
    except RuntimeError:
        raise ValueError(
            f"prior_logits {tuple(prior.shape)} are of another kind than logits {tuple(logits.shape)}: one row of them, or one for "
            "each example; where logits are single, log p(class 1) − log p(class 0)"
        ) from None


# ----------------------------------------------------------------
# Batches for any data loader: rows become evidence, once a batch.


class EvidenceCollator:
    """Turns rows into evidence: `collate_fn=EvidenceCollator(release)` of a DataLoader. Rows are positions in the release.

    Of samples (x, row) it makes a batch (x, evidence); of (x1, x2, row), (x1, x2, evidence); of dicts, as Hugging Face has them, a dict
    with `evidence_key` in place of `row_key`; of NamedTuples with a field `row_key`, one with evidence there. `collate_fn` makes the
    batch of all the rest: a tokenizer's DataCollatorWithPadding, for instance. It can be pickled, for loaders with worker processes.
    """

    def __init__(
        self,
        release: Release,
        *,
        row_key: str = "row",
        evidence_key: str = "evidence",
        collate_fn: Callable[[list[Any]], Any] = default_collate,
    ) -> None:
        self.release = release
        self.row_key = row_key
        self.evidence_key = evidence_key
        self.collate_fn = collate_fn

    def __call__(self, samples: Sequence[Any]) -> Any:
        """A batch."""
        first = samples[0]
        if isinstance(first, Mapping):
            return self._of_dicts(samples)
        if not isinstance(first, (tuple, list)) or len(first) < 2:
            raise InputError(
                f"a sample is (x, row), or a dict with {self.row_key!r}: where its label is in the release; got {type(first).__name__}."
            )
        fields = getattr(first, "_fields", ())
        place = fields.index(self.row_key) if self.row_key in fields else len(first) - 1
        evidence = self._evidence([sample[place] for sample in samples])
        if len(first) == 2 and not fields:
            return self.collate_fn([sample[0] for sample in samples]), evidence
        rest = self.collate_fn([(*sample[:place], *sample[place + 1 :]) for sample in samples])
        if not isinstance(rest, (tuple, list)):
            return rest, evidence
        batch = (*rest[:place], evidence, *rest[place:])
        return type(first)(*batch) if fields and len(batch) == len(fields) else batch

    def _of_dicts(self, samples: Sequence[Mapping[str, Any]]) -> Any:
        if self.row_key not in samples[0]:
            raise InputError(
                f"samples have no {self.row_key!r}, which says where their label is in the release; they have "
                f"{', '.join(map(repr, samples[0]))}. Name the right one: EvidenceCollator(release, row_key=…). (Hugging Face's Trainer "
                "removes columns that the model does not take: remove_unused_columns=False.)"
            )
        batch = self.collate_fn([{k: v for k, v in sample.items() if k != self.row_key} for sample in samples])
        batch[self.evidence_key] = self._evidence([sample[self.row_key] for sample in samples])
        return batch

    def _evidence(self, rows: list[Any]) -> Tensor:
        try:
            positions = [operator.index(row) for row in rows]
        except TypeError:
            raise InputError(
                f"rows are whole numbers, positions in the release (release.positions(ids)); got {type(rows[0]).__name__}."
            ) from None
        return torch.from_numpy(self.release.evidence(positions))

"""FixMatch (Sohn et al. 2020): a few labelled rows, and all rows through the model's own confident guesses.

With p_i the model's output for a weak view of row i, q_i that for a strong view of it, a labelled batch B and an unlabelled batch U,

    loss = 1/|B| Σ_B −log p(observation_i) + λ/|U| Σ_U [max_c p_ic ≥ τ] · (−log q_i at argmax_c p_ic).

No gradient flows through p. The unlabelled set is every feature row, labelled or not: features are public. For instance

    from labeldp.training.fixmatch import FixMatchTrainer
    from labeldp.training.recipe import fixmatch_recipe

    trainer = FixMatchTrainer(model, fixmatch_recipe("fast", 10), torch.device("cpu"), torch.float32)
    trainer.prepare(features)
    for metrics in trainer.fit(features, rows, release.evidence):  # rows: the labelled ones
        print(metrics)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from labeldp.errors import InputError
from labeldp.machine import ALONE, World
from labeldp.training.augment import mixed, noisy
from labeldp.training.recipe import Recipe
from labeldp.training.trainer import Evidence, Steps, Trainer, _check_logits

Rows = npt.NDArray[np.int64]

# Views of tables and embeddings: noise, as a share of each feature's spread; strong ones lean towards another row first, by up to a half.
# The best of nine on digits, four labels a class, three draws, on all rows: 91.0% (noise of 0.5 alone 89.2%, a fifth of the features
# dropped 89.5%, no unlabelled rows 81.4%). The choice matters little: with certain = 0.8, noise alone has 91.3% and this 91.0%.
_WEAK_NOISE, _STRONG_NOISE, _MIXED = 0.05, 0.2, 0.5
_KEPT = 0.999  # of a moving mean, a step


@dataclass
class FixMatchTrainer(Trainer):
    """A trainer whose recipe has `unlabelled` rows. `fit` takes the labelled rows and their evidence, as any trainer does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.recipe.unlabelled:
            raise InputError(
                "FixMatch needs unlabelled rows in each step: give unlabelled in the recipe, 7 for instance."
            )
        self.pseudo_labels = PseudoLabels(self.recipe, self.world)
        self._spread = torch.zeros(1)

    def fit(
        self, features: Tensor, rows: Rows, evidence: Evidence, on_step: Steps = lambda step, of: None
    ) -> Iterator[dict[str, float]]:
        """Train to the last epoch, yielding each epoch's metrics; an epoch is one pass over all features.

        loss            of the labelled rows
        loss_unlabelled of the others, before its weight
        mask            the share of unlabelled rows whose pseudo-label counts

        Labelled rows come in shuffled cycles, as often as it takes to fill their part of every step. A row whose evidence is the same
        for all classes (a query that PATE did not answer) is not one of them.
        """
        rows = _telling(rows, evidence)
        batch, pool = self.recipe.batch_size, len(features)
        steps = self._steps(pool)
        if not len(rows):
            raise InputError("FixMatch needs at least one labelled row: one whose evidence differs between classes.")
        if min(batch, pool // steps) < self.world.size:
            raise InputError(
                f"a step of {batch:,} labelled and {pool // steps:,} unlabelled rows is not enough for {self.world.size} processes; "
                "raise `batch_size`, or take fewer processes."
            )
        if features.ndim != 4:
            self._spread = features.float().std(dim=0, unbiased=False).to(self.device)
        epoch_flop = self.epoch_flop(features, rows)
        forward = self._forward()
        while self.epoch < self.recipe.epochs:
            start, losses = time.perf_counter(), []
            generator = self._shared_generator()
            order = torch.randperm(pool, generator=generator)
            cycles = _cycles(len(rows), steps * batch, generator)
            self._part_ways(generator)
            self.model.train()
            for step in range(steps):
                unlabelled = order[step * pool // steps : (step + 1) * pool // steps].numpy()
                labelled = rows[cycles[step * batch : (step + 1) * batch].numpy()]
                self._set_rates(step, steps)
                losses.append(self._both(forward, features, labelled, unlabelled, evidence, generator))
                on_step(self.epoch * steps + step + 1, steps * self.recipe.epochs)
            self.flop += epoch_flop
            loss, loss_unlabelled, mask = self._end_epoch(torch.stack(losses).mean(dim=0)).tolist()
            yield {
                "epoch": self.epoch,
                "loss": loss,
                "loss_unlabelled": loss_unlabelled,
                "mask": mask,
                "seconds": time.perf_counter() - start,
            }

    def _steps(self, pool: int) -> int:
        """In an epoch, which is one pass over so many rows."""
        return max(1, pool // (self.recipe.batch_size * self.recipe.unlabelled))

    def epoch_flop(self, features: Tensor, rows: Rows) -> int:
        """What an epoch takes: of unlabelled rows both views pass forward and back."""
        labelled = self._steps(len(features)) * self.recipe.batch_size
        return self.training_flop(features[:2]) * (labelled + 2 * len(features))

    def _both(
        self, forward: Any, features: Tensor, labelled: Rows, unlabelled: Rows, evidence: Evidence, generator: torch.Generator
    ) -> Tensor:  # fmt: skip
        """One update; both losses and the share of confident rows, as this process's summands of a mean over processes."""
        ours, others = (np.array_split(rows, self.world.size)[self.world.rank] for rows in (labelled, unlabelled))
        known, unknown = features[torch.from_numpy(ours)], features[torch.from_numpy(others)]
        views = (
            (self._strong if self.recipe.strong_labelled else self._weak)(known, ours, generator),
            self._weak(unknown, others, generator),
            self._strong(unknown, others, generator),
        )
        self._optimizer.zero_grad(set_to_none=True)
        # In one pass, so that all views share their batch statistics.
        x = torch.cat(views)
        with self._autocast():
            logits = forward(x)
        _check_logits(logits, len(x))
        seen, weak, strong = logits.float().split([len(view) for view in views])
        labels, counts = self.pseudo_labels(seen.detach(), weak.detach())
        loss = self._loss(views[0], seen, evidence(ours)) / len(labelled)
        guessed = (functional.cross_entropy(strong, labels, reduction="none") * counts).sum() / len(unlabelled)
        ((loss + self.recipe.unlabelled_weight * guessed) * self.world.size).backward()
        self._update()
        return torch.stack((loss.detach(), guessed.detach(), counts.sum() / len(unlabelled))) * self.world.size

    def _weak(self, x: Tensor, rows: Rows, generator: torch.Generator) -> Tensor:
        x = self._augmented(x, rows, generator, strongly=False)
        return x if x.ndim == 4 else noisy(x, _WEAK_NOISE * self._spread, generator)

    def _strong(self, x: Tensor, rows: Rows, generator: torch.Generator) -> Tensor:
        x = self._augmented(x, rows, generator)
        return x if x.ndim == 4 else noisy(mixed(x, _MIXED, generator), _STRONG_NOISE * self._spread, generator)

    def statistics(self) -> dict[str, Tensor]:
        """The moving means behind alignment and adaptive thresholds."""
        return self.pseudo_labels.means

    def set_statistics(self, statistics: dict[str, Tensor]) -> None:
        """As they were."""
        self.pseudo_labels.means = {name: value.to(self.device) for name, value in statistics.items()}


class PseudoLabels:
    """Labels that the model gives to weak views, and which of them count: those with max_c p_c ≥ τ.

    Alignment (ReMixMatch, AdaMatch) first rescales the model's p, with E a moving mean over steps, to

        p_c · t_c / E[p_c], normalised; t_c = E[p_c of labelled rows], or 1/C for "uniform".

    Adaptive thresholds (FreeMatch) are lower for classes that the model is less used to:

        τ_c = E[max p] · E[p_c] / max_k E[p_k]    (c = argmax p; E[max p] and E[p] begin at 1/C).
    """

    def __init__(self, recipe: Recipe, world: World = ALONE) -> None:
        self.recipe, self.world = recipe, world
        self.means: dict[str, Tensor] = {}

    @torch.no_grad()
    def __call__(self, labelled: Tensor, weak: Tensor) -> tuple[Tensor, Tensor]:
        """From a step's logits of labelled and of unlabelled rows: the latter's labels, and 1 or 0 for whether each counts."""
        p = functional.softmax(weak, dim=-1)
        if self.recipe.alignment != "none":
            target = torch.full_like(p[0], 1 / p.shape[1])
            if self.recipe.alignment == "labelled":
                target = self._moved("labelled", functional.softmax(labelled, dim=-1))
            p = p * (target / self._moved("unlabelled", p).clamp_min(1e-6))
            p = p / p.sum(dim=-1, keepdim=True)
        surest, labels = p.max(dim=-1)
        threshold = torch.full_like(surest, self.recipe.certain)
        if self.recipe.adaptive:
            usual = self._moved("classes", p)
            sure = self._moved("confidence", surest[:, None], start=1 / p.shape[1])
            threshold = (sure * usual / usual.max())[labels]
        if self.means:
            self.means["steps"] = self._steps() + 1
        return labels, (surest >= threshold).float()

    def _steps(self) -> Tensor:
        return self.means.get("steps", torch.zeros((), dtype=torch.int64))

    def _moved(self, name: str, rows: Tensor, start: float | None = None) -> Tensor:
        """The named mean, moved towards that of these rows (of all processes): by less as it has seen more, down to a thousandth."""
        total = self.world.mean(torch.cat((rows.sum(dim=0), rows.new_tensor([len(rows)]))))
        done = int(self._steps())
        kept = min(_KEPT, (1 + done) / (10 + done))
        old = self.means.get(name, rows.new_full((rows.shape[1],), start or 1 / rows.shape[1]))
        self.means[name] = kept * old + (1 - kept) * total[:-1] / total[-1]
        return self.means[name]


def _cycles(rows: int, count: int, generator: torch.Generator) -> Tensor:
    """`count` draws from so many rows: shuffled, all of them, then shuffled again."""
    return torch.rand(-(-count // rows), rows, generator=generator).argsort(dim=1).flatten()[:count]


def _telling(rows: Rows, evidence: Evidence, part: int = 10_000) -> Rows:
    """The rows whose evidence says anything: it differs between classes."""
    told = np.zeros(len(rows), dtype=bool)
    for start in range(0, len(rows), part):
        table = evidence(rows[start : start + part])
        told[start : start + part] = table.max(axis=1) > table.min(axis=1)
    return rows[told]

"""The training loop: small, deterministic given a seed, resumable after `kill -9` at the last finished epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel

from labeldp.errors import InputError
from labeldp.files.atomic import place_file
from labeldp.machine import ALONE, World, encode
from labeldp.training import original
from labeldp.training.augment import cutout, flip, mixed_pairs, randaugment, shift
from labeldp.training.loss import PosteriorLoss, SoftLabelLoss
from labeldp.training.recipe import Recipe

_SHARPENED = 0.5  # temperature of what consistency is with

Evidence = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float32]]
Steps = Callable[[int, int], None]


@dataclass
class Trainer:
    """Trains `model` on features and evidence. It never sees a label: evidence is all there is."""

    model: nn.Module
    recipe: Recipe
    device: torch.device
    dtype: torch.dtype
    world: World = ALONE
    compile: bool = False

    def __post_init__(self) -> None:
        self.model.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._optimizer = torch.optim.SGD(
            self._parameter_groups(self.recipe),
            lr=1.0,
            momentum=self.recipe.momentum,
            nesterov=self.recipe.momentum > 0,
        )
        self._rates = [group["rate"] for group in self._optimizer.param_groups]
        self.averaged: AveragedModel | None = None
        if self.recipe.average:
            # Buffers that are not averaged are copied from the model, step by step.
            averaged = self.recipe.strong != "original"
            self.averaged = AveragedModel(self.model, multi_avg_fn=_moving(self.recipe.average), use_buffers=averaged)
        self.mean = torch.zeros(1)
        self.scale = torch.ones(1)
        self.epoch = 0
        self.flop = 0

    def _parameter_groups(self, recipe: Recipe) -> list[dict[str, Any]]:
        norms = {
            id(p)
            for m in self.model.modules()
            if isinstance(m, nn.modules.batchnorm._BatchNorm)
            for p in m.parameters()
        }
        trained = [p for p in self.model.parameters() if p.requires_grad]
        spared = set() if recipe.bias_decay else {id(p) for p in trained if p.ndim < 2} - norms
        rate = recipe.learning_rate
        decay = recipe.weight_decay
        norm_rate, norm_decay = rate * recipe.norm_rate, decay if recipe.norm_decay else 0.0
        groups = [
            {"params": [p for p in trained if id(p) not in norms | spared], "rate": rate, "weight_decay": decay},
            {"params": [p for p in trained if id(p) in norms], "rate": norm_rate, "weight_decay": norm_decay},
            {"params": [p for p in trained if id(p) in spared], "rate": rate, "weight_decay": 0.0},
        ]
        return [group for group in groups if group["params"]]

    def prepare(self, features: Tensor) -> None:
        """Learn what can be learned from public features alone: their mean and spread, a whitening layer."""
        # Of images a sample will do; of tables it would not, since a rare column is constant in it.
        sample = features[:: max(1, len(features) // 5000)] if features.ndim == 4 else features
        if features.ndim == 4:
            pixels = sample.float()
            self.mean = pixels.mean(dim=(0, 2, 3))[:, None, None]
            self.scale = 1 / pixels.std(dim=(0, 2, 3)).clamp_min(1e-6)[:, None, None]
        prepare = getattr(self.model, "prepare", None)
        if callable(prepare):
            prepare(self._input(sample))

    def _input(self, x: Tensor) -> Tensor:
        x = x.to(self.device).float()
        if x.ndim == 4:
            x = ((x - self.mean.to(self.device)) * self.scale.to(self.device)).contiguous(
                memory_format=torch.channels_last
            )
        return x

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32)

    # ── training ──

    def fit(
        self, features: Tensor, rows: npt.NDArray[np.int64], evidence: Evidence, on_step: Steps = lambda step, of: None
    ) -> Iterator[dict[str, float]]:
        """Train to the last epoch, yielding each epoch's metrics; `self.epoch` epochs are done already.

        `on_step` is told after each step how many of how many are done. Among several processes, each takes its share of every
        batch, so that the batch, and what is learned, is that of one process (but for batch statistics, which are each one's own).
        """
        batch = self.step_rows(rows, evidence, self.world.size)
        steps = len(rows) // batch
        per_row = self.training_flop(features[torch.from_numpy(rows[:2])])
        consistency_flop = self._consistency_flop(per_row, len(rows))
        forward = self._forward()
        if self.averaged is not None and not int(self.averaged.n_averaged):
            self.averaged.module.load_state_dict(self.model.state_dict())  # what it was prepared with, or starts from
        while self.epoch < self.recipe.epochs:
            start, losses = time.perf_counter(), []
            generator = self._shared_generator()
            order = torch.randperm(len(rows), generator=generator)
            self._part_ways(generator)
            self.model.train()
            for step in range(steps):
                batch = rows[order[step * len(order) // steps : (step + 1) * len(order) // steps].numpy()]
                self._set_rates(step, steps)
                losses.append(self._step(forward, features, batch, evidence, generator))
                on_step(self.epoch * steps + step + 1, steps * self.recipe.epochs)
            self.flop += per_row * len(rows) + (consistency_flop if self._consistent() else 0)
            mean_loss = float(self._end_epoch(torch.stack(losses).mean()))
            yield {"epoch": self.epoch, "loss": mean_loss, "seconds": time.perf_counter() - start}

    def step_rows(self, rows: npt.NDArray[np.int64], evidence: Evidence, processes: int = 1) -> int:
        """How many of these rows a step has; refused, if they are too few for so many processes, each with its parts."""
        batch = min(self._adapted(rows, evidence).batch_size, len(rows))
        if batch // (processes * self.recipe.accumulate) < 2:
            raise InputError(
                f"a step of {batch:,} rows leaves less than two for each of {processes} processes × {self.recipe.accumulate} parts; "
                "raise `batch_size`, or lower `accumulate`."
            )
        return batch

    def _adapted(self, rows: npt.NDArray[np.int64], evidence: Evidence) -> Recipe:
        """The recipe for these rows, after whose learning rate and weight decay steps go from here on."""
        if not self.recipe.adapted:
            return self.recipe
        told = self.recipe.denoise == "bayes"
        share = _share_told(evidence(rows[:: max(1, len(rows) // 5000)])) if told else 1.0
        recipe = self.recipe.adapted_to(len(rows), share)
        for group, fresh in zip(self._optimizer.param_groups, self._parameter_groups(recipe), strict=True):
            group["weight_decay"] = fresh["weight_decay"]
        self._rates = [group["rate"] for group in self._parameter_groups(recipe)]
        return recipe

    def _shared_generator(self) -> torch.Generator:
        """Each epoch draws from generators of its own: resumed, it is the same epoch. Every process shares the first."""
        seed = self.recipe.seed * 1_000_003 + self.epoch
        begin = getattr(self.model, "begin_epoch", None)
        if callable(begin):
            begin(seed)
        return torch.Generator().manual_seed(seed)

    def _part_ways(self, generator: torch.Generator) -> None:
        """From here on each process draws for itself."""
        if self.world.rank:
            generator.manual_seed(generator.initial_seed() + self.world.rank * 1_000_000_007)

    def _set_rates(self, step: int, steps: int) -> None:
        factor = self.recipe.rate(self.epoch * steps + step, steps)
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor

    def _end_epoch(self, losses: Tensor) -> Tensor:
        """The epoch's mean losses, over all processes; refused if the training diverged."""
        self.epoch += 1
        # Batch statistics are each process's own; after an epoch all take the first's, which is what is saved.
        self.world.share_buffers(self.model, self.averaged)
        losses = self.world.mean(losses)
        if not torch.isfinite(losses).all():
            raise InputError(f"the training diverged in epoch {self.epoch}; a lower `learning_rate` helps.")
        return losses

    def _forward(self) -> Callable[[Tensor], Tensor]:
        forward: Any = self.model
        if self.world.size > 1:
            local = [self.device.index] if self.device.type == "cuda" else None
            forward = nn.parallel.DistributedDataParallel(self.model, device_ids=local)
        return torch.compile(forward) if self.compile else forward

    def _step(
        self, forward: Any, features: Tensor, batch: npt.NDArray[np.int64], evidence: Evidence, generator: torch.Generator
    ) -> Tensor:  # fmt: skip
        """One update from this batch of rows; the mean loss of this process's share of it."""
        own = np.array_split(batch, self.world.size)[self.world.rank]
        parts = np.array_split(own, self.recipe.accumulate)
        total = torch.zeros((), device=self.device)
        self._optimizer.zero_grad(set_to_none=True)
        for index, chosen in enumerate(parts):
            last = index == len(parts) - 1
            with nullcontext() if last or self.world.size == 1 else forward.no_sync():
                raw = features[torch.from_numpy(chosen)]
                x = self._augmented(raw, chosen, generator)
                believed = self._belief(raw, chosen, generator)
                x, partners, share = mixed_pairs(x, self.recipe.mixup, generator)
                with self._autocast():
                    logits = forward(x)
                _check_logits(logits, len(chosen))
                known = evidence(chosen)
                loss = self._loss(x, logits, known) + self._apart(logits, believed)
                if share < 1:
                    theirs = None if believed is None else believed[torch.from_numpy(partners)]
                    other = self._loss(x, logits, known[partners]) + self._apart(logits, theirs)
                    loss = share * loss + (1 - share) * other
                # Gradients are averaged over the processes; divided like this, the result is the mean over the whole batch.
                loss = loss * self.world.size / len(batch)
                loss.backward()
            total += loss.detach()
        self._update()
        return total

    def _loss(self, x: Tensor, logits: Tensor, known: npt.NDArray[np.float32]) -> Any:
        """Summed over rows. What is `known` of them is evidence; for uninformed post-processing, soft labels."""
        if self.recipe.denoise != "bayes":
            return SoftLabelLoss()(logits, known)
        return PosteriorLoss("sum")(logits, known, self._prior(x, logits))

    def _consistent(self) -> bool:
        return bool(self.recipe.consistency) and self.recipe.strong_in(self.epoch)

    @torch.no_grad()
    def _belief(self, raw: Tensor, rows: npt.NDArray[np.int64], generator: torch.Generator) -> Tensor | None:
        """What the averaged model says of weak views of these rows, sharpened: soft labels that know less of their noise than the model
        does. As they are, they would lead a model that is still unsure, at a high rate, back to knowing nothing."""
        if not self._consistent() or self.averaged is None:
            return None
        self.averaged.eval()
        with self._autocast():
            logits = self.averaged(self._augmented(raw, rows, generator, strongly=False))
        return torch.softmax(logits.float() / _SHARPENED, dim=-1)

    def _apart(self, logits: Tensor, believed: Tensor | None) -> Any:
        """How far the model is from that belief, summed over rows: consistency (Tarvainen & Valpola 2017), weighted."""
        if believed is None:
            return 0.0
        return self.recipe.consistency * functional.cross_entropy(logits.float(), believed, reduction="sum")

    def _update(self) -> None:
        self._optimizer.step()
        if self.averaged is not None:
            self.averaged.update_parameters(self.model)

    @torch.no_grad()
    def _prior(self, x: Tensor, logits: Tensor) -> Tensor | None:
        if self.recipe.prior == "model":
            return None
        if self.recipe.prior == "none" or self.averaged is None:
            return torch.zeros_like(logits)
        self.averaged.eval()
        with self._autocast():
            prior: Tensor = self.averaged(x)
        return prior

    def _augmented(
        self, x: Tensor, rows: npt.NDArray[np.int64], generator: torch.Generator, *, strongly: bool = True
    ) -> Tensor:
        """Shifted and mirrored; strongly, also by RandAugment and cutout, where the recipe has them."""
        if x.ndim != 4:
            return self._input(x)
        recipe, published = self.recipe, self.recipe.strong == "original"
        strongly = strongly and recipe.strong_in(self.epoch)
        if strongly and (recipe.randaugment or (recipe.cutout and published)) and x.dtype != torch.uint8:
            name = "randaugment" if recipe.randaugment else "cutout"
            raise InputError(f"`{name}` is for images of bytes (0 to 255); these features are not.")
        if published:
            x = self._weakly(x.to(self.device).float(), rows, generator)
            if recipe.randaugment and strongly:
                x = original.randaugment(x, recipe.randaugment, generator)
            if recipe.cutout and strongly:
                x = original.cutout(x, recipe.cutout, generator)
            return self._input(x)
        if recipe.randaugment and strongly:
            x = randaugment(x.to(self.device), recipe.randaugment, generator)
        x = self._weakly(self._input(x), rows, generator)
        if recipe.cutout and strongly:
            x = cutout(x, recipe.cutout, generator)
        return x.contiguous(memory_format=torch.channels_last)

    def _weakly(self, x: Tensor, rows: npt.NDArray[np.int64], generator: torch.Generator) -> Tensor:
        """Shifted and mirrored, where the recipe says so."""
        recipe = self.recipe
        if recipe.shift:
            x = shift(x, recipe.shift, generator)
        if recipe.flip:
            if recipe.mirror == "coin":
                mirrored = torch.rand(len(x), generator=generator) < 0.5
            else:  # every image is mirrored every other epoch: half of what a coin would show it twice is new
                mirrored = torch.from_numpy(_halves(rows, recipe.seed)) ^ bool(self.epoch % 2)
            x = flip(x, mirrored.to(x.device))
        return x

    # ── what it has learned ──

    @torch.no_grad()
    def probabilities(self, features: Tensor, batch: int = 2000) -> npt.NDArray[np.float32]:
        """Softmax outputs for these rows; averaged over both mirror images where training used them."""
        model = self.model if self.averaged is None else self.averaged
        model.eval()
        parts = []
        for start in range(0, len(features), batch):
            x = self._input(features[start : start + batch])
            with self._autocast():
                logits = model(x).float()
                if x.ndim == 4 and self.recipe.flip and self.recipe.mirror == "alternate":
                    logits = (logits + model(x.flip(3)).float()) / 2
            parts.append(torch.softmax(logits, dim=-1).cpu())
        return torch.cat(parts).numpy()

    def epoch_flop(self, features: Tensor, rows: npt.NDArray[np.int64]) -> int:
        """What an epoch of these rows takes at most; consistency may begin late."""
        per_row = self.training_flop(features[torch.from_numpy(rows[:2])])
        return per_row * len(rows) + (self._consistency_flop(per_row, len(rows)) if self.recipe.consistency else 0)

    def _consistency_flop(self, per_row: int, rows: int) -> int:
        """A third of a step's operations is the pass forward, and consistency has one more."""
        return per_row // 3 * rows

    def training_flop(self, x: Tensor) -> int:
        """Of one row: a forward pass, and twice that for the gradients."""
        from torch.utils.flop_counter import FlopCounterMode

        was_training = self.model.training
        self.model.eval()
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            self.model(self._input(x))
        self.model.train(was_training)
        return 3 * int(counter.get_total_flops()) // len(x)

    # ── checkpoints: everything that continuing needs, as safetensors. Nothing in such a file is executed ──

    def save(self, path: Path) -> None:
        """Write the state, placed in one step."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {"input.mean": self.mean, "input.scale": self.scale}
        if self.averaged is not None:
            tensors |= {f"average.{name}": value for name, value in self.averaged.state_dict().items()}
        tensors |= {f"momentum.{index}": value for index, value in self.momenta().items()}
        tensors |= {f"statistics.{name}": value for name, value in self.statistics().items()}
        content = encode(tensors, {"epoch": str(self.epoch), "flop": str(self.flop)})
        place_file(path, lambda file: file.write(content))

    def load(self, path: Path) -> None:
        """Bring a fresh trainer to the state that was saved."""
        with _opened(path) as (tensors, counts):
            self._begin_with(tensors)
            if self.averaged is not None:
                self.averaged.load_state_dict(_part(tensors, "average."))
            self.epoch, self.flop = int(counts["epoch"]), int(counts["flop"])
            self.set_momenta({int(index): value for index, value in _part(tensors, "momentum.").items()})
            self.set_statistics(_part(tensors, "statistics."))

    def begin_with(self, path: Path) -> None:
        """Take a checkpoint's model, and how it saw images; epochs, momenta and averages begin anew."""
        with _opened(path) as (tensors, _):
            self._begin_with(tensors)

    def _begin_with(self, tensors: dict[str, Tensor]) -> None:
        self.model.load_state_dict(_part(tensors, "model."))
        self.mean, self.scale = tensors["input.mean"], tensors["input.scale"]

    def statistics(self) -> dict[str, Tensor]:
        """What a trainer remembers beside model, average and momenta."""
        return {}

    def set_statistics(self, statistics: dict[str, Tensor]) -> None:
        """Let it remember. A plain trainer has nothing to: it opens other trainers' checkpoints to predict."""

    def _trained(self) -> list[nn.Parameter]:
        return [p for group in self._optimizer.param_groups for p in group["params"]]

    def momenta(self) -> dict[int, Tensor]:
        """What SGD remembers, by the number of the parameter."""
        states = ((index, self._optimizer.state[p].get("momentum_buffer")) for index, p in enumerate(self._trained()))
        return {index: momentum for index, momentum in states if momentum is not None}

    def set_momenta(self, momenta: dict[int, Tensor]) -> None:
        """Let SGD remember."""
        for index, parameter in enumerate(self._trained()):
            if index in momenta:
                self._optimizer.state[parameter]["momentum_buffer"] = momenta[index].to(self.device)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[dict[str, Tensor], dict[str, str]]]:
    """A checkpoint's tensors, and what is counted in it; whatever does not fit is refused in a sentence."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            yield {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, RuntimeError, TypeError, ValueError):
        raise InputError(f"{path} is not a checkpoint of this model.") from None


def _part(tensors: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    return {key.removeprefix(name): value for key, value in tensors.items() if key.startswith(name)}


def _check_logits(logits: Any, rows: int) -> None:
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != rows:
        what = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
        raise InputError(
            f"a model returns logits, a tensor of {rows} rows and one column a class; this one returned {what}."
        )


def _share_told(evidence: npt.NDArray[np.float32]) -> float:
    """The share of a label that rows tell: 1 − H(posterior of a uniform prior)/log C, on average."""
    posterior = torch.softmax(torch.tensor(evidence, dtype=torch.float64), dim=-1)
    return 1 - float(torch.special.entr(posterior).sum(dim=-1).mean()) / math.log(evidence.shape[1])


def _moving(share: float) -> Callable[[Any, Any, Any], None]:
    """An average that keeps `share` of itself a step, and less in the first steps: it must not remember a model that knew nothing."""

    @torch.no_grad()
    def update(averaged: list[Tensor], current: list[Tensor], steps: Tensor) -> None:
        done = int(steps)
        kept = min(share, (1 + done) / (10 + done))
        for old, new in zip(averaged, current, strict=True):
            if old.is_floating_point():
                old.lerp_(new.to(old.dtype), 1 - kept)
            else:
                old.copy_(new)

    return update


def _halves(rows: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.bool_]:
    """A fixed half of all rows: a hash of row and seed (splitmix64), so that no table of all rows is needed."""
    start = np.uint64(seed * 0x9E3779B97F4A7C15 % (1 << 64))
    x = (rows.astype(np.uint64) + start) * np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(31)
    x *= np.uint64(0x94D049BB133111EB)
    return (x >> np.uint64(63)).astype(bool)

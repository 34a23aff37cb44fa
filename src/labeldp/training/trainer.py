"""The training loop: small, deterministic given a seed, resumable after `kill -9` at the last finished epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from labeldp.errors import InputError
from labeldp.training.augment import flip, shift
from labeldp.training.loss import PosteriorLoss
from labeldp.training.recipe import Recipe

Evidence = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float32]]


@dataclass
class Trainer:
    """Trains `model` on features and evidence. It never sees a label: evidence is all there is."""

    model: nn.Module
    recipe: Recipe
    device: torch.device
    dtype: torch.dtype

    def __post_init__(self) -> None:
        self.model.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._optimizer = torch.optim.SGD(
            self._parameter_groups(), lr=1.0, momentum=self.recipe.momentum, nesterov=self.recipe.momentum > 0
        )
        self._rates = [group["rate"] for group in self._optimizer.param_groups]
        self.mean = torch.zeros(1)
        self.scale = torch.ones(1)
        self.epoch = 0
        self.flop = 0

    def _parameter_groups(self) -> list[dict[str, Any]]:
        norms = {
            id(p)
            for m in self.model.modules()
            if isinstance(m, nn.modules.batchnorm._BatchNorm)
            for p in m.parameters()
        }
        trained = [p for p in self.model.parameters() if p.requires_grad]
        rate = self.recipe.learning_rate
        decay = self.recipe.weight_decay
        norm_rate, norm_decay = rate * self.recipe.norm_rate, decay if self.recipe.norm_decay else 0.0
        groups = [
            {"params": [p for p in trained if id(p) not in norms], "rate": rate, "weight_decay": decay},
            {"params": [p for p in trained if id(p) in norms], "rate": norm_rate, "weight_decay": norm_decay},
        ]
        return [group for group in groups if group["params"]]

    def prepare(self, features: Tensor) -> None:
        """Learn what can be learned from public features alone: their mean and spread, a whitening layer."""
        sample = features[:: max(1, len(features) // 5000)]
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

    def fit(self, features: Tensor, rows: npt.NDArray[np.int64], evidence: Evidence) -> Iterator[dict[str, float]]:
        """Train to the last epoch, yielding each epoch's metrics; `self.epoch` epochs are done already."""
        steps = len(rows) // min(self.recipe.batch_size, len(rows))
        criterion = PosteriorLoss()
        per_row = self._training_flop(features[torch.from_numpy(rows[:2])])
        while self.epoch < self.recipe.epochs:
            start, losses = time.perf_counter(), []
            # Each epoch draws from a generator of its own: resumed, it is the same epoch.
            generator = torch.Generator().manual_seed(self.recipe.seed * 1_000_003 + self.epoch)
            order = torch.randperm(len(rows), generator=generator)
            mirrored = torch.rand(len(features), generator=torch.Generator().manual_seed(self.recipe.seed)) < 0.5
            self.model.train()
            for step in range(steps):
                chosen = rows[order[step * len(order) // steps : (step + 1) * len(order) // steps].numpy()]
                factor = self.recipe.rate(self.epoch * steps + step, steps)
                for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
                    group["lr"] = rate * factor
                x = self._augmented(features[torch.from_numpy(chosen)], mirrored[torch.from_numpy(chosen)], generator)
                with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
                    logits = self.model(x)
                loss = criterion(logits, evidence(chosen))
                self._optimizer.zero_grad(set_to_none=True)
                loss.backward()
                self._optimizer.step()
                losses.append(loss.detach())
            self.flop += per_row * len(rows)
            self.epoch += 1
            mean_loss = float(torch.stack(losses).mean())
            if not np.isfinite(mean_loss):
                raise InputError(f"the training diverged in epoch {self.epoch}; a lower --learning-rate helps.")
            yield {"epoch": self.epoch, "loss": mean_loss, "seconds": time.perf_counter() - start}

    def _augmented(self, x: Tensor, mirrored: Tensor, generator: torch.Generator) -> Tensor:
        x = self._input(x)
        if x.ndim == 4 and self.recipe.shift:
            x = shift(x, self.recipe.shift, generator)
        if x.ndim == 4 and self.recipe.flip:
            if self.recipe.mirror == "coin":
                mirrored = torch.rand(len(x), generator=generator) < 0.5
            else:  # every image is mirrored every other epoch: half of what a coin would show it twice is new
                mirrored = mirrored ^ bool(self.epoch % 2)
            x = flip(x, mirrored.to(x.device))
        return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x

    @torch.no_grad()
    def probabilities(self, features: Tensor, batch: int = 2000) -> npt.NDArray[np.float32]:
        """Softmax outputs for these rows; averaged over both mirror images where training used them."""
        self.model.eval()
        parts = []
        for start in range(0, len(features), batch):
            x = self._input(features[start : start + batch])
            with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
                logits = self.model(x).float()
                if x.ndim == 4 and self.recipe.flip and self.recipe.mirror == "alternate":
                    logits = (logits + self.model(x.flip(3)).float()) / 2
            parts.append(torch.softmax(logits, dim=-1).cpu())
        return torch.cat(parts).numpy()

    def _training_flop(self, x: Tensor) -> int:
        """Of one row: a forward pass, and twice that for the gradients."""
        from torch.utils.flop_counter import FlopCounterMode

        was_training = self.model.training
        self.model.eval()
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            self.model(self._input(x))
        self.model.train(was_training)
        return 3 * int(counter.get_total_flops()) // len(x)

    # ── checkpoints ──

    def save(self, path: Path) -> None:
        """Everything that continuing needs, as safetensors, placed in one step."""
        from safetensors.torch import save

        from labeldp.release.place import place_file

        tensors = {f"model.{name}": value.contiguous() for name, value in self.model.state_dict().items()}
        tensors |= {"input.mean": self.mean, "input.scale": self.scale}
        for index, parameter in enumerate(p for group in self._optimizer.param_groups for p in group["params"]):
            momentum = self._optimizer.state[parameter].get("momentum_buffer")
            if momentum is not None:
                tensors[f"momentum.{index}"] = momentum.contiguous()
        content = save({k: v.cpu() for k, v in tensors.items()}, {"epoch": str(self.epoch), "flop": str(self.flop)})
        place_file(path, lambda file: file.write(content))

    def load(self, path: Path) -> None:
        """Continue from a checkpoint. Nothing in the file is executed."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata()
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            self.model.load_state_dict({k[6:]: v for k, v in tensors.items() if k.startswith("model.")})
            self.mean, self.scale = tensors["input.mean"], tensors["input.scale"]
            self.epoch, self.flop = int(metadata["epoch"]), int(metadata["flop"])
        except (SafetensorError, OSError, KeyError, RuntimeError, TypeError, ValueError):
            raise InputError(f"{path} is not a checkpoint of this model.") from None
        for index, parameter in enumerate(p for group in self._optimizer.param_groups for p in group["params"]):
            if f"momentum.{index}" in tensors:
                self._optimizer.state[parameter]["momentum_buffer"] = tensors[f"momentum.{index}"].to(self.device)

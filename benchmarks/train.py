"""What a training step costs, all in one run: `python benchmarks/train.py [--threads 1] [--out benchmarks/results/train.json]`.

1. A Wide-ResNet-28-4 step of ALIBI as `labeldp` does it against a straightforward one: float32, NCHW, augmentation image by image, the
   posterior by a loop over classes (C² terms), as the paper's code does it. Turns alternate.
2. The step of `fast`: its FLOP/s as a share of what `torch.mm` reaches for 2048² matrices in the same number type with the same threads.
3. What `--compile` and RandAugment change.

`torch.mm` in float32 is measured too: where bfloat16 is only twice as fast in hardware, no step can be much more than that.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import machine, summary
from torch import Tensor
from torch.nn import functional

from labeldp import PrivateLabels, SecureEntropy, models
from labeldp.machine import Machine
from labeldp.mechanisms import Laplace
from labeldp.training.augment import randaugment
from labeldp.training.recipe import default_recipe, paper_recipe
from labeldp.training.trainer import Trainer

CLASSES = 10
SCALE = 2.0  # λ = 2/ε at ε = 1


class Straightforward:
    """A step as one would write it first."""

    def __init__(self, images: Tensor, noisy: Tensor, batch: int) -> None:
        torch.manual_seed(0)
        self.model = models.build("wide-resnet-28-4", (3, 32, 32), CLASSES)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
        self.images, self.noisy, self.batch = images, noisy, batch

    def step(self, start: int) -> None:
        rows = [(start + i) % len(self.images) for i in range(self.batch)]
        x = torch.stack([self.augmented(self.images[row]) for row in rows])
        logits = self.model(x)
        prior = functional.softmax(logits, dim=1).detach()
        target = self.posterior(self.noisy[rows], prior)
        loss = -(target * functional.log_softmax(logits, dim=1)).sum(dim=1).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    @staticmethod
    def augmented(image: Tensor) -> Tensor:
        x = functional.pad(image.float()[None] / 255, (4, 4, 4, 4), mode="reflect")[0]
        down, right = np.random.randint(0, 9, 2)  # noqa: NPY002
        x = x[:, down : down + 32, right : right + 32]
        if np.random.rand() < 0.5:  # noqa: NPY002
            x = x.flip(2)
        return (x - 0.47) / 0.25

    @staticmethod
    def posterior(noisy: Tensor, prior: Tensor) -> Tensor:
        """p(c | o) ∝ Π_j Laplace(o_j − [j = c]) · p(c), term by term."""
        columns = []
        for c in range(CLASSES):
            log_likelihood = torch.zeros(len(noisy))
            for j in range(CLASSES):
                log_likelihood = log_likelihood - (noisy[:, j] - float(j == c)).abs() / SCALE
            columns.append(log_likelihood)
        return functional.softmax(torch.stack(columns, dim=1) + prior.log(), dim=1)


def ours(
    name: str, images: Tensor, evidence: Callable[[Any], Any], batch: int, **changes: Any
) -> Callable[[int], None]:
    """One training step of labeldp's own loop, for a given first row."""
    torch.manual_seed(0)
    recipe = paper_recipe() if name.startswith("wide") else default_recipe(name)
    compiled = changes.pop("compile", False)
    device, dtype = Machine().chosen(images=True)
    trainer = Trainer(
        models.build(name, (3, 32, 32), CLASSES), replace(recipe, batch_size=batch, **changes), device, dtype
    )
    trainer.compile = compiled
    trainer.prepare(images)
    forward, generator = trainer._forward(), torch.Generator().manual_seed(0)
    trainer.model.train()
    for group in trainer._optimizer.param_groups:
        group["lr"] = 0.01

    def step(start: int) -> None:
        rows = (start + np.arange(batch)) % len(images)
        trainer._step(forward, images, rows, evidence, generator)

    return step


def seconds(work: Callable[[int], None], start: int) -> float:
    before = time.perf_counter()
    work(start)
    return time.perf_counter() - before


def turns(contenders: dict[str, Callable[[int], None]], repeats: int) -> dict[str, list[float]]:
    """Each in turn, so that whatever else happens on the machine happens to all of them."""
    for work in contenders.values():
        work(0)
        work(1)
    took: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(repeats):
        for name, work in contenders.items():
            took[name].append(seconds(work, turn * 512))
    return took


def matrix_rate(dtype: torch.dtype, size: int = 2048) -> Callable[[int], None]:
    a, b = (torch.randn(size, size).to(dtype) for _ in range(2))
    return lambda start: torch.mm(a, b)


def flop(name: str, batch: int) -> int:
    trainer = Trainer(
        models.build(name, (3, 32, 32), CLASSES), default_recipe(name), torch.device("cpu"), torch.float32
    )
    return trainer._training_flop(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)) * batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=128, help="of the Wide-ResNet, as in the paper")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/train.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(0, 256, (4096, 3, 32, 32)).astype(np.uint8))
    mechanism = Laplace.calibrated(epsilon=1.0, num_classes=CLASSES)
    observations = mechanism.observe_uncharged(
        PrivateLabels(rng.integers(0, CLASSES, len(images)), CLASSES), SecureEntropy()
    )
    noisy = torch.from_numpy(rng.laplace(0, SCALE, (len(images), CLASSES)).astype(np.float32))

    def evidence(rows: Any) -> Any:
        return mechanism.evidence(observations[rows])

    dtype = Machine().chosen(images=True)[1]
    plain = Straightforward(images, noisy, arguments.batch)
    wide = turns(
        {
            "labeldp": ours("wide-resnet-28-4", images, evidence, arguments.batch),
            "straightforward": plain.step,
            "labeldp, compiled": ours("wide-resnet-28-4", images, evidence, arguments.batch, compile=True),
        },
        arguments.repeats,
    )
    fast = turns(
        {
            "fast": ours("fast", images, evidence, 512),
            "mm": matrix_rate(dtype),
            "mm, float32": matrix_rate(torch.float32),
            "fast, compiled": ours("fast", images, evidence, 512, compile=True),
            "fast, RandAugment(2)": ours("fast", images, evidence, 512, randaugment=2),
            "RandAugment(2) alone, 448 images": lambda start: randaugment(images[:448], 2, torch.Generator()),
        },
        3 * arguments.repeats,
    )
    ratios = [b / a for a, b in zip(wide["labeldp"], wide["straightforward"], strict=True)]
    step_rate = [flop("fast", 512) / t for t in fast["fast"]]
    mm_rate = [2 * 2048**3 / t for t in fast["mm"]]
    hardware = [b / a for a, b in zip(fast["mm"], fast["mm, float32"], strict=True)]
    shares = [a / b for a, b in zip(step_rate, mm_rate, strict=True)]
    at_least = 2.5 if dtype == torch.bfloat16 else 1.3
    result = {
        "machine": machine("torch", "numpy", "labeldp"),
        "dtype": str(dtype).removeprefix("torch."),
        "threads": arguments.threads,
        "batch": arguments.batch,
        "seconds": {name: summary(values) for name, values in (wide | fast).items()},
        "fast_flop_per_second": summary(step_rate),
        "mm_flop_per_second": summary(mm_rate),
        "mm_times_faster_than_float32": summary(hardware),
        "targets": [
            {"what": "Wide-ResNet-28-4 step, times faster than a straightforward one", "at_least": at_least, **summary(ratios)},
            {"what": "FLOP/s of a `fast` step as a share of torch.mm's", "at_least": 0.5, **summary(shares)},
        ],
    }  # fmt: skip
    for target in result["targets"]:
        target["met"] = target["mean"] >= target["at_least"]
        print(
            f"{target['what']}: {target['mean']:.3g} ± {target['sd']:.2g} (n = {target['n']}; at least {target['at_least']})"
        )
    arguments.out.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

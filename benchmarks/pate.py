"""What PATE costs in time, all in one run: `python benchmarks/pate.py [--only accounting …] [--out benchmarks/results/pate.json]`.

1. accounting: the data-dependent Rényi cost of 10,000 queries at 300 orders, against two loops in Python: over queries and orders (on 200
   queries, times 50), and over queries only, each vectorised over orders.
2. augmentation: the strong view (shift, flip, RandAugment, cutout) of 448 images at once, against image by image.
3. step: a whole FixMatch step of Wide-ResNet-28-2 as `labeldp` does it, against a straightforward one (float32, NCHW, augmentation image
   by image).
4. frozen: 1,000 linear teachers on 50,000 rows of 512 features, and their votes on 2,000 queries.
5. table: the published ε for the paper's six rows, at two caps on asked queries.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import machine, summary

PAPER = {  # the paper's ε at δ = 1e-5, data-dependent: its Table 1
    "pate-cifar10-high": 1.6, "pate-cifar10-medium": 0.29, "pate-cifar10-low": 0.18,
    "pate-cifar100-high": 715.0, "pate-cifar100-medium": 16.0, "pate-cifar100-low": 7.9,
}  # fmt: skip


def alternating(ours: Callable[[int], Any], theirs: Callable[[int], Any], turns: int) -> dict[str, Any]:
    """Seconds of each and their ratios, turn about, after one turn that does not count."""
    took: dict[str, list[float]] = {"ours": [], "theirs": []}
    for turn in range(turns + 1):
        for name, work in (("ours", ours), ("theirs", theirs)):
            start = time.perf_counter()
            work(turn)
            if turn:
                took[name].append(time.perf_counter() - start)
    ratios = [b / a for a, b in zip(took["ours"], took["theirs"], strict=True)]
    return {"ours_seconds": summary(took["ours"]), "theirs_seconds": summary(took["theirs"]), "ratio": summary(ratios)}


def accounting(turns: int) -> dict[str, Any]:
    from labeldp.accounting.votes import answer_rdp, threshold_rdp

    rng = np.random.default_rng(0)
    teachers, sigma1, sigma2, threshold = 250, 150.0, 40.0, 200
    shares = rng.dirichlet(np.ones(10), 10_000) * 0.4
    shares[np.arange(10_000), rng.integers(0, 10, 10_000)] += 0.6
    votes = np.array([rng.multinomial(teachers, p / p.sum()) for p in shares])
    orders = np.linspace(1.5, 300, 300)

    def ours(_: int) -> None:
        threshold_rdp(votes, threshold, sigma1, orders).sum(axis=0)
        answer_rdp(votes, sigma2, orders).sum(axis=0)

    def theirs(_: int) -> None:
        total = np.zeros(len(orders))
        for row in votes:
            total += _naive(math.log(_tail(abs(row.max() - threshold) / sigma1)), math.sqrt(2) * sigma1, orders)
            gaps = np.delete(row.max() - row, row.argmax())
            q = min(sum(_tail(gap / (math.sqrt(2) * sigma2)) for gap in gaps), 0.9)
            total += _naive(math.log(q), sigma2, orders)

    found = alternating(ours, theirs, turns) | {"queries": 10_000, "orders": 300}
    plain = []
    for _ in range(turns):
        start = time.perf_counter()
        total = [0.0] * len(orders)
        for row in votes[:200].tolist():
            log_tests = math.log(_tail(abs(max(row) - threshold) / sigma1))
            gaps = [max(row) - v for i, v in enumerate(row) if i != row.index(max(row))]
            log_q = math.log(min(sum(_tail(gap / (math.sqrt(2) * sigma2)) for gap in gaps), 0.9))
            for k, order in enumerate(orders):
                total[k] += float(_naive(log_tests, math.sqrt(2) * sigma1, order)) + float(_naive(log_q, sigma2, order))
        plain.append((time.perf_counter() - start) * 50)
    best = found["ours_seconds"]["mean"]
    return found | {"plain_seconds": summary(plain), "plain_ratio": summary([seconds / best for seconds in plain])}


def _tail(z: float) -> float:
    return math.erfc(z / math.sqrt(2)) / 2


def _naive(log_q: float, sigma: float, orders: Any) -> Any:
    """Theorem 6 of Papernot et al. 2018 for one query, all orders at once, as one would write it."""
    blind = orders / sigma**2
    mu2 = sigma * math.sqrt(-log_q)
    mu1 = mu2 + 1
    if mu2 <= 1:
        return blind
    e1, e2 = mu1 / sigma**2, mu2 / sigma**2
    limit = (mu2 - 1) * e2 - mu2 * (math.log1p(1 / mu2) + math.log1p(1 / (mu2 - 1)))
    if log_q > limit or -log_q <= e2:
        return blind
    q = math.exp(log_q)
    a = math.log1p(-q) - math.log1p(-math.exp((log_q + e2) * (1 - 1 / mu2)))
    b = e1 - log_q / mu2
    value = np.logaddexp(math.log1p(-q) + (orders - 1) * a, log_q + (orders - 1) * b) / (orders - 1)
    return np.where(orders < mu1, np.minimum(np.maximum(value, 0), blind), blind)


def _images(count: int) -> Any:
    import torch

    return torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def _strong(images: Any, generator: Any) -> Any:
    import torch

    from labeldp.training.augment import cutout, flip, randaugment, shift

    x = randaugment(images, 2, generator).float()
    x = shift(x, 4, generator)
    x = flip(x, torch.rand(len(x), generator=generator) < 0.5)
    return cutout(x, 16, generator)


def augmentation(turns: int) -> dict[str, Any]:
    import torch

    images = _images(448)
    generator = torch.Generator().manual_seed(1)

    def one_by_one(_: int) -> None:
        torch.cat([_strong(image[None], generator) for image in images])

    return alternating(lambda _: _strong(images, generator), one_by_one, turns) | {"images": len(images)}


class Straightforward:
    """A FixMatch step as one would write it first."""

    def __init__(self, images: Any, labels: Any) -> None:
        import torch

        from labeldp.models.resnets import WideResNet

        torch.manual_seed(0)
        self.model = WideResNet(10, 2)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.03, momentum=0.9, nesterov=True, weight_decay=5e-4
        )
        self.average = [p.detach().clone() for p in self.model.parameters()]
        self.images, self.labels = images, labels
        self.generator = torch.Generator().manual_seed(0)

    def view(self, rows: Any, strong: bool) -> Any:
        import torch

        from labeldp.training.augment import flip, shift

        made = []
        for row in rows:
            image = self.images[row : row + 1]
            if strong:
                x = _strong(image, self.generator)
            else:
                x = shift(image.float(), 4, self.generator)
                x = flip(x, torch.rand(1, generator=self.generator) < 0.5)
            made.append((x - 128) / 64)
        return torch.cat(made)

    def step(self, turn: int, labelled: int, unlabelled: int) -> None:
        import torch
        from torch.nn import functional

        order = torch.randperm(len(self.images), generator=self.generator)
        some, others = order[:labelled], order[labelled : labelled + unlabelled]
        x = torch.cat([self.view(some, False), self.view(others, False), self.view(others, True)])
        logits = self.model(x)
        sure, guess = functional.softmax(logits[labelled : labelled + unlabelled].detach(), dim=1).max(dim=1)
        loss = functional.cross_entropy(logits[:labelled], self.labels[some])
        every = functional.cross_entropy(logits[labelled + unlabelled :], guess, reduction="none")
        loss = loss + (every * (sure >= 0.95)).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            for old, new in zip(self.average, self.model.parameters(), strict=True):
                old.mul_(0.999).add_(new, alpha=0.001)


def step(turns: int) -> dict[str, Any]:
    """16 labelled and 112 unlabelled images a step."""
    import torch

    from labeldp.machine import Machine
    from labeldp.mechanisms import NoPrivacy
    from labeldp.models.resnets import WideResNet
    from labeldp.training.fixmatch import FixMatchTrainer
    from labeldp.training.recipe import fixmatch_recipe

    torch.set_num_threads(1)
    labelled, unlabelled = 16, 112
    images = _images(unlabelled)
    codes = np.arange(unlabelled) % 10
    device, dtype = Machine().chosen(images=True)
    torch.manual_seed(0)
    recipe = fixmatch_recipe("wide-resnet-28-2", 10, batch_size=labelled, epochs=10_000)
    trainer = FixMatchTrainer(WideResNet(10, 2), recipe, device, dtype)
    trainer.prepare(images)
    fit = trainer.fit(images, np.arange(unlabelled), lambda rows: NoPrivacy(10).evidence(codes[rows]))
    other = Straightforward(_images(256), torch.arange(256) % 10)
    found = alternating(lambda _: next(fit), lambda turn: other.step(turn, labelled, unlabelled), turns)
    return found | {"labelled": labelled, "unlabelled": unlabelled, "dtype": str(dtype), "threads": 1}


def frozen(turns: int) -> dict[str, Any]:
    from labeldp.pate.answers import draw_queries, draw_shards
    from labeldp.pate.linear import teacher_votes

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 50_000)
    features = (rng.normal(size=(10, 512))[labels] + rng.normal(size=(50_000, 512)) * 4).astype(np.float32)
    rows = np.arange(50_000)
    shards, queries = draw_shards(rows, 1000, 0), draw_queries(rows, 2000, 0)
    took = []
    for _ in range(turns):
        start = time.perf_counter()
        votes = teacher_votes(features, shards, labels[shards], queries, 10)
        took.append(time.perf_counter() - start)
    accuracy = float((votes.argmax(axis=1) == labels[queries]).mean())
    return {
        "seconds": summary(took),
        "teachers": 1000,
        "rows": 50_000,
        "features": 512,
        "queries": 2000,
        "ensemble_accuracy": accuracy,
    }


def published(_: int) -> list[dict[str, Any]]:
    from labeldp.commands.presets import PATE
    from labeldp.mechanisms import PateAnswers

    rows = []
    for name, paper in PAPER.items():
        row = PATE[name]
        classes = 10 if row["dataset"] == "cifar10" else 100
        for asked in (row["max_answered"], row["max_asked"]):
            mechanism = PateAnswers(
                classes, row["teachers"], row["sigma1"], row["sigma2"], row["threshold"], asked, row["max_answered"]
            )
            rows.append(
                {
                    "preset": name,
                    "parameters": mechanism.parameters(),
                    "epsilon": mechanism.guarantee().epsilon,
                    "paper": paper,
                }
            )
    return rows


PARTS: dict[str, tuple[Callable[[int], Any], int]] = {
    "accounting": (accounting, 5), "augmentation": (augmentation, 7), "step": (step, 7), "frozen": (frozen, 3), "table": (published, 1),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/pate.json"))
    parser.add_argument("--only", choices=list(PARTS), nargs="*", default=list(PARTS))
    arguments = parser.parse_args()
    report: dict[str, Any] = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    report["machine"] = machine("torch", "numpy", "labeldp")
    for name in arguments.only:
        work, turns = PARTS[name]
        report[name] = work(turns)
        print(name, json.dumps(report[name])[:400], flush=True)
        arguments.out.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

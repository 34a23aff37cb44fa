"""Prior-aware releases: how fast, and how much of what pure ε allows.

    python benchmarks/prior.py [--rows 50000] [--out benchmarks/results/prior.json]

Speed: choosing channels, drawing, evidence, for priors like a classifier's (softmax of normal logits). Information: RRWithPrior and ours
as a share of the optimum under pure ε, which is a linear programme over all staircase channels (2^C columns), on Dirichlet priors.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from measuring import elapsed, machine, summary
from scipy.optimize import linprog

from labeldp.entropy import SecureEntropy
from labeldp.mechanisms.candidates import information, most_informative, most_likely
from labeldp.mechanisms.prior import PriorAware
from labeldp.private import PrivateLabels

TURNS = 3


def softmax_priors(rows: int, classes: int, sharpness: float) -> Any:
    logits = sharpness * np.random.default_rng(0).normal(size=(rows, classes))
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (odds / odds.sum(axis=1, keepdims=True)).astype(np.float32)


def speed(rows: int, classes: int, epsilon: float) -> dict[str, Any]:
    priors = softmax_priors(rows, classes, 2.0)
    labels = PrivateLabels(np.random.default_rng(1).integers(0, classes, rows), classes)
    channels = most_informative(priors, epsilon)
    mechanism = PriorAware.calibrated(epsilon=epsilon, num_classes=classes, channels=channels)
    seen = mechanism.observe_given(labels, channels, SecureEntropy())
    works = {
        "choose_response": lambda: most_likely(priors, epsilon),
        "choose_subset": lambda: most_informative(priors, epsilon),
        "draw": lambda: mechanism.observe_given(labels, channels, SecureEntropy()),
        "evidence": lambda: mechanism.evidence(seen),
    }
    per_second = {name: summary([rows / elapsed(work) for _ in range(TURNS)]) for name, work in works.items()}
    return {
        "rows": rows,
        "classes": classes,
        "epsilon": epsilon,
        "shapes": len(mechanism.shapes),
        "rows_per_second": per_second,
    }


def optimum(prior: Any, epsilon: float) -> float:
    """The most nats under pure ε (Kairouz, Oh, Viswanath 2014)."""
    classes = len(prior)
    bits = (np.arange(1 << classes)[:, None] >> np.arange(classes)) & 1
    patterns = np.where(bits == 1, np.exp(epsilon), 1.0)
    mixed = patterns @ prior
    values = (prior * patterns * np.log(patterns)).sum(axis=1) - mixed * np.log(mixed)
    solved = linprog(-values, A_eq=patterns.T, b_eq=np.ones(classes), method="highs")
    assert solved.success
    return float(-solved.fun)


def shares(classes: int, concentration: float, epsilon: float, count: int) -> dict[str, Any]:
    priors = np.random.default_rng([classes, round(10 * concentration)]).dirichlet(
        np.full(classes, concentration), count
    )
    best = np.array([optimum(prior, epsilon) for prior in priors])
    told = best > 1e-6  # where the prior is sure there is nothing to share
    found = {
        name: (information(priors, choose(priors, epsilon), epsilon)[told] / best[told])
        for name, choose in (("response", most_likely), ("subset", most_informative))
    }
    return {
        "classes": classes,
        "concentration": concentration,
        "epsilon": epsilon,
        "priors": int(told.sum()),
        **{name: {"mean": float(values.mean()), "worst": float(values.min())} for name, values in found.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--priors", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/prior.json"))
    arguments = parser.parse_args()
    report = {
        "machine": machine("numpy", "scipy", "labeldp"),
        "speed": [speed(arguments.rows, classes, epsilon) for classes in (2, 10, 100) for epsilon in (1.0, 4.0)],
        "information": [
            shares(classes, concentration, epsilon, arguments.priors if classes < 10 else arguments.priors // 4)
            for classes in (3, 5, 10)
            for concentration in (0.1, 1.0, 3.0)
            for epsilon in (0.5, 1.0, 2.0, 4.0)
        ],
    }
    arguments.out.write_text(json.dumps(report, indent=2, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

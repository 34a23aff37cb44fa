"""How often the limits of metrics without clean labels hold, by simulation.

    python benchmarks/metrics_coverage.py [--quick] [--out benchmarks/results/metrics-coverage.json] [--minutes 12]

Rows are drawn from a population whose metrics are known, their labels go through the mechanism's channel, and `estimate_metrics` is
asked. A cell is one population, one mechanism and one number of rows. The least of many coverages is low by chance alone, so there are two
rounds: every cell once; then those metrics of a cell that came out lowest again, with fresh draws and more of them, and only the second
round is reported for them; means are over the first round, which chose nothing. Finished cells are kept in the file: started again, it
goes on. Cells that the time did not suffice for, in either round, are counted in the file.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
from measuring import machine

from labeldp.entropy import SeededEntropy
from labeldp.evaluation.metrics import AT_A_THRESHOLD, METRICS, MetricEstimate, estimate_metric, estimate_metrics
from labeldp.mechanisms import Mechanism, NoPrivacy, RandomizedResponse
from labeldp.mechanisms.plan import calibrate
from labeldp.private import PrivateLabels

LEAST = 0.93  # of a nominal 95%
DOUBTFUL = 0.935  # below, a metric of a cell is drawn again
FEW = 5  # below so many expected positives only coverage is asked for
NAMES = (
    *METRICS[:-1],
    "recall",
    "lift",
)  # the likelihood is a plain mean; precision's limits are exact (coverage.json)
TRUTH_ROWS = 2_000_000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Population:
    """Two normal scores a distance d apart, or one coordinate a class; the model is the true posterior."""

    classes: int
    share: float  # of the first class if there are more than two, of the positive one if there are two
    auc: float  # of two classes

    def draw(self, rows: int, rng: np.random.Generator) -> tuple[npt.NDArray[np.int64], Floats]:
        d = math.sqrt(2) * _normal_quantile(self.auc)
        prior = np.full(self.classes, (1 - self.share) / (self.classes - 1))
        prior[1 if self.classes == 2 else 0] = self.share
        labels = np.searchsorted(np.cumsum(prior)[:-1], rng.random(rows), side="right")
        if self.classes == 2:
            odds = d * (rng.standard_normal(rows) + d * labels) - d * d / 2 + math.log(self.share / (1 - self.share))
            p = 1 / (1 + np.exp(-odds))
            return labels, np.stack((1 - p, p), axis=1)
        z = rng.standard_normal((rows, self.classes))
        z[np.arange(rows), labels] += d
        odds = d * z + np.log(prior)
        p = np.exp(odds - odds.max(axis=1, keepdims=True))
        return labels, p / p.sum(axis=1, keepdims=True)

    def threshold(self) -> float:
        return self.share if self.classes == 2 else 1 / self.classes


@dataclass(frozen=True)
class Cell:
    population: Population
    mechanism: str
    epsilon: float | None
    rows: int

    def built(self) -> Mechanism:
        if self.epsilon is None:
            return NoPrivacy(self.population.classes)
        return calibrate(self.mechanism, epsilon=self.epsilon, num_classes=self.population.classes)

    def key(self) -> str:
        p = self.population
        return f"{self.mechanism} {self.epsilon} C={p.classes} share={p.share} auc={p.auc} n={self.rows}"


def _normal_quantile(p: float) -> float:
    return NormalDist().inv_cdf(p)


@lru_cache(maxsize=4)
def truth(population: Population) -> dict[str, float]:
    """From very many rows with their labels."""
    rows = TRUTH_ROWS if population.classes == 2 else TRUTH_ROWS // population.classes
    labels, p = population.draw(rows, np.random.default_rng(2**32))
    found = measured(NoPrivacy(population.classes), labels.astype(np.uint8), p, NAMES, population)
    return {name: one.value for name, one in found.items() if one.value is not None}


def measured(
    mechanism: Mechanism, observations: npt.NDArray[Any], p: Floats, names: tuple[str, ...], population: Population
) -> dict[str, MetricEstimate]:
    """All at the population's threshold."""
    found = estimate_metrics(mechanism, observations, p, names=[n for n in names if n not in AT_A_THRESHOLD])
    for name in names:
        if name in AT_A_THRESHOLD:
            found[name] = estimate_metric(name, mechanism, observations, p, threshold=population.threshold())
    return found


def observed(mechanism: Mechanism, labels: npt.NDArray[np.int64], rng: np.random.Generator) -> npt.NDArray[Any]:
    """Through the channel; of two classes and response without the cost of a cryptographic generator."""
    if isinstance(mechanism, RandomizedResponse) and mechanism.num_classes == 2:
        kept = rng.random(len(labels)) < mechanism.probability_kept()
        return np.where(kept, labels, 1 - labels).astype(np.uint8)
    entropy = SeededEntropy(int(rng.integers(2**62)))
    return mechanism.observe_uncharged(PrivateLabels(labels, mechanism.num_classes), entropy)  # type: ignore[attr-defined]


def measure(cell: Cell, names: tuple[str, ...], replicates: int, seed: int) -> dict[str, dict[str, Any]]:
    """Coverage and widths, with what the same rows' true labels give beside."""
    rng = np.random.default_rng(
        [
            seed,
            cell.rows,
            round(10 * (cell.epsilon or 99)),
            round(1e6 * cell.population.share),
            round(1e6 * cell.population.auc),
        ]
    )
    mechanism, true = cell.built(), truth(cell.population)
    clean, ends, told, plain = (
        NoPrivacy(cell.population.classes),
        {n: [] for n in names},
        {n: [] for n in names},
        {n: [] for n in names},
    )  # type: ignore[var-annotated]
    for replicate in range(replicates):
        labels, p = cell.population.draw(cell.rows, rng)
        found = measured(mechanism, observed(mechanism, labels, rng), p, names, cell.population)
        for name, one in found.items():
            ends[name].append(one.interval_95)
            told[name].append(one.value is not None)
        if replicate < 40 and cell.epsilon is not None:
            for name, one in measured(clean, labels.astype(np.uint8), p, names, cell.population).items():
                plain[name].append(one.interval_95[1] - one.interval_95[0])
    made = {}
    for name in names:
        low, high = np.array(ends[name]).T
        is_told = np.array(told[name])
        low, high = np.nan_to_num(low, posinf=1e9), np.nan_to_num(high, posinf=1e9)
        held = (low <= true[name]) & (true[name] <= high)
        width = float(np.median(high - low))
        made[name] = {
            "coverage": float(held.mean()),
            "coverage_told": float(held[is_told].mean()) if is_told.any() else None,
            "cannot_tell": float(1 - is_told.mean()),
            "width": width,
            "width_to_true_labels": width / float(np.median(plain[name])) if plain[name] and np.median(plain[name]) > 0 else None,
            "true": true[name],
            "replicates": replicates,
        }  # fmt: skip
    return made


def cells(quick: bool) -> Iterator[tuple[Cell, int]]:
    """With how many replicates; the populations one after the other, since their truth takes long."""
    for classes in () if quick else (3, 10):
        for share in (0.02, 1 / classes) if classes == 3 else (0.1,):
            population = Population(classes, share, 0.8)
            for epsilon in (1.0, 4.0):
                for rows in (500, 5000):
                    yield Cell(population, "subset", epsilon, rows), 100 if rows == 500 else 80
    aucs, shares = ((0.8,), (0.05, 0.5)) if quick else ((0.95, 0.6, 0.8), (0.01, 0.05, 0.1, 0.5))
    for auc in aucs:
        for share in shares:
            if auc != 0.8 and share == 0.1:
                continue
            population = Population(2, share, auc)
            for epsilon in (0.5, 4.0) if quick else (0.5, 1.0, 2.0, 4.0, None):
                for rows in (200, 2000) if quick else (200, 500, 2000, 5000, 20_000):
                    if auc != 0.8 and (rows == 20_000 or epsilon == 1.0 or (auc, epsilon) == (0.6, 2.0)):
                        continue
                    replicates = 400 if rows <= 500 else 250 if rows <= 2000 else 120 if rows <= 5000 else 60
                    yield (
                        Cell(population, "response" if epsilon else "none", epsilon, rows),
                        100 if quick else replicates,
                    )
            if not quick and share in (0.01, 0.5) and auc == 0.8:
                for epsilon in (1.0, 4.0):
                    for rows in (500, 2000):
                        yield Cell(population, "laplace", epsilon, rows), 300
            if not quick and share in (0.01, 0.1) and auc == 0.8:
                for epsilon in (0.5, 2.0):
                    yield Cell(population, "response", epsilon, 100_000), 40


def expected_fewest(cell: Cell) -> float:
    population = cell.population
    return cell.rows * min(population.share, (1 - population.share) / (population.classes - 1))


def summed_up(made: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """For each metric: its worst cell, and how often nothing can be told, where positives are not too few."""
    rows = []
    for name in NAMES:
        mine = [(key, cell, cell["metrics"][name]) for key, cell in made.items() if name in cell["metrics"]]
        worst = min(mine, key=lambda one: one[2]["coverage"])
        enough = [one for _, cell, one in mine if cell["fewest"] >= FEW and cell["epsilon"] is not None]
        wide = [
            one["width_to_true_labels"] for one in enough if one["width_to_true_labels"] and one["cannot_tell"] < 0.5
        ]
        told = [
            (one["coverage_told"], key, 1 - one["cannot_tell"])
            for key, _, one in mine
            if one["coverage_told"] is not None and (1 - one["cannot_tell"]) * one["replicates"] >= 50
        ]
        rows.append({
            "metric": name, "cells": len(mine), "least_coverage": worst[2]["coverage"], "least_in": worst[0],
            "least_replicates": worst[2]["replicates"],
            "cells_below": sum(one["coverage"] < LEAST for _, _, one in mine),
            "mean_coverage": float(np.mean([cell["first"][name] for _, cell, _ in mine])),
            "cannot_tell": float(np.mean([one["cannot_tell"] for one in enough])) if enough else None,
            # Of those intervals alone that come with a number, in cells where 50 or more do.
            "least_coverage_told": min(told)[0] if told else None, "least_told_in": min(told)[1] if told else None,
            "least_told_share": min(told)[2] if told else None,
            "median_width_to_true_labels": float(np.median(wide)) if wide else None,
        })  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/metrics-coverage.json"))
    parser.add_argument("--quick", action="store_true", help="a few cells, a minute")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long; the same command goes on")
    parser.add_argument("--again", action="store_true", help="the second round only, the least likely cells first")
    asked = parser.parse_args()
    until = time.monotonic() + 60 * asked.minutes
    made: dict[str, dict[str, Any]] = (
        json.loads(asked.out.read_text(encoding="utf-8"))["cells"] if asked.out.exists() else {}
    )
    for cell, replicates in cells(asked.quick):
        if time.monotonic() > until or asked.again:
            break
        known = made.get(cell.key(), {"metrics": {}, "first": {}, "again": []})
        missing = tuple(name for name in NAMES if name not in known["metrics"])
        if missing:  # of a metric whose estimate has changed, take its results out of the file
            metrics = measure(cell, missing, replicates, seed=1)
            about = asdict(cell.population) | {
                "mechanism": cell.mechanism,
                "epsilon": cell.epsilon,
                "rows": cell.rows,
                "fewest": expected_fewest(cell),
            }
            made[cell.key()] = about | {
                "metrics": known["metrics"] | metrics,
                "first": known["first"] | {n: m["coverage"] for n, m in metrics.items()},
                "again": known["again"],
            }
            print(cell.key(), {n: round(m["coverage"], 3) for n, m in metrics.items()}, flush=True)
            write(asked.out, made)
    drawn = [(cell, replicates) for cell, replicates in cells(asked.quick) if cell.key() in made]
    for cell, replicates in sorted(drawn, key=lambda one: least_likely(made[one[0].key()])):
        if time.monotonic() > until:
            break
        known = made[cell.key()]
        doubtful = tuple(n for n in NAMES if n not in known["again"] and known["metrics"][n]["coverage"] < DOUBTFUL)
        if doubtful and not asked.quick:
            known["metrics"] |= measure(cell, doubtful, 4 * replicates, seed=2)
            known["again"] += doubtful
            print("again", cell.key(), {n: known["metrics"][n]["coverage"] for n in doubtful}, flush=True)
            write(asked.out, made)
    write(asked.out, made)


def least_likely(known: dict[str, Any]) -> float:
    """How many standard errors the worst metric of a cell is below 95%, negative."""
    return min((one["coverage"] - 0.95) * math.sqrt(one["replicates"]) for one in known["metrics"].values())


def write(out: Path, made: dict[str, dict[str, Any]]) -> None:
    data = {
        "settings": {"nominal": 0.95, "least": LEAST, "doubtful": DOUBTFUL, "few": FEW, "truth_rows": TRUTH_ROWS},
        "metrics": summed_up(made),
        "cells_missing": sum(cell.key() not in made for cell, _ in cells(False)),
        "not_drawn_again": sum(
            one["coverage"] < DOUBTFUL and name not in cell["again"]
            for cell in made.values()
            for name, one in cell["metrics"].items()
        ),
        "cells": made,
        "machine": machine(),
    }
    out.write_text(json.dumps(_short(data), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


if __name__ == "__main__":
    main()

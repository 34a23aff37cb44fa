"""How often the limits of a score's metrics hold, by simulation; and how a score compares with released rows.

    python benchmarks/score_coverage.py [--out benchmarks/results/score-coverage.json] [--minutes 20] [--replicates 300] [--again]

A population is a large pool of rows with their labels, so its metrics are known exactly; rows are drawn from it with replacement, their
predictions are binned, their labels counted, two-sided geometric noise is added, and `ScoreCounts` is asked. What binning changes of log
loss and Brier score is part of what is asked for: the truth is that of the pool in the same bins. A cell is one population, one ε and one
number of rows. Every cell is drawn once; metrics that came out lowest again, with fresh draws and more of them, which are what counts.
Finished cells are kept in the file: started again, it goes on.

Beside: standard errors of accuracy and AUC, of the noise alone and in total, from a score's table and from released rows (randomized
response) at the same ε, by simulation.
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
from typing import Any

import numpy as np
import numpy.typing as npt
from measuring import machine
from metrics_coverage import Population, _short

from labeldp.evaluation.metrics import estimate_metric
from labeldp.evaluation.proper import LEAST_PROBABILITY
from labeldp.evaluation.ranking import Ranked, auc_ranking, average_precision
from labeldp.mechanisms import NoPrivacy, RandomizedResponse
from labeldp.statistics.bins import ScoreLayout
from labeldp.statistics.counts import ScoreCounts
from labeldp.statistics.differences import DIFFERENCES, difference
from labeldp.statistics.noise import GeometricNoise

LEAST, DOUBTFUL, FEW = 0.93, 0.94, 5
NAMES = ("accuracy", "roc_auc", "average_precision", "log_loss", "brier", "precision", "recall", "lift", "class_share")
POOL = {2: 100_000, 10: 20_000, 100: 10_000}
PLAIN = 12  # draws that are also judged by true labels

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    population: Population
    epsilon: float
    rows: int

    def key(self) -> str:
        p = self.population
        return f"ε={self.epsilon} C={p.classes} share={p.share} auc={p.auc} n={self.rows}"

    def fewest(self) -> float:
        p = self.population
        return self.rows * min(p.share, (1 - p.share) / (p.classes - 1))


@lru_cache(maxsize=1)
def pool(population: Population) -> tuple[npt.NDArray[np.int64], Floats, dict[str, float]]:
    """Labels, predictions, and what does not depend on bins."""
    y, p = population.draw(POOL[population.classes], np.random.default_rng(2**32))
    classes = [1] if population.classes == 2 else range(population.classes)
    called, true = p.argmax(axis=1), {}
    true["accuracy"] = float((called == y).mean())
    true["class_share"] = float((y == classes[0]).mean())
    aucs, aps, precision, recall = [], [], [], []
    for c in classes:
        w, ranked = (y == c).astype(np.float64), Ranked.by(p[:, c])
        aucs.append(auc_ranking(ranked, w, (0.0, 0.0)).ratio.value)
        aps.append(average_precision(ranked, w))
        precision.append(float(w[called == c].mean()) if (called == c).any() else math.nan)
        recall.append(float(w[called == c].sum() / w.sum()))
    for name, each in (("roc_auc", aucs), ("average_precision", aps), ("precision", precision), ("recall", recall)):
        true[name] = float(np.mean(each))
    return y, p, true


def binned_truth(layout: ScoreLayout, y: npt.NDArray[np.int64], p: Floats) -> dict[str, float]:
    """Log loss and Brier score of the pool in these bins, and its lift from the bin's edge on."""
    n, classes = p.shape
    mean = np.empty((n, classes))
    called, made = p.argmax(axis=1), {}
    for c, high, place in layout._places:
        number = np.searchsorted(high[:-1], p[:, c], side="left")
        cell = place[number, (called == c).astype(int)]
        cell = np.where(cell >= 0, cell, place[number].max(axis=1))  # a bin of which only the other cell was seen
        mean[:, c] = layout.mean[cell]
    if classes == 2:
        q = mean[:, 1]
        right = np.where(y == 1, q, 1 - q)
        made["brier"] = float(((1 - right) ** 2).mean())
    else:
        right = mean[np.arange(n), y]
        made["brier"] = float((1 + (p**2).sum(axis=1) - 2 * right).mean())
    made["log_loss"] = float(-np.log(np.maximum(right, LEAST_PROBABILITY)).mean())
    asked = ScoreCounts(layout, np.zeros(len(layout)), 1.0)
    lifts = []
    for c in [1] if classes == 2 else range(classes):
        edge = asked.snapped(None, "lift", positive=c)
        top = p[:, c] >= edge
        lifts.append(float(((y == c) & top).sum() / (y == c).sum() / top.mean()) if top.any() else math.nan)
    made["lift"] = float(np.mean(lifts))
    return made


def counted(layout: ScoreLayout, y: npt.NDArray[np.int64], p: Floats) -> Floats:
    cells = layout.cells(p)
    held = cells[y == 1] if layout.num_classes == 2 else cells[np.arange(len(y)), y]
    return np.bincount(held, minlength=len(layout)).astype(np.float64)


def drawn(noise: GeometricNoise, count: int, rng: np.random.Generator) -> Floats:
    stop = 1 - noise.stay / 2**64
    return (rng.geometric(stop, count) - rng.geometric(stop, count)).astype(np.float64)


def measure(cell: Cell, names: tuple[str, ...], replicates: int, seed: int) -> dict[str, dict[str, Any]]:
    population = cell.population
    about = round(1000 * cell.epsilon), round(1e6 * population.share), round(1e6 * population.auc), population.classes
    rng = np.random.default_rng([seed, cell.rows, *about])
    y, p, true = pool(population)
    noise = GeometricNoise.calibrated(epsilon=cell.epsilon, moved=1 if population.classes == 2 else 2)
    held: dict[str, list[bool]] = {name: [] for name in names}
    told: dict[str, list[bool]] = {name: [] for name in names}
    width: dict[str, list[float]] = {name: [] for name in names}
    plain: dict[str, list[float]] = {name: [] for name in names}
    cells = 0
    for replicate in range(replicates):
        rows = rng.integers(len(y), size=cell.rows)
        layout = ScoreLayout.of(p[rows], noise=noise)
        cells = len(layout)
        counts = ScoreCounts(layout, counted(layout, y[rows], p[rows]) + drawn(noise, len(layout), rng), noise.variance)
        truth = true | (binned_truth(layout, y, p) if {"log_loss", "brier", "lift"} & set(names) else {})
        for name in names:
            first = 1 if population.classes == 2 else 0
            one = counts.class_share(first) if name == "class_share" else counts.metric(name)
            low, high = one.interval_95
            held[name].append(not math.isfinite(truth[name]) or low <= truth[name] <= high)
            told[name].append(one.value is not None)
            width[name].append(min(high, 1e9) - low)
            if replicate < PLAIN and name != "class_share" and population.classes <= 10:
                clean = estimate_metric(name, NoPrivacy(population.classes), y[rows].astype(np.uint8), p[rows])
                plain[name].append(min(clean.interval_95[1], 1e9) - clean.interval_95[0])
    made = {}
    for name in names:
        ours, theirs = float(np.median(width[name])), float(np.median(plain[name])) if plain[name] else 0.0
        is_told = np.array(told[name])
        made[name] = {
            "coverage": float(np.mean(held[name])),
            "coverage_told": float(np.array(held[name])[is_told].mean()) if is_told.any() else None,
            "cannot_tell": float(1 - is_told.mean()),
            "width": ours,
            "width_to_true_labels": ours / theirs if theirs > 0 else None,
            "cells": cells,
            "replicates": replicates,
        }
    return made


def cells() -> Iterator[tuple[Cell, float]]:
    """With a factor of replicates; the populations one after the other, since a pool takes long."""
    for share in (0.01, 0.1, 0.5):
        for rows in (200, 1000, 5000, 20_000, 100_000):
            for epsilon in (0.05, 0.2, 0.5, 2.0):
                yield (
                    Cell(Population(2, share, 0.8), epsilon, rows),
                    1.0 if rows <= 5000 else 0.5 if rows <= 20_000 else 0.25,
                )
    for share, auc in ((0.05, 0.95), (0.05, 0.6)):
        for rows in (200, 2000, 20_000):
            for epsilon in (0.05, 0.5, 2.0):
                yield Cell(Population(2, share, auc), epsilon, rows), 1.0 if rows <= 2000 else 0.5
    for classes, sizes in ((10, (200, 1000, 5000, 20_000)), (100, (1000, 5000, 20_000))):
        for rows in sizes:
            for epsilon in (0.05, 0.5, 2.0):
                yield Cell(Population(classes, 1 / classes, 0.8), epsilon, rows), 0.5 if classes == 10 else 0.2


def summed_up(made: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for name in NAMES:
        mine = [(key, one, one["metrics"][name]) for key, one in made.items() if name in one["metrics"]]
        if not mine:
            continue
        worst = min(mine, key=lambda one: one[2]["coverage"])
        enough = [one for _, cell, one in mine if cell["fewest"] >= FEW]
        wide = [
            one["width_to_true_labels"] for one in enough if one["width_to_true_labels"] and one["cannot_tell"] < 0.5
        ]
        rows.append({
            "metric": name, "cells": len(mine), "mean_coverage": float(np.mean([c["first"][name] for _, c, _ in mine])),
            "least_coverage": worst[2]["coverage"], "least_in": worst[0], "least_replicates": worst[2]["replicates"],
            "cells_below": sum(one["coverage"] < LEAST for _, _, one in mine),
            "cannot_tell": float(np.mean([one["cannot_tell"] for one in enough])) if enough else None,
            "median_width_to_true_labels": float(np.median(wide)) if wide else None,
        })  # fmt: skip
    return rows


def against_rows(rows: int = 5000, replicates: int = 400) -> list[dict[str, Any]]:
    """Standard deviations over draws, of noise alone (labels fixed) and in total, for accuracy (half positive) and AUC (a tenth)."""
    found = []
    for name, population in (("accuracy", Population(2, 0.5, 0.97)), ("roc_auc", Population(2, 0.1, 0.9))):
        y, p, _ = pool(population)
        for epsilon in (0.1, 0.5, 1.0):
            rng = np.random.default_rng([round(1000 * epsilon), 7])
            noise = GeometricNoise.calibrated(epsilon=epsilon, moved=1)
            response = RandomizedResponse.calibrated(epsilon=epsilon, num_classes=2)
            kept = response.probability_kept()
            made: dict[str, list[list[float]]] = {"table": [[], []], "rows": [[], []]}
            picked = rng.integers(len(y), size=rows)
            for fixed in (1, 0):
                for _ in range(replicates):
                    if not fixed:
                        picked = rng.integers(len(y), size=rows)
                    labels, scores = y[picked], p[picked]
                    layout = ScoreLayout.of(scores, noise=noise)
                    counts = counted(layout, labels, scores) + drawn(noise, len(layout), rng)
                    score = ScoreCounts(layout, counts, noise.variance)
                    seen = np.where(rng.random(rows) < kept, labels, 1 - labels)
                    w = (seen - (1 - kept)) / (2 * kept - 1)
                    if name == "accuracy":
                        right = w * (scores.argmax(axis=1) == 1) + (1 - w) * (scores.argmax(axis=1) == 0)
                        pair = score.right()[0] / rows, float(right.mean())
                    else:
                        ratio, other = (
                            score.positives(1).auc(),
                            auc_ranking(Ranked.by(scores[:, 1]), w, (0.0, 0.0)).ratio,
                        )
                        pair = ratio.top / ratio.bottom, other.top / other.bottom
                    for where, value in zip(("table", "rows"), pair, strict=True):
                        made[where][fixed].append(value)
            found.append({
                "metric": name, "epsilon": epsilon, "rows": rows, "replicates": replicates, "share": population.share,
                "auc": population.auc,
                "cells": len(layout),
                # By the quartiles: an AUC whose denominator comes near 0 has no standard deviation.
                **{f"{where}_{what}": spread(made[where][fixed]) for where in made for fixed, what in ((1, "noise"), (0, "total"))},
            })  # fmt: skip
    return found


def differences(replicates: int = 250) -> list[dict[str, Any]]:
    """How often limits of the difference between two models on the same rows hold: the second one's logits have noise of their own."""
    found = []
    for classes, share, rows, epsilon in (
        *((2, share, rows, epsilon) for share in (0.1, 0.5) for rows in (500, 5000) for epsilon in (0.2, 1.0)),
        (10, 0.1, 2000, 2.0),
    ):  # fmt: skip
        y, p, _ = pool(Population(classes, share, 0.8))
        rng = np.random.default_rng([classes, rows, round(100 * epsilon), round(100 * share)])
        logits = np.log(p) + 0.5 * np.random.default_rng(1).standard_normal(p.shape)
        q = np.exp(logits - logits.max(axis=1, keepdims=True))
        q /= q.sum(axis=1, keepdims=True)
        columns = [1] if classes == 2 else range(classes)
        aucs = [
            np.mean([auc_ranking(Ranked.by(m[:, c]), (y == c) + 0.0, (0.0, 0.0)).ratio.value for c in columns])
            for m in (p, q)
        ]
        true = {
            "accuracy": (p.argmax(axis=1) == y).mean() - (q.argmax(axis=1) == y).mean(),
            "roc_auc": aucs[0] - aucs[1],
        }
        noise = GeometricNoise.calibrated(epsilon=epsilon, moved=1 if classes == 2 else 2)
        held: dict[str, list[bool]] = {name: [] for name in DIFFERENCES}
        ratio: dict[str, list[float]] = {name: [] for name in DIFFERENCES}
        untold = 0
        for _ in range(replicates if classes == 2 else replicates // 3):
            picked = rng.integers(len(y), size=rows)
            made, truth = [], dict(true)
            for sign, m in ((1, p), (-1, q)):
                layout = ScoreLayout.of(m[picked], noise=noise)
                counts = counted(layout, y[picked], m[picked]) + drawn(noise, len(layout), rng)
                made.append(ScoreCounts(layout, counts, noise.variance))
                for name, value in binned_truth(layout, y, m).items():
                    truth[name] = truth.get(name, 0.0) + sign * value
            for name in DIFFERENCES:
                one = difference(name, made[0], made[1], p[picked], q[picked])
                low, high = one.interval_95
                held[name].append(bool(low <= truth[name] <= high))
                untold += one.value is None
                alone = [score.metric(name).interval_95 for score in made]
                ratio[name].append((high - low) / math.hypot(*(end[1] - end[0] for end in alone)))
        found.append({
            "classes": classes, "share": share, "rows": rows, "epsilon": epsilon, "replicates": len(held["accuracy"]),
            "cannot_tell": untold / len(held["accuracy"]) / len(DIFFERENCES),
            "coverage": {name: float(np.mean(each)) for name, each in held.items()},
            # Against limits that take the two models for independent.
            "width_to_apart": {name: float(np.median(each)) for name, each in ratio.items()},
        })  # fmt: skip
        print(found[-1], flush=True)
    return found


def spread(values: list[float]) -> float:
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low) / 1.3489795


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/score-coverage.json"))
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long; the same command goes on")
    parser.add_argument("--replicates", type=int, default=400)
    parser.add_argument("--again", action="store_true", help="the second round only")
    parser.add_argument("--differences", action="store_true", help="only score-differences.json")
    asked = parser.parse_args()
    if asked.differences:
        text = json.dumps(_short({"cells": differences(), "machine": machine()}), ensure_ascii=False, indent=1)
        asked.out.with_name("score-differences.json").write_text(text + "\n", encoding="utf-8")
        return
    until = time.monotonic() + 60 * asked.minutes
    before = json.loads(asked.out.read_text(encoding="utf-8")) if asked.out.exists() else {}
    made: dict[str, dict[str, Any]] = before.get("cells", {})
    compared = before.get("against_rows")
    for cell, factor in cells():
        if time.monotonic() > until or asked.again:
            break
        known = made.get(cell.key(), {"metrics": {}, "first": {}, "again": []})
        missing = tuple(name for name in NAMES if name not in known["metrics"])
        if missing:  # of a metric whose estimate has changed, take its results out of the file
            metrics = measure(cell, missing, max(20, round(factor * asked.replicates)), seed=1)
            about = asdict(cell.population) | {"epsilon": cell.epsilon, "rows": cell.rows, "fewest": cell.fewest()}
            made[cell.key()] = about | {
                "metrics": known["metrics"] | metrics,
                "first": known["first"] | {n: m["coverage"] for n, m in metrics.items()},
                "again": known["again"],
            }
            print(
                cell.key(),
                {n: (round(m["coverage"], 3), round(m["cannot_tell"], 2)) for n, m in metrics.items()},
                flush=True,
            )
            write(asked.out, made, compared)
    if compared is None and time.monotonic() < until:
        compared = against_rows()
        write(asked.out, made, compared)
    for cell, factor in cells():
        known = made.get(cell.key())
        if time.monotonic() > until or known is None:
            continue
        doubtful = tuple(
            n for n, one in known["metrics"].items() if n not in known["again"] and one["coverage"] < DOUBTFUL
        )
        if doubtful:
            known["metrics"] |= measure(cell, doubtful, 4 * max(20, round(factor * asked.replicates)), seed=2)
            known["again"] += doubtful
            print("again", cell.key(), {n: known["metrics"][n]["coverage"] for n in doubtful}, flush=True)
            write(asked.out, made, compared)


def write(out: Path, made: dict[str, dict[str, Any]], compared: list[dict[str, Any]] | None) -> None:
    data = {
        "settings": {"nominal": 0.95, "least": LEAST, "doubtful": DOUBTFUL, "few": FEW, "pool": POOL},
        "metrics": summed_up(made),
        "cells_missing": sum(cell.key() not in made for cell, _ in cells()),
        "not_drawn_again": sum(
            one["coverage"] < DOUBTFUL and name not in cell["again"]
            for cell in made.values()
            for name, one in cell["metrics"].items()
        ),
        "against_rows": compared,
        "cells": made,
        "machine": machine(),
    }
    out.write_text(json.dumps(_short(data), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Models of tables from released labels, on real tables and beside plain LightGBM:

    python benchmarks/boosting.py tables    --out benchmarks/results/boosting-tables.json      # ROC AUC and log loss on true test labels
    python benchmarks/boosting.py hessians  --out benchmarks/results/boosting-hessians.json    # which curvature, with its rate tuned
    python benchmarks/boosting.py time      --out benchmarks/results/boosting-time.json        # against plain LightGBM, equal rounds

Everything is chosen by the held-out likelihood of what was released; true test labels are looked at to report. Data: LABELDP_DATA. Adult
has its own split; the others are split 70/30 by the seed. Noise is seeded, so nothing here protects anybody.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import lightgbm
import numpy as np
from measuring import machine, own_peak, run, summary
from sklearn.metrics import log_loss, roc_auc_score

from labeldp import PrivateLabels, SeededEntropy
from labeldp.estimators import boosting
from labeldp.estimators.boosted import BoostingRecipe, fit_boosted
from labeldp.estimators.linear import LinearRecipe, fit_linear_path
from labeldp.mechanisms import NoPrivacy, RandomizedResponse
from labeldp.mechanisms.base import RowMechanism
from labeldp.release.release import Release

# ----------------------------------------------------------------
# Tables.

DATA = Path(os.environ.get("LABELDP_DATA", "../shared/data"))
NAMES = ("adult", "bank", "criteo", "diabetes")
TEST_OF_ADULT = 16_281
SKIPPED = ("encounter_id", "patient_nbr")  # names of rows and of people


@dataclass(frozen=True)
class Table:
    """Codes for categories, NaN for what is missing; `y` is the true label."""

    x: np.ndarray
    y: np.ndarray
    categorical: tuple[int, ...]
    last_are_test: int | None = None

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Positions to train on, and to test on."""
        if self.last_are_test is not None:
            cut = len(self.y) - self.last_are_test
            return np.arange(cut), np.arange(cut, len(self.y))
        order = np.random.default_rng(1000 + seed).permutation(len(self.y))
        cut = int(0.7 * len(order))
        return order[:cut], order[cut:]

    def one_hot(self, least: int = 20, most: int = 60) -> np.ndarray:
        """For linear models: the commonest categories."""
        columns = []
        for number, column in enumerate(self.x.T):
            if number not in self.categorical:
                columns.append(column)
                continue
            values, counts = np.unique(column, return_counts=True)
            common = np.argsort(-counts, kind="stable")[:most]
            columns += [column == values[one] for one in common if counts[one] >= least]
        return np.stack(columns, axis=1).astype(np.float32)


def read(name: str, delimiter: str = ",") -> list[list[str]]:
    with gzip.open(DATA / name, "rt") as file:
        return [[word.strip() for word in line] for line in csv.reader(file, delimiter=delimiter)]


def table(columns: dict[str, Any], y: np.ndarray, last_are_test: int | None = None) -> Table:
    """Columns of numbers as they are, columns of texts by code."""
    values, categorical = [], []
    for number, column in enumerate(columns.values()):
        try:
            values.append(np.asarray(column, dtype=np.float32))
        except ValueError:
            values.append(np.unique(column, return_inverse=True)[1].astype(np.float32))
            categorical.append(number)
    return Table(np.stack(values, axis=1), y.astype(np.int64), tuple(categorical), last_are_test)


def load(name: str) -> Table:
    if name == "adult":
        lines = [line for part in ("data", "test") for line in read(f"adult.{part}.gz") if len(line) == 15]
        columns = {str(number): [line[number] for line in lines] for number in range(14)}
        return table(columns, np.array([line[14].startswith(">") for line in lines]), TEST_OF_ADULT)
    if name == "criteo":
        import pyarrow.parquet as parquet

        read_table = parquet.read_table(DATA / "criteo_ppml_adkdd21_train.parquet")
        hashes = [one for one in read_table.column_names if one.startswith("hash_")]
        return table(
            {one: [f"#{value}" for value in read_table[one].to_pylist()] for one in hashes},
            read_table["click"].to_numpy(),
        )
    lines = read("bank-full.csv.gz", ";") if name == "bank" else read("diabetic_data.csv.gz")
    names, lines = lines[0], lines[1:]
    columns = {one: [line[place] for line in lines] for place, one in enumerate(names[:-1]) if one not in SKIPPED}
    columns = {
        one: [f"#{word}" for word in column] if one.endswith("_id") else column for one, column in columns.items()
    }
    return table(columns, np.array([line[-1] in ("yes", "<30") for line in lines]))


def released(y: np.ndarray, epsilon: float, seed: int, classes: int = 2) -> Release:
    mechanism: RowMechanism = (
        NoPrivacy(classes) if np.isinf(epsilon) else RandomizedResponse.calibrated(epsilon=epsilon, num_classes=classes)
    )
    observed = mechanism.observe_uncharged(PrivateLabels(y, classes), SeededEntropy(seed))
    header = {"rows": len(y), "data_set": "benchmark", "first_row": 0, "ids": None, "insecure": "a seeded generator"}
    return Release(header, mechanism, None, observed, f"benchmark {seed}")


def scores(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    p = np.clip(p.astype(np.float64), 1e-6, 1 - 1e-6)
    return {"roc_auc": float(roc_auc_score(y, p)), "log_loss": float(log_loss(y, p))}


def one_fit(
    model: str, data: Table, release: Release, train: np.ndarray, test: np.ndarray, seed: int, epsilon: float
) -> Any:
    """Scores on true test labels, and CPU seconds."""
    y, rows, start = data.y[test], np.arange(len(train)), time.process_time()
    said: dict[str, Any] = {}
    if model == "lightgbm":
        fitted = fit_boosted(
            data.x[train], rows, release, BoostingRecipe(seed=seed), categorical=data.categorical, threads=1
        )
        said = {"rounds": fitted.rounds, "leaves": fitted.recipe.leaves, "held_out_loss": min(fitted.history)}
        took, p = time.process_time() - start, fitted.probabilities(data.x[test], threads=1)[:, 1]
    elif model == "linear":
        x = data.one_hot()
        start = time.process_time()
        line = fit_linear_path(x[train], rows, release.evidence, 2, LinearRecipe(seed=seed))
        took, p = time.process_time() - start, line.probabilities(x[test])[:, 1]
        said = {"inverse": line.inverse}
    else:  # LightGBM that takes what was released at its word: 200 rounds, all else its default
        observed = np.asarray(release.observations)
        plain = lightgbm.Dataset(
            data.x[train], observed, categorical_feature=list(data.categorical) if "native" in model else "auto"
        )
        booster = lightgbm.train({"objective": "binary", "verbosity": -1, "num_threads": 1}, plain, 200)
        took, p = time.process_time() - start, booster.predict(data.x[test])
        kept = release.mechanism.law().mean_true
        inverted = np.clip((p - (1 - kept)) / (2 * kept - 1), 1e-3, 1 - 1e-3)
        said = {"inverted_log_loss": scores(y, inverted)["log_loss"]}
    return {**scores(y, p), **said, "cpu_seconds": took}


def averages(each: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and standard error of what the seeds gave."""
    values = {name: [one[name] for one in each] for name in each[0]}
    return {
        name: {
            "mean": float(np.mean(value)),
            "se": float(np.std(value, ddof=1) / len(value) ** 0.5) if len(value) > 1 else None,
        }
        for name, value in values.items()
    }


def tables(names: list[str], epsilons: list[float], seeds: range, models: list[str], out: Path) -> dict[str, Any]:
    cells = []
    for name in names:
        data = load(name)
        for epsilon in epsilons:
            each: dict[str, list[Any]] = {model: [] for model in models}
            for seed in seeds:
                train, test = data.split(seed)
                release = released(data.y[train], epsilon, seed)
                for model in models:
                    each[model].append(one_fit(model, data, release, train, test, seed, epsilon))
            cell = {
                "data": name,
                "epsilon": None if np.isinf(epsilon) else epsilon,
                "n": len(seeds),
                "seeds": list(seeds),
            }
            cells.append(
                {**cell, "models": {model: {**averages(found), "each": found} for model, found in each.items()}}
            )
            for model, found in each.items():
                said = averages(found)
                print(name, epsilon, model, {key: round(value["mean"], 4) for key, value in said.items()}, flush=True)
            written({"cells": cells}, out)
    return {"cells": cells}


# ----------------------------------------------------------------
# Which curvature.


def other_curvature(kind: str) -> type:
    """An objective of two classes with another curvature; v = p(1 − p), w = q(1 − q), t the dulling."""

    class Other(boosting.Objective):
        def __call__(self, score: np.ndarray, data: Any) -> Any:
            of = boosting.known(data)
            gradient, _ = super().__call__(score, data)
            start = self._known.start
            p, q = 1 / (1 + np.exp(-score)), 1 / (1 + np.exp(-np.clip(score + of.odds, -60, 60)))
            v, w, t = p * (1 - p), q * (1 - q), start.dulling[1]
            at_start = start.fisher[1] / (start.shares[1] * (1 - start.shares[1]))
            curve = {
                "majoriser": v * at_start,  # as it is, only the unit of the rate would differ
                "observed": np.maximum(v - w, v * at_start),
                "expected": v * v / (v + t),
                "geometric mean": v * np.sqrt(v / (v + t) * at_start),
            }[kind]
            return gradient, np.maximum(curve, 1e-7).astype(np.float32)

    return Other


def hessians(names: list[str], epsilons: list[float], seeds: int, out: Path) -> dict[str, Any]:
    cells = []
    for name in names:
        data = load(name)
        for epsilon in epsilons:
            for kind in ("majoriser", "observed", "expected", "geometric mean", "ours"):
                each = []
                for seed in range(seeds):
                    train, test = data.split(seed)
                    release, y = released(data.y[train], epsilon, seed), data.y[test]
                    best = None
                    for rate in (0.05, 0.1, 0.2):
                        objective = boosting.Objective if kind == "ours" else other_curvature(kind)
                        with mock.patch.object(boosting, "Objective", objective):
                            fitted = fit_boosted(
                                data.x[train], np.arange(len(train)), release, BoostingRecipe(seed=seed, rate=rate),
                                categorical=data.categorical, threads=1,
                            )  # fmt: skip
                        if best is None or min(fitted.history) < min(best.history):
                            best = fitted
                    assert best is not None
                    p = best.probabilities(data.x[test], threads=1)[:, 1]
                    each.append(
                        {
                            **scores(y, p),
                            "held_out_loss": min(best.history),
                            "rate": best.recipe.rate,
                            "rounds": best.rounds,
                        }
                    )
                said = averages(each)
                cells.append({"data": name, "epsilon": epsilon, "curvature": kind, "n": seeds, **said, "each": each})
                print(name, epsilon, kind, {key: round(value["mean"], 5) for key, value in said.items()}, flush=True)
                written({"cells": cells}, out)
    return {"cells": cells}


# ----------------------------------------------------------------
# Time.


def timed(kind: str, classes: int, rows: int, rounds: int) -> dict[str, Any]:
    """One training, in a process of its own; the data are made and binned before the clock starts."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 30)).astype(np.float32)
    signal = x[:, :classes] + generator.gumbel(size=(rows, classes))
    release = released(signal.argmax(axis=1), 2.0, 0, classes)
    parameters = {"verbosity": -1, "num_threads": 1, "num_leaves": 31, "learning_rate": 0.1}
    if classes > 2:
        parameters["num_class"] = classes
    if kind == "plain":
        parameters["objective"] = "binary" if classes == 2 else "multiclass"
        data = lightgbm.Dataset(x, np.asarray(release.observations), params=parameters)
    else:
        data = boosting.dataset(x, release, params=parameters)
        parameters["objective"] = boosting.objective(data)
    data.construct()
    del x, signal
    before, start, cpu = own_peak(), time.perf_counter(), time.process_time()
    lightgbm.train(parameters, data, rounds)
    return {
        "seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu, "peak_before": before, "peak": own_peak(),
    }  # fmt: skip


def time_both(turns: int, rows: int, out: Path | None) -> dict[str, Any]:
    """Turns alternate; the ratio is of CPU seconds within a turn, since the machine may be shared."""
    found = {}
    for classes, rounds in ((2, 15), (10, 3)):
        each: dict[str, list[Any]] = {"plain": [], "evidence": []}
        sizes = ("--classes", str(classes), "--rows", str(rows), "--rounds", str(rounds))
        for _ in range(turns):
            for kind, some in each.items():
                some.append(run(__file__, "one", "--kind", kind, *sizes).output)
        pairs = zip(each["evidence"], each["plain"], strict=True)
        ratios = [ours["cpu_seconds"] / plain["cpu_seconds"] for ours, plain in pairs]
        measured = ("cpu_seconds", "seconds", "peak_before", "peak")
        found[f"{classes} classes"] = {
            "rows": rows,
            "columns": 30,
            "rounds": rounds,
            "ratio_of_cpu_seconds": summary(ratios),
            **{kind: {what: summary([one[what] for one in some]) for what in measured} for kind, some in each.items()},
        }
        print(classes, "classes: ratio", summary(ratios), flush=True)
        written(found, out)
    return found


# ----------------------------------------------------------------


def written(found: dict[str, Any], out: Path | None) -> None:
    if out is not None:
        said = {"machine": machine("lightgbm", "numpy", "scipy", "scikit-learn"), **found}
        out.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tables", "hessians", "time", "one"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--data", nargs="+", default=list(NAMES))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.5, 1.0, 2.0, 4.0, float("inf")])
    parser.add_argument("--models", nargs="+", default=["lightgbm", "linear", "naive", "naive-native"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--kind", default="plain")
    parser.add_argument(
        "--first-seed", type=int, default=0, help="defaults were settled on seeds 0 to 3; others are fresh"
    )
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    if given.what == "one":
        print(json.dumps(timed(given.kind, given.classes, given.rows, given.rounds)))
    elif given.what == "tables":
        written(tables(given.data, given.epsilon, seeds, given.models, given.out), given.out)
    elif given.what == "hessians":
        written(hessians(given.data, given.epsilon, given.seeds, given.out), given.out)
    else:
        written(time_both(given.seeds, given.rows, given.out), given.out)


if __name__ == "__main__":
    main()

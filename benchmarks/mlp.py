"""The default mlp against the linear model on four tables: `python benchmarks/mlp.py [--seeds 5] [--out benchmarks/results/mlp.json]`.

Randomized response at ε = 0.5, 1, 2, 4. A tenth of the released rows is left to choose the linear model's C among three, by their
likelihood; all models are trained on the others, also a linear one with C = 0.01. True labels of the test rows report, and choose
nothing here; when the mlp's recipe was made, on seed 0, they were in view, so later seeds are the fairer ones (Adult's test rows are
always the same). A seed draws noise, initial weights, held-out rows and, but for Adult, which comes split, a fifth of the rows as a
test set. Seconds are of one CPU, without encoding. What the file holds already, of the same recipe, is not run again. The tables lie in
$LABELDP_DATA; Criteo's states no licence, so results are kept and rows never.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq
import torch
from measuring import machine
from scipy.special import logsumexp, softmax
from sklearn.metrics import log_loss, roc_auc_score

from labeldp import PrivateLabels, SeededEntropy, models
from labeldp.data.encode import Encoding
from labeldp.estimators.linear import fit_linear
from labeldp.mechanisms import RandomizedResponse
from labeldp.training.recipe import default_recipe
from labeldp.training.trainer import Trainer

EPSILONS = (0.5, 1.0, 2.0, 4.0)
INVERSE = (0.001, 0.01, 0.1)
LINEAR = ("linear", "linear, C = 0.01")
MODELS = ("mlp", *LINEAR)
TABLES = ("adult", "bank", "diabetes", "criteo")
ADULT = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race", "sex",
    "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
]  # fmt: skip
ADULT_TRAINED = 32_561

Floats = npt.NDArray[Any]


def cells(path: Path, delimiter: str = ",", names: list[str] | None = None, skip: int = 0) -> pa.Table:
    raw = gzip.decompress(path.read_bytes()).split(b"\n", skip)[skip]
    if names:
        raw = raw.replace(b", ", b",").replace(b".\n", b"\n")
    return csv.read_csv(io.BytesIO(raw), csv.ReadOptions(column_names=names), csv.ParseOptions(delimiter=delimiter))


def table(name: str, folder: Path) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Features as `labeldp features` encodes them, and the true labels."""
    if name == "adult":
        parts = [cells(folder / "adult.data.gz", names=ADULT), cells(folder / "adult.test.gz", names=ADULT, skip=1)]
        read, label, positive, others = pa.concat_tables(parts), "income", ">50K", []
    elif name == "bank":
        read, label, positive, others = cells(folder / "bank-full.csv.gz", ";"), "y", "yes", []
    elif name == "diabetes":
        read, label, positive = cells(folder / "diabetic_data.csv.gz"), "readmitted", "<30"
        others = ["encounter_id", "patient_nbr"]
    else:
        read, label, positive = pq.read_table(folder / "criteo_ppml_adkdd21_train.parquet"), "click", 1
        others = ["sale"]  # another outcome
        for index, column in enumerate(read.column_names):
            if column.startswith("hash"):
                text = pc.binary_join_element_wise("h", pc.cast(read[column], pa.string()), "")
                read = read.set_column(index, column, text)
    labels = np.asarray(pc.equal(read[label], positive)).astype(np.int64)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "features.parquet"
        pq.write_table(read.drop_columns([label, *others]), path)
        encoded = pa.Table.from_batches(list(Encoding.fit(path, labels=[]).apply(path)))
    return np.stack([column.to_numpy() for column in encoded.columns], axis=1).astype(np.float32), labels


def parts(name: str, rows: int, seed: int) -> tuple[Floats, Floats]:
    """Rows to train on, and to test."""
    if name == "adult":
        return np.arange(ADULT_TRAINED), np.arange(ADULT_TRAINED, rows)
    order = np.random.default_rng(seed).permutation(rows)
    return order[rows // 5 :], order[: rows // 5]


def standardized(x: Floats, by: Floats) -> Floats:
    mean, spread = by.mean(axis=0), by.std(axis=0)
    return np.clip((x - mean) / np.where(spread > 1e-6 * (1 + abs(mean)), spread, 1), -10, 10).astype(np.float64)


def linear(
    x: Floats, evidence: Floats, kept: Floats, held_out: Floats, tested: Floats, inverses: Sequence[float]
) -> dict[str, Any]:
    """The fit whose likelihood of held-out releases is best; seconds are of that one."""
    scaled, test, fits = standardized(x, x), standardized(tested, x), []
    for inverse in inverses:
        start = time.process_time()
        fit = fit_linear(
            scaled[kept], kept, lambda rows: evidence[rows], 2, inverse=inverse, most=300, tolerance=1e-5
        )  # fmt: skip
        seconds = time.process_time() - start
        prior = np.log(softmax(fit.logits(scaled[held_out]), axis=1))
        fits.append((logsumexp(prior + evidence[held_out], axis=1).mean(), inverse, fit, seconds))
    _, inverse, fit, seconds = max(fits, key=lambda one: one[0])
    return {"p": softmax(fit.logits(test), axis=1)[:, 1], "C": inverse, "seconds": seconds}


def mlp(x: Floats, evidence: Floats, kept: Floats, tested: Floats, seed: int) -> dict[str, Any]:
    start = time.process_time()
    torch.manual_seed(seed)
    recipe = replace(default_recipe("mlp", 2), seed=seed)
    trainer = Trainer(models.build("mlp", x.shape[1:], 2), recipe, torch.device("cpu"), torch.float32)
    features = torch.from_numpy(x)
    trainer.prepare(features)
    for _ in trainer.fit(features, kept, lambda rows: evidence[rows]):
        pass
    seconds = time.process_time() - start
    return {"p": trainer.probabilities(torch.from_numpy(tested))[:, 1].astype(np.float64), "seconds": seconds}


def cell(
    name: str, data: tuple[Floats, Floats], epsilon: float, seed: int, wanted: Sequence[str]
) -> Iterator[dict[str, Any]]:
    features, labels = data
    trained, test = parts(name, len(labels), seed)
    x, tested = features[trained], features[test]
    mechanism = RandomizedResponse.calibrated(epsilon=epsilon, num_classes=2)
    private = PrivateLabels(labels[trained], 2)
    evidence = mechanism.evidence(mechanism.observe_uncharged(private, SeededEntropy(seed)))
    held_out, kept = np.split(np.random.default_rng(seed + 1000).permutation(len(x)), [len(x) // 10])
    for model in wanted:
        if model == "mlp":
            made = mlp(x, evidence, np.sort(kept), tested, seed)
        else:
            made = linear(x, evidence, kept, held_out, tested, INVERSE if model == "linear" else (0.01,))
        p = np.clip(made.pop("p"), 1e-7, 1 - 1e-7)
        scores = {"auc": roc_auc_score(labels[test], p), "log_loss": log_loss(labels[test], p)}
        yield {"table": name, "epsilon": epsilon, "seed": seed, "model": model, "rows": len(kept), **scores, **made}


def spread(values: Sequence[float]) -> dict[str, Any]:
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return {"mean": statistics.mean(values), "standard_error": error, "n": len(values)}


def summaries(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each table and ε: every model, and the mlp's paired differences from the linear ones."""
    found = []
    for name in TABLES:
        for epsilon in EPSILONS:
            chosen = [run for run in runs if (run["table"], run["epsilon"]) == (name, epsilon)]
            row: dict[str, Any] = {"table": name, "epsilon": epsilon}
            by = {model: {run["seed"]: run for run in chosen if run["model"] == model} for model in MODELS}
            for model, its in by.items():
                row[model] = {key: spread([run[key] for run in its.values()]) for key in ("auc", "log_loss", "seconds")}
            for other in LINEAR:
                for key in ("auc", "log_loss"):
                    pairs = [by["mlp"][seed][key] - by[other][seed][key] for seed in by["mlp"]]
                    row[f"{key}, mlp - {other}"] = spread(pairs)
            found.append(row)
    return found


def shown(row: dict[str, Any]) -> str:
    text = f"{row['table']:9} ε = {row['epsilon']:<3g} AUC mlp {row['mlp']['auc']['mean']:.4f}"
    for other in LINEAR:
        auc, loss = row[f"auc, mlp - {other}"], row[f"log_loss, mlp - {other}"]
        text += f"; {other} {row[other]['auc']['mean']:.4f}, difference {auc['mean']:+.4f} ± {auc['standard_error'] or 0:.4f}"
        text += f" (log loss {loss['mean']:+.4f} ± {loss['standard_error'] or 0:.4f})"
    return f"{text}; {row['mlp']['seconds']['mean']:.1f} s (n = {row['mlp']['auc']['n']})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "mlp.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder, recipe = Path(os.environ["LABELDP_DATA"]), default_recipe("mlp", 2).to_json()
    before = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else {}
    runs = before["runs"] if before.get("recipe") == recipe else []
    data = {name: table(name, folder) for name in TABLES}
    for seed in range(arguments.seeds):
        for name in TABLES:
            for epsilon in EPSILONS:
                done = {
                    run["model"] for run in runs if (run["table"], run["epsilon"], run["seed"]) == (name, epsilon, seed)
                }
                runs += cell(name, data[name], epsilon, seed, [model for model in MODELS if model not in done])
        result = {
            "machine": machine("torch", "numpy", "scipy", "scikit-learn", "labeldp"),
            "recipe": recipe,
            "linear_C": INVERSE,
            "cells": summaries([run for run in runs if run["seed"] <= seed]),
            "runs": runs,
        }
        arguments.out.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print("\n".join(map(shown, result["cells"])))


if __name__ == "__main__":
    main()

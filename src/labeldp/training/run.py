"""A run directory: what was trained, from what, how well, at what cost.

config.json     the recipe and where everything came from
metrics.jsonl   one line an epoch
model.safetensors
trained.parquet the ids that were trained on; `evaluate` refuses them
summary.json    the certificate beside the accuracy
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from labeldp import models
from labeldp.errors import InputError
from labeldp.evaluation import AccuracyEstimate, estimate_accuracy
from labeldp.release import Release
from labeldp.release.core import certificate_json
from labeldp.release.place import place_file
from labeldp.training.device import choose_device, choose_dtype
from labeldp.training.recipe import Recipe
from labeldp.training.trainer import Trainer

Progress = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Job:
    """A model to train from a release. `features[i]` belongs to position i of the release."""

    release: Release
    features: npt.NDArray[Any]
    model: str
    recipe: Recipe
    holdout: float = 0.1
    device: str = "auto"
    dtype: str = "auto"

    def __post_init__(self) -> None:
        if len(self.features) != len(self.release):
            raise InputError(
                f"there are {len(self.features):,} rows of features for {len(self.release):,} released rows."
            )
        if not 0 <= self.holdout < 1:
            raise InputError(f"--holdout is a share of the rows, from 0 to below 1; got {self.holdout:g}.")

    def split(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Positions to train on, and positions held out; drawn without looking at anything but the seed."""
        order = np.random.default_rng(self.recipe.seed).permutation(len(self.release))
        held_out = round(self.holdout * len(order))
        if len(order) - held_out < 2:
            raise InputError(f"--holdout {self.holdout:g} leaves too few of the {len(order):,} rows to train on.")
        return np.sort(order[held_out:]), np.sort(order[:held_out])

    def config(self) -> dict[str, Any]:
        """What makes this run this run: resuming with anything else is refused."""
        return {
            "release": self.release.checksum,
            "data_set": self.release.data_set,
            "label": self.release.header["label"],
            "model": self.model,
            "num_classes": self.release.mechanism.num_classes,
            "label_names": self.release.header["label_names"],
            "feature_shape": list(self.features.shape[1:]),
            "feature_type": str(self.features.dtype),
            "holdout": self.holdout,
            "recipe": self.recipe.to_json(),
        }

    def trainer(self) -> Trainer:
        """A fresh model, initialised from the seed."""
        device = choose_device(self.device)
        torch.manual_seed(self.recipe.seed)
        shape, classes = tuple(self.features.shape[1:]), self.release.mechanism.num_classes
        return Trainer(models.build(self.model, shape, classes), self.recipe, device, _dtype(device, self.dtype, shape))


def train(
    job: Job,
    folder: Path,
    *,
    public_test: tuple[npt.NDArray[Any], npt.NDArray[np.int64]] | None = None,
    progress: Progress = lambda line: None,
) -> dict[str, Any]:
    """Train (or go on training) in `folder`; return the summary. Test labels are used once, at the end, and must be public."""
    folder.mkdir(parents=True, exist_ok=True)
    trainer = job.trainer()
    rows, held_out = job.split()
    features = torch.from_numpy(np.ascontiguousarray(job.features))
    checkpoint = folder / "model.safetensors"
    _match(folder / "config.json", job.config())
    if checkpoint.exists():
        trainer.load(checkpoint)
    else:
        trainer.prepare(features)
    _write_trained(folder / "trained.parquet", job.release, rows)
    start, before = time.perf_counter(), _seconds(folder / "metrics.jsonl", trainer.epoch)
    for metrics in trainer.fit(features, rows, job.release.evidence):
        _append(
            folder / "metrics.jsonl", metrics
        )  # before the checkpoint: killed in between, the epoch is done and noted again
        trainer.save(checkpoint)
        progress(metrics)
    seconds = before + time.perf_counter() - start
    estimate = None
    if len(held_out) >= 2:
        predictions = trainer.probabilities(features[torch.from_numpy(held_out)]).argmax(axis=1)
        estimate = estimate_accuracy(job.release.mechanism, job.release.observations[held_out], predictions)
    summary = {
        "certificate": certificate_json(job.release.mechanism, job.release.insecure),
        "trust": "local",
        **_estimate_json(estimate),
        "accuracy_test": _accuracy(trainer, *public_test) if public_test is not None else None,
        "rows_trained": len(rows),
        "rows_held_out": len(held_out),
        "mechanism": job.release.mechanism.to_json(),
        "model": job.model,
        "epochs": trainer.epoch,
        "train_flop": trainer.flop,
        "seconds": seconds,
        "dtype": str(trainer.dtype).removeprefix("torch."),
        "device": str(trainer.device),
        "threads": torch.get_num_threads(),
        "insecure": job.release.insecure,
        "release": job.release.checksum,
    }
    _write_json(folder / "summary.json", summary)
    return summary


def open_run(folder: Path, device: str = "auto", dtype: str = "auto") -> tuple[Trainer, dict[str, Any]]:
    """A finished run's model, ready to predict."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        recipe = Recipe(**config["recipe"])
        shape, classes = tuple(config["feature_shape"]), int(config["num_classes"])
        name = str(config["model"])
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{folder} is not a run of `labeldp train`.") from None
    place = choose_device(device)
    trainer = Trainer(models.build(name, shape, classes), recipe, place, _dtype(place, dtype, shape))
    trainer.load(folder / "model.safetensors")
    return trainer, config


def predict(
    folder: Path, features: npt.NDArray[Any], device: str = "auto", dtype: str = "auto"
) -> npt.NDArray[np.float32]:
    """The run's class probabilities for new rows."""
    trainer, config = open_run(folder, device, dtype)
    if list(features.shape[1:]) != config["feature_shape"]:
        raise InputError(
            f"the model takes features of shape {config['feature_shape']}; these have {list(features.shape[1:])}."
        )
    return trainer.probabilities(torch.from_numpy(np.ascontiguousarray(features)))


def evaluate(folder: Path, release: Release, features: npt.NDArray[Any]) -> AccuracyEstimate:
    """Accuracy on released rows that this run has not trained on; rows that it has are refused."""
    _, config = open_run(folder)
    if (release.mechanism.num_classes, release.header["label_names"]) != (config["num_classes"], config["label_names"]):
        raise InputError("this release has other classes (or the same in another order) than the run was trained with.")
    trained = pq.read_table(folder / "trained.parquet")
    about = json.loads(trained.schema.metadata[b"labeldp"])
    by_id = release.header["ids"] is not None
    # Ids name people whatever the data set is called; row numbers mean something within one data set only.
    if by_id == about["by_id"] and (by_id or about["data_set"] == release.data_set):
        seen = {str(name) for name in trained.column("id").to_pylist()}
        again = [i for i, name in enumerate(release.ids.tolist()) if str(name) in seen]
        if again:
            raise InputError(
                f"{len(again):,} of these rows were trained on (the first at position {again[0]}): an accuracy on them would be "
                "wrong. Evaluate on rows that were held out."
            )
    if len(features) != len(release):
        raise InputError(f"there are {len(features):,} rows of features for {len(release):,} released rows.")
    predictions = predict(folder, features).argmax(axis=1)
    return estimate_accuracy(release.mechanism, release.observations, predictions)


def _dtype(device: torch.device, name: str, shape: tuple[int, ...]) -> torch.dtype:
    """Convolutions gain from bfloat16; small matrices only lose digits."""
    return torch.float32 if name == "auto" and len(shape) != 3 else choose_dtype(device, name)


def _match(path: Path, config: dict[str, Any]) -> None:
    if not path.exists():
        _write_json(path, config)
        return
    if json.loads(path.read_text(encoding="utf-8")) != json.loads(json.dumps(config)):
        raise InputError(f"{path.parent} holds another run (another release, model or recipe); choose another --out.")


def _write_json(path: Path, data: dict[str, Any]) -> None:
    content = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    place_file(path, lambda file: file.write(content))


def _write_trained(path: Path, release: Release, rows: npt.NDArray[np.int64]) -> None:
    facts = {"data_set": release.data_set, "by_id": release.header["ids"] is not None}
    about = {b"labeldp": json.dumps(facts).encode()}
    table = pa.table({"id": pa.array(release.ids[rows])}).replace_schema_metadata(about)
    place_file(path, lambda file: pq.write_table(table, file))


def _append(path: Path, metrics: dict[str, Any]) -> None:
    """One line more; a line that a kill cut short is ended first."""
    whole = not path.exists() or path.read_bytes()[-1:] in (b"", b"\n")
    with path.open("a", encoding="utf-8") as file:
        file.write(("" if whole else "\n") + json.dumps(metrics) + "\n")


def _seconds(path: Path, epochs: int) -> float:
    """What the epochs that are done already took."""
    took: dict[int, float] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with suppress(ValueError, KeyError, TypeError):
            metrics = json.loads(line)
            took[int(metrics["epoch"])] = float(metrics["seconds"])
    return sum(seconds for epoch, seconds in took.items() if epoch <= epochs)


def _accuracy(trainer: Trainer, features: npt.NDArray[Any], labels: npt.NDArray[np.int64]) -> float:
    predictions = trainer.probabilities(torch.from_numpy(np.ascontiguousarray(features))).argmax(axis=1)
    return float((predictions == labels).mean())


def _estimate_json(estimate: AccuracyEstimate | None) -> dict[str, Any]:
    if estimate is None:
        return {"accuracy_estimated": None, "standard_error": None, "interval_95": None}
    low, high = estimate.interval()
    return {
        "accuracy_estimated": estimate.accuracy,
        "standard_error": estimate.standard_error,
        "interval_95": [low, high],
    }

"""What a finished run is for: predictions, and an honest accuracy on other rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from labeldp import models
from labeldp.errors import InputError
from labeldp.evaluation import AccuracyEstimate, estimate_accuracy
from labeldp.release import Release
from labeldp.training.device import Machine, explained_memory
from labeldp.training.folder import RunFolder
from labeldp.training.recipe import Recipe
from labeldp.training.trainer import Trainer


def open_run(folder: Path, machine: Machine | None = None) -> tuple[Trainer, dict[str, Any]]:
    """A run's model, ready to predict, and its configuration."""
    run = RunFolder(folder)
    config = run.config()
    try:
        recipe = Recipe(**config["recipe"])
        shape, classes = tuple(config["feature_shape"]), int(config["num_classes"])
        name = str(config["model"])
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{folder} is not a run of `labeldp train`.") from None
    device, dtype = (machine or Machine()).chosen(images=len(shape) == 3)
    trainer = Trainer(models.build(name, shape, classes), recipe, device, dtype)
    trainer.load(run.final)
    return trainer, config


def predict(folder: Path, features: npt.NDArray[Any], machine: Machine | None = None) -> npt.NDArray[np.float32]:
    """The run's class probabilities for new rows."""
    trainer, config = open_run(folder, machine)
    if list(features.shape[1:]) != config["feature_shape"]:
        raise InputError(
            f"the model takes features of shape {config['feature_shape']}; these have {list(features.shape[1:])}."
        )
    with explained_memory("predict fewer rows at a time."):
        return trainer.probabilities(torch.from_numpy(np.ascontiguousarray(features)))


def evaluate(
    folder: Path, release: Release, features: npt.NDArray[Any], machine: Machine | None = None
) -> AccuracyEstimate:
    """Accuracy on released rows that this run has not trained on; rows that it has are refused."""
    run = RunFolder(folder)
    config = run.config()
    if (release.mechanism.num_classes, release.header["label_names"]) != (config["num_classes"], config["label_names"]):
        raise InputError("this release has other classes (or the same in another order) than the run was trained with.")
    run.refuse_trained(release)
    if len(features) != len(release):
        raise InputError(f"there are {len(features):,} rows of features for {len(release):,} released rows.")
    predictions = predict(folder, features, machine).argmax(axis=1)
    return estimate_accuracy(release.mechanism, release.observations, predictions)

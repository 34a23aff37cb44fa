"""What a finished run is for: predictions, and an honest accuracy on other rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from labeldp import models
from labeldp.errors import InputError
from labeldp.evaluation.accuracy import AccuracyEstimate, estimate_accuracy
from labeldp.release import Release
from labeldp.training.folder import RunFolder
from labeldp.training.machine import Machine, explained_memory
from labeldp.training.recipe import Recipe
from labeldp.training.trainer import Trainer


def open_run(folder: Path, machine: Machine | None = None, model: str | None = None) -> tuple[Trainer, dict[str, Any]]:
    """A run's model, ready to predict, and its configuration.

    A model of your own (`package.module:Class`) must be named again: a run directory may come from somebody else, and nothing that
    it names is imported on its word alone.
    """
    run = RunFolder(folder)
    config = run.trained_as()
    try:
        recipe = Recipe(**config["recipe"])
        shape, classes = tuple(config["feature_shape"]), int(config["num_classes"])
        name = str(config["model"])
        given = all("None" in str(field.type) or getattr(recipe, field.name) is not None for field in fields(Recipe))
        if not given or not all(type(extent) is int and extent > 0 for extent in shape):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{folder} is not a run of `labeldp train`.") from None
    if run.finished() is None:
        raise InputError(f"{folder} is not finished: the same `labeldp train` command goes on with it.")
    if name not in models.NAMES and name != model:
        raise InputError(
            f"this run's model is {name}, which is code: name it yourself if you trust it (`model={name!r}`)."
        )
    device, dtype = (machine or Machine()).chosen(images=len(shape) == 3)
    built = models.build(name, shape, classes)
    try:
        trainer = Trainer(built, recipe, device, dtype)
    except (ValueError, TypeError):
        raise InputError(f"{folder} has a recipe that no training can have: its config.json is damaged.") from None
    trainer.load(run.final)
    return trainer, config


def predict(
    folder: Path, features: npt.NDArray[Any], machine: Machine | None = None, model: str | None = None
) -> npt.NDArray[np.float32]:
    """The run's class probabilities for new rows."""
    return predictor(folder, machine, model)(features)


def predictor(
    folder: Path, machine: Machine | None = None, model: str | None = None
) -> Callable[[npt.NDArray[Any]], npt.NDArray[np.float32]]:
    """The same for one part of the rows after the other; the model is read once."""
    trainer, config = open_run(folder, machine, model)

    def probabilities(features: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        if list(features.shape[1:]) != config["feature_shape"]:
            raise InputError(
                f"the model takes features of shape {config['feature_shape']}; these have {list(features.shape[1:])}."
            )
        if (features.dtype == np.uint8) != (config.get("feature_type") == "uint8"):
            raise InputError(f"the model was trained on {config['feature_type']}; these features are {features.dtype}.")
        with explained_memory("predict fewer rows at a time."):
            return trainer.probabilities(torch.from_numpy(np.ascontiguousarray(features)))

    return probabilities


def evaluate(
    folder: Path,
    release: Release,
    features: npt.NDArray[Any],
    machine: Machine | None = None,
    *,
    model: str | None = None,
    other_rows: bool = False,
) -> AccuracyEstimate:
    """Accuracy on released rows that this run has not trained on; rows that it has are refused.

    Where rows go by number in another data set, or by id here and by number there, nobody can see whether they are the same people:
    there is a warning, unless `other_rows` says that they are not.
    """
    run = RunFolder(folder)
    config = run.trained_as()
    if (release.mechanism.num_classes, release.header["label_names"]) != (config["num_classes"], config["label_names"]):
        raise InputError("this release has other classes (or the same in another order) than the run was trained with.")
    if None not in (release.label, config["label"]) and release.label != config["label"]:
        raise InputError(
            f"this release is of the label {release.header['label']!r}; the run was trained on {config['label']!r}."
        )
    doubt = run.refuse_trained(release)
    if doubt is not None and not other_rows:
        warnings.warn(doubt, stacklevel=2)
    if len(features) != len(release):
        raise InputError(f"there are {len(features):,} rows of features for {len(release):,} released rows.")
    predictions = predict(folder, features, machine, model).argmax(axis=1)
    return estimate_accuracy(release.mechanism, release.observations, predictions)

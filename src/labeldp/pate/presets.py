"""The rows of the paper's PATE table by name, and recipes for teachers and students."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from labeldp.errors import InputError
from labeldp.training.recipe import Recipe, changed, cpu_fixmatch_recipe, default_recipe, fixmatch_recipe

# Teachers, σ1, σ2, τ, answers: the paper's table of PATE-FM hyperparameters. Epochs: teachers 40 and student 200 (CIFAR-10), 125 and 125
# (CIFAR-100). It states no cap on asked queries; ours leaves room for as many that do not pass.
_ROWS = {
    "pate-cifar10-high": ("cifar10", 200, 160.0, 20.0, 100.0, 500),
    "pate-cifar10-medium": ("cifar10", 800, 800.0, 300.0, 400.0, 250),
    "pate-cifar10-low": ("cifar10", 800, 800.0, 500.0, 400.0, 250),
    "pate-cifar100-high": ("cifar100", 20, 7.0, 2.0, 2.0, 9400),
    "pate-cifar100-medium": ("cifar100", 100, 45.0, 15.0, 10.0, 1000),
    "pate-cifar100-low": ("cifar100", 100, 90.0, 30.0, 10.0, 1000),
}
_EPOCHS = {"cifar10": (40, 200, "wide-resnet-28-4"), "cifar100": (125, 125, "wide-resnet-28-8")}
NAMES = tuple(_ROWS)


def preset(name: str) -> dict[str, Any]:
    """A row's options, as `labeldp pate run` takes them."""
    if name not in _ROWS:
        raise InputError(f"unknown preset {name!r}; choose one of {', '.join(NAMES)}.")
    dataset, teachers, sigma1, sigma2, threshold, answered = _ROWS[name]
    epochs, student_epochs, model = _EPOCHS[dataset]
    return {
        "dataset": dataset, "teachers": teachers, "method": "fixmatch", "model": model, "epochs": epochs, "max_asked": 2 * answered,
        "max_answered": answered, "sigma1": sigma1, "sigma2": sigma2, "threshold": threshold, "student_model": model,
        "student_epochs": student_epochs, "paper": True,
    }  # fmt: skip


def filled(given: dict[str, Any], name: str | None) -> None:
    """Options that were not given, from the preset."""
    if name is not None:
        row = preset(name)
        given.update({option: row[option] for option, value in given.items() if value is None and option in row})


def recipe_for(
    model: str, features: npt.NDArray[Any], num_classes: int, epochs: int | None, seed: int, *, paper: bool = False
) -> Recipe:
    """FixMatch's for these features: as published, or what serves short runs on a CPU better."""
    size = features.shape[-1] if features.ndim == 4 else 32
    usual = fixmatch_recipe if paper else cpu_fixmatch_recipe
    return usual(model, num_classes, size=size, epochs=epochs, seed=seed)


def student_recipe(model: str, num_classes: int, epochs: int | None, seed: int) -> Recipe:
    """The model's own, for a student that learns from the answers alone. They are few: small batches."""
    usual = default_recipe(model, num_classes)
    return changed(usual, epochs=epochs, seed=seed, batch_size=min(usual.batch_size, 64))

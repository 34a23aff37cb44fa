"""Recipes for teachers and students."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from labeldp.training.recipe import Recipe, changed, cpu_fixmatch_recipe, default_recipe, fixmatch_recipe


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

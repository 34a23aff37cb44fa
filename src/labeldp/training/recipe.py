"""How to train: numbers that are public and written into every run."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from labeldp.errors import InputError


@dataclass(frozen=True)
class Recipe:
    """SGD with Nesterov momentum, a schedule, and augmentation for images."""

    epochs: int
    batch_size: int
    learning_rate: float
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warmup: float = 0.25  # the share of steps until the learning rate's peak; it falls to zero in a line after that
    norm_rate: float = 1.0  # learning rate of normalisation layers, as a multiple
    shift: int = 0  # pixels
    flip: bool = False  # alternating from epoch to epoch, and averaged over when predicting
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 2:
            raise InputError("a training has at least one epoch, and batches of at least two rows.")
        if not self.learning_rate > 0:
            raise InputError(f"the learning rate must be positive; got {self.learning_rate}.")

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


DEFAULTS = {
    # From the literature on fast CIFAR training; the loss is a mean over the batch.
    "fast": Recipe(8, 512, 0.4, momentum=0.85, weight_decay=5e-4, warmup=0.23, norm_rate=8.0, shift=2, flip=True),
    "linear": Recipe(30, 256, 0.05, weight_decay=1e-4),
    "mlp": Recipe(30, 128, 0.02, weight_decay=1e-3),
}


def default_recipe(model: str) -> Recipe:
    """The model's own; for a model by import path, a middling one."""
    return DEFAULTS.get(model, Recipe(20, 128, 0.05))

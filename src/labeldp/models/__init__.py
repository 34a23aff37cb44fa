"""Models by name, or any `nn.Module` by import path."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from torch import nn

from labeldp.errors import InputError
from labeldp.models.fast import FastNet
from labeldp.models.heads import MLP, Linear

NAMES = ("fast", "linear", "mlp")


def build(name: str, shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """The named model for features of this shape; `package.module:Class` is called with (shape, num_classes)."""
    size = 1
    for extent in shape:
        size *= extent
    if name == "linear":
        return Linear(size, num_classes)
    if name == "mlp":
        return MLP(size, num_classes)
    if name == "fast":
        if len(shape) != 3 or min(shape[1:]) < 17:
            raise InputError(f"the model 'fast' is for images of at least 17 × 17 pixels; these features are {shape}.")
        return FastNet(num_classes, in_channels=shape[0])
    return _imported(name)(shape, num_classes)


def _imported(name: str) -> Callable[[tuple[int, ...], int], nn.Module]:
    module, _, attribute = name.partition(":")
    try:
        made: Callable[[tuple[int, ...], int], nn.Module] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        raise InputError(
            f"unknown model {name!r}; choose {', '.join(NAMES)}, or name a class as package.module:Class."
        ) from None
    return made

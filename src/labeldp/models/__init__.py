"""Models by name, or any `nn.Module` by import path."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from torch import nn

from labeldp.errors import InputError
from labeldp.models.fast import WIDTHS, FastNet
from labeldp.models.heads import MLP, Linear
from labeldp.models.resnets import ResNet18, WideResNet

NAMES = (*WIDTHS, "linear", "mlp", "resnet18", "wide-resnet-28-2", "wide-resnet-28-4", "wide-resnet-28-8")


def build(name: str, shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """The named model for features of this shape; `package.module:Class` is called with (shape, num_classes)."""
    size = 1
    for extent in shape:
        size *= extent
    if name == "linear":
        return Linear(size, num_classes)
    if name == "mlp":
        return MLP(size, num_classes)
    if name not in NAMES:
        return _imported(name)(shape, num_classes)
    if len(shape) != 3 or min(shape[1:]) < 17:
        raise InputError(f"the model {name!r} is for images of at least 17 × 17 pixels; these features are {shape}.")
    if name in WIDTHS:
        return FastNet(num_classes, shape[0], WIDTHS[name])
    if name == "resnet18":
        return ResNet18(num_classes, in_channels=shape[0])
    return WideResNet(num_classes, int(name.removeprefix("wide-resnet-28-")), in_channels=shape[0])


def _imported(name: str) -> Callable[[tuple[int, ...], int], nn.Module]:
    module, colon, attribute = name.partition(":")
    if not colon:
        raise InputError(
            f"unknown model {name!r}; choose {', '.join(NAMES)}; for tables also lightgbm; or name a class as package.module:Class."
        )
    try:
        found = importlib.import_module(module)
    except (ImportError, ValueError) as error:
        raise InputError(
            f"the module {module!r} of your model cannot be imported: {error}. (The working directory is searched only with PYTHONPATH=. "
            "or `python -m labeldp`.)"
        ) from None
    if not callable(getattr(found, attribute, None)):
        raise InputError(f"the module {module!r} has no class {attribute!r}.")
    made: Callable[[tuple[int, ...], int], nn.Module] = getattr(found, attribute)
    return made

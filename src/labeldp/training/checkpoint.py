"""Checkpoints: everything that continuing needs, as safetensors. Nothing in such a file is executed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from labeldp.errors import InputError
from labeldp.files.atomic import place_file
from labeldp.training.machine import encode

if TYPE_CHECKING:
    from labeldp.training.trainer import Trainer


def save(trainer: Trainer, path: Path) -> None:
    """Write the trainer's state, placed in one step."""
    tensors = {f"model.{name}": value for name, value in trainer.model.state_dict().items()}
    tensors |= {"input.mean": trainer.mean, "input.scale": trainer.scale}
    if trainer.averaged is not None:
        tensors |= {f"average.{name}": value for name, value in trainer.averaged.state_dict().items()}
    tensors |= {f"momentum.{index}": value for index, value in trainer.momenta().items()}
    tensors |= {f"statistics.{name}": value for name, value in trainer.statistics().items()}
    counts = {"epoch": str(trainer.epoch), "flop": str(trainer.flop)}
    content = encode(tensors, counts)
    place_file(path, lambda file: file.write(content))


def load(trainer: Trainer, path: Path) -> None:
    """Bring a fresh trainer to the state that was saved."""
    from safetensors import SafetensorError, safe_open

    def part(name: str) -> dict[str, Tensor]:
        return {key.removeprefix(name): value for key, value in tensors.items() if key.startswith(name)}

    try:
        with safe_open(path, framework="pt") as file:
            counts = file.metadata()
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        trainer.model.load_state_dict(part("model."))
        if trainer.averaged is not None:
            trainer.averaged.load_state_dict(part("average."))
        trainer.mean, trainer.scale = tensors["input.mean"], tensors["input.scale"]
        trainer.epoch, trainer.flop = int(counts["epoch"]), int(counts["flop"])
        trainer.set_momenta({int(index): value for index, value in part("momentum.").items()})
        trainer.set_statistics(part("statistics."))
    except (SafetensorError, OSError, KeyError, RuntimeError, TypeError, ValueError):
        raise InputError(f"{path} is not a checkpoint of this model.") from None

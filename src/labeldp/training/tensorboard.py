"""Metrics for TensorBoard, in the run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labeldp.errors import InputError
from labeldp.training.run import Progress


def tensorboard(folder: Path) -> Progress:
    """What writes each epoch's metrics to folder/tensorboard."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError('TensorBoard is an extra: pip install "labeldp[tensorboard]"') from None
    writer = SummaryWriter(str(folder / "tensorboard"))

    def write(metrics: dict[str, Any]) -> None:
        for name, value in metrics.items():
            if name != "epoch":
                writer.add_scalar(name, value, metrics["epoch"])
        writer.flush()

    return write

"""What this machine does fast: device, number type, memory format. And what it says when memory runs out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from labeldp.errors import InputError, LabelDPError


@dataclass(frozen=True)
class Machine:
    """Where and in which numbers to compute; "auto" is what is fast here."""

    device: str = "auto"
    dtype: str = "auto"
    compile: bool = False

    def chosen(self, *, images: bool) -> tuple[torch.device, torch.dtype]:
        """Convolutions gain from bfloat16; small matrices only lose digits."""
        device = choose_device(self.device)
        plain = self.dtype == "auto" and not images
        return device, torch.float32 if plain else choose_dtype(device, self.dtype)


def choose_device(name: str = "auto") -> torch.device:
    """CUDA (the one that torchrun assigned), MPS or the CPU, in this order, unless one is named."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if name == "cuda" and torch.cuda.is_available():
        name = f"cuda:{torch.cuda.current_device()}"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError):
        raise InputError(f"the device {name!r} is not there; `device='auto'` takes what is.") from None
    return device


def choose_dtype(device: torch.device, name: str = "auto") -> torch.dtype:
    """bfloat16 where the hardware has it. On a CPU without, it silently takes a path twelve times slower than float32."""
    known = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    if name != "auto":
        if name not in known:
            raise InputError(f"`dtype` takes auto, {' or '.join(known)}; got {name!r}.")
        return known[name]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    if device.type == "cpu" and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return torch.bfloat16
    return torch.float32


@contextmanager
def explained_model(name: str) -> Iterator[None]:
    """What goes wrong inside a user's own model is theirs to see. It was given features and evidence only, and can quote no label."""
    try:
        yield
    except (LabelDPError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if ":" not in name or _short_of_memory(error):
            raise
        raise InputError(f"your model {name} failed: {type(error).__name__}: {error}") from error


@contextmanager
def explained_memory(remedy: str) -> Iterator[None]:
    """Running out of memory, said in one sentence with what to do about it."""
    try:
        yield
    except Exception as error:
        if not _short_of_memory(error):
            raise
    else:
        return
    raise InputError(f"memory ran out; {remedy}") from None


def _short_of_memory(error: Exception) -> bool:
    words = ("not enough memory", "can't allocate memory", "out of memory")  # what torch says on a CPU
    said = isinstance(error, RuntimeError) and any(text in str(error) for text in words)
    return said or isinstance(error, (MemoryError, torch.OutOfMemoryError))

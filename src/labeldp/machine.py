"""What this machine does fast: device, number type, memory format; and, of many processes, who does what is done once.

Torch is loaded by what needs it, and not before: tables are trained without it.
"""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from labeldp.errors import InputError, LabelDPError

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True)
class Machine:
    """Where and in which numbers to compute; "auto" is what is fast here."""

    device: str = "auto"
    dtype: str = "auto"
    compile: bool = False
    threads: int | None = None  # of trees; torch has its own

    def chosen(self, *, images: bool) -> tuple[torch.device, torch.dtype]:
        """Convolutions gain from bfloat16; small matrices only lose digits."""
        import torch

        device = choose_device(self.device)
        plain = self.dtype == "auto" and not images
        return device, torch.float32 if plain else choose_dtype(device, self.dtype)


def choose_device(name: str = "auto") -> torch.device:
    """CUDA (the one that torchrun assigned), MPS or the CPU, in this order, unless one is named."""
    import torch

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
    import torch

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
    except (LabelDPError, MemoryError):
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
    return said or isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # torch's


# ----------------------------------------------------------------
# Many processes, one training: what torchrun started, and who does what is done once.


@dataclass(frozen=True)
class World:
    """This process among all that train together. Alone, it is the first of one."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this process does what must be done once: release, charge, write files, print."""
        return self.rank == 0

    def wait(self) -> None:
        """Until every process is here."""
        if self.size > 1:
            _group().barrier()

    def told(self, value: float) -> float:
        """The first process's value, in every process."""
        values: list[float] = [value]
        if self.size > 1:
            _group().broadcast_object_list(values, src=0)
        return values[0]

    def share_buffers(self, *models: torch.nn.Module | None) -> None:
        """The first process's buffers (batch statistics), in every process."""
        if self.size > 1:
            for model in models:
                for buffer in model.buffers() if model is not None else ():
                    _group().broadcast(buffer, src=0)

    def mean(self, value: torch.Tensor) -> torch.Tensor:
        """Over the processes."""
        if self.size > 1:
            _group().all_reduce(value)
            value /= self.size
        return value


def _group() -> Any:
    import torch.distributed

    return torch.distributed


ALONE = World()


@contextmanager
def joined() -> Iterator[World]:
    """Join the processes that `torchrun` started, if it did; leave them in order."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    import torch

    dist = _group()
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    yield World(dist.get_rank(), dist.get_world_size())
    # Only after success: a process that fails must not wait for the others; torchrun stops them. What is left of a distributed model
    # (it holds on to itself) must be gone before the group is, or the process ends in "terminate called".
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()


# ----------------------------------------------------------------
# safetensors whose bytes depend on what is in them alone: equal runs leave equal files.


def encode(tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> bytes:
    """As `safetensors.torch.save`, which writes tensors in an order of its own but what is said `about` them in any."""
    from safetensors.torch import save

    # Cloned, since tied weights share memory, which the format does not know.
    content = save({name: value.cpu().contiguous().clone() for name, value in tensors.items()}, dict(about))
    start, end = 8, 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[start:end])
    header["__metadata__"] = dict(sorted(about.items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    padded = text.ljust(-(-len(text) // 8) * 8)  # tensors begin at a multiple of 8
    return len(padded).to_bytes(8, "little") + padded + content[end:]

"""Many processes, one training: what torchrun started, and who does what is done once."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist


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
            dist.barrier()

    def told(self, value: float) -> float:
        """The first process's value, in every process."""
        if self.size == 1:
            return value
        values: list[float] = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def share_buffers(self, *models: torch.nn.Module | None) -> None:
        """The first process's buffers (batch statistics), in every process."""
        if self.size > 1:
            for model in models:
                for buffer in model.buffers() if model is not None else ():
                    dist.broadcast(buffer, src=0)

    def mean(self, value: torch.Tensor) -> torch.Tensor:
        """Over the processes."""
        if self.size > 1:
            dist.all_reduce(value)
            value /= self.size
        return value


ALONE = World()


@contextmanager
def joined() -> Iterator[World]:
    """Join the processes that `torchrun` started, if it did; leave them in order."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    yield World(dist.get_rank(), dist.get_world_size())
    # Only after success: a process that fails must not wait for the others; torchrun stops them. What is left of a distributed model
    # (it holds on to itself) must be gone before the group is, or the process ends in "terminate called".
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()

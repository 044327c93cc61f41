"""One run on many devices: processes that each take a share of every batch, joined by torch.distributed.

Every process gathers, augments and mixes the whole batch, and then keeps its share: labels, order and augmentation are
those of a single process by construction. Gradients are averaged by DDP so that a step is that of the whole batch.
Batch norm uses each process's own share for its statistics; the running statistics are those of the first process, and
are given to all before anything is evaluated. Networks without batch norm take the steps of a single process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dissensus.errors import InputError
from dissensus.models.model import Model

Loss = Callable[[Tensor, Tensor], Tensor]
T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """This process among the `world` that compute a run together; the default is a process on its own."""

    rank: int = 0
    world: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files and talks to people: one does."""
        return self.rank == 0

    def joined(self, model: nn.Module, loss: Loss) -> Loss:
        """The loss of a share, whose gradients are averaged over the processes."""
        if self.world == 1:
            return loss
        if isinstance(model, Model) and not model.shares_batches:
            raise InputError(
                f"{type(model).__name__} keeps statistics of whole batches, which processes cannot share out",
                where="torchrun",
                hint="Train it in one process",
                state="",
            )
        device = next(model.parameters()).device
        ids = [device.index] if device.type == "cuda" else None
        return DistributedDataParallel(_LossModule(model, loss), device_ids=ids)

    def share(self, inputs: Tensor, target: Tensor) -> tuple[Tensor, Tensor, float]:
        """This process's part of a batch, and the weight that makes the average over processes the mean over the batch.

        A process whose part is empty computes the first item with weight 0: all must take part in every step.
        """
        if self.world == 1:
            return inputs, target, 1.0
        mine = inputs[self.rank :: self.world], target[self.rank :: self.world]
        if len(mine[0]) == 0:
            return inputs[:1], target[:1], 0.0
        return *mine, len(mine[0]) * self.world / len(inputs)

    def total(self, value: Tensor) -> Tensor:
        """The sum over the processes."""
        if self.world > 1:
            dist.all_reduce(value)
        return value

    def agree(self, model: nn.Module) -> None:
        """Give all processes the running statistics of the first."""
        if self.world > 1:
            for buffer in model.buffers():
                dist.broadcast(buffer, 0)

    def part(self, n: int) -> slice:
        """The items that this process evaluates: each is some process's, and no item two processes'."""
        ends = [n * rank // self.world for rank in range(self.world + 1)]
        return slice(ends[self.rank], ends[self.rank + 1])

    def gathered(self, mine: T) -> list[T]:
        """What every process has, in the order of their ranks."""
        if self.world == 1:
            return [mine]
        parts = [mine] * self.world
        dist.all_gather_object(parts, mine)
        return parts

    def from_leader(self, value: T) -> T:
        """The first process's value, for all."""
        return self.gathered(value)[0]


ALONE = Group()


@contextmanager
def from_environment() -> Iterator[Group]:
    """The group that `torchrun` started this process in; a process on its own where it did not."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield Group(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()


class _LossModule(nn.Module):
    """DDP calls `forward`, and what we average the gradients of is the loss."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model, self._loss = model, loss

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return self._loss(x, target)

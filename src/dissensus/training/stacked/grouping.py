"""Which members are one run, and which go together in a stack."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby, pairwise

import torch
from torch import Tensor

from dissensus.errors import InputError
from dissensus.models import Mlp
from dissensus.training.stacked.batched_heads import EVALUATION_ROWS, STATES
from dissensus.training.stacked.members import Member
from dissensus.training.stacked.shared_inputs import sharing_key

STACK_BYTES = 12 * 2**20
"""Weights and optimiser states that one thread goes through at every step: what stays in cache.

On two cores with 32 MiB of shared cache, much less or much more made a step 10 to 20% longer.
"""


@dataclass(eq=False)
class Trajectory:
    """A head in training, for one member or for several that differ in their number of epochs alone.

    `ends` are the epochs after which somebody wants a result, each with the indices of those members.
    """

    member: Member
    ends: dict[int, list[int]]
    curve: dict[str, list[float]] = field(default_factory=lambda: {"train_loss": [], "validation_loss": []})
    monitored: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    best_epoch: int | None = None

    @property
    def epochs(self) -> int:
        """At most."""
        return max(self.ends)

    @property
    def rate(self) -> float:
        """The learning rate of the next epoch."""
        watched = self.curve["validation_loss"]
        return self.member.optimiser.lr * self.member.schedule.factor(len(watched), self.epochs, watched)

    @property
    def stops(self) -> bool:
        """Whether it ends here, perhaps before its last epoch."""
        return self.member.stopping is not None and self.member.stopping.stops(self.curve["validation_loss"])

    def add(self, validation_loss: float) -> bool:
        """Add the loss of an epoch to the curve; whether it is the best so far."""
        watched, best = self.curve["validation_loss"], self.best_epoch
        watched.append(validation_loss)
        if validation_loss < (math.inf if best is None else watched[best]):
            self.best_epoch = len(watched) - 1
        return self.best_epoch == len(watched) - 1


def trajectories_of(members: Sequence[Member], share_prefixes: bool) -> list[Trajectory]:
    """One for each member, or one for all that differ in their number of epochs alone."""
    trajectories: dict[Hashable, Trajectory] = {}
    for index, member in enumerate(members):
        key = _but_for_epochs(member) if share_prefixes else index
        trajectory = trajectories.setdefault(key, Trajectory(member, {}))
        trajectory.ends.setdefault(member.epochs, []).append(index)
    return list(trajectories.values())


def _but_for_epochs(member: Member) -> Hashable:
    objects = (member.train_rows, member.validation_rows, member.labels, member.validation_target)
    monitors = tuple((name, id(monitor)) for name, monitor in member.monitors.items())
    rules = (member.optimiser, member.schedule, member.stopping)
    return member.seed, member.batch, *rules, *map(id, objects), monitors


def stacks_of(
    trajectories: Sequence[Trajectory], x: Tensor, head: Mlp, classes: int, memory_budget: int
) -> tuple[list[list[Trajectory]], int]:
    """The stacks, longest first, and how many to train at once.

    Heads of a stack step together: batch size, number of items and kind of optimiser are the same. Those that share their
    inputs are neighbours, so that few stacks need more than one set of inputs; then those of one learning rate and number
    of epochs, which tend to end together: what is left of a stack is slower.
    """
    first_use = {sharing_key(trajectory.member): index for index, trajectory in reversed(list(enumerate(trajectories)))}

    def kind(trajectory: Trajectory) -> tuple[int, int, str]:
        member = trajectory.member
        return member.batch, len(member.train_rows), type(member.optimiser).__name__

    def neighbourhood(trajectory: Trajectory) -> tuple[int, float, int]:
        member = trajectory.member
        return first_use[sharing_key(member)], member.optimiser.lr, trajectory.epochs

    def order(trajectory: Trajectory) -> tuple[Hashable, ...]:
        return kind(trajectory), *neighbourhood(trajectory), repr(trajectory.member.optimiser)

    workers, stacks = torch.get_num_threads(), []
    for _, group in groupby(sorted(trajectories, key=order), kind):
        alike = list(group)
        hot, whole = _footprint(alike, x, head, classes)
        if whole > memory_budget:
            raise InputError(
                f"training one head takes {whole / 2**20:.1f} MiB, and the budget is {memory_budget / 2**20:.1f} MiB",
                where="memory budget",
                hint="Give it more",
                state="",
            )
        workers = min(workers, memory_budget // whole)
        most = max(1, min(STACK_BYTES // hot, memory_budget // (workers * whole)))
        rounds = math.ceil(len(alike) / (most * workers))  # as many stacks in each as there are threads
        size = math.ceil(len(alike) / (rounds * workers))
        ends = list(accumulate(len(list(same)) for _, same in groupby(alike, neighbourhood)))
        stacks += [alike[start:end] for start, end in pairwise(_cuts(len(alike), size, ends))]

    def cost(stack: list[Trajectory]) -> float:
        items = [trajectory.epochs * len(trajectory.member.train_rows) for trajectory in stack]
        return sum(items) * (1 + 8 / stack[0].member.batch)

    return sorted(stacks, key=cost, reverse=True), workers


def _cuts(n: int, size: int, ends: Collection[int]) -> list[int]:
    """Where to cut n into pieces of `size`: a little earlier where something ends there anyway.

    >>> _cuts(20, 9, ends=[8, 16, 20]), _cuts(20, 9, ends=[4, 20])
    ([0, 8, 16, 20], [0, 9, 18, 20])
    """
    cuts = [0]
    while cuts[-1] < n:
        latest = min(n, cuts[-1] + size)
        cuts.append(next((cut for cut in range(latest, latest - size // 4 - 1, -1) if cut in ends), latest))
    return cuts


def _footprint(trajectories: Sequence[Trajectory], x: Tensor, head: Mlp, classes: int) -> tuple[int, int]:
    """Bytes of a head that every step goes through, and all bytes that a head with inputs of its own needs."""
    member, hidden = trajectories[0].member, sum(head.hidden)
    train, validation = len(member.train_rows), max(len(trajectory.member.validation_rows) for trajectory in trajectories)
    parameters = sum((wide_in + 1) * wide_out for wide_in, wide_out in pairwise((x.shape[1], *head.hidden, classes)))
    hot = parameters * (1 + STATES[type(member.optimiser)])
    gradient = best = parameters
    inputs = train * (4 * x.shape[1] + hidden + 2 * classes) + validation * x.shape[1]  # 4: while moments are taken
    passing = hidden * max(5 * member.batch, 3 * EVALUATION_ROWS) + 6 * classes * max(train, validation)
    return hot * x.itemsize, (hot + gradient + best + inputs + passing) * x.itemsize

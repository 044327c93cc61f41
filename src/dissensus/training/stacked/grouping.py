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
from dissensus.training.stacked.heads import EVALUATION_ROWS, STATES
from dissensus.training.stacked.members import Member
from dissensus.training.stacked.shared_inputs import identity

STACK_BYTES = 12 * 2**20
"""Weights and optimiser states that one thread goes through at every step: what stays in cache.

On two cores with 32 MiB of shared cache, much less or much more made a step 10 to 20% longer.
"""


@dataclass(eq=False)
class Line:
    """A member on its way. `ends`: after which epochs a result is wanted, and for which places of the answer."""

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
        schedule, watched = self.member.schedule, self.curve["validation_loss"]
        return self.member.optimiser.lr * schedule.factor(len(watched), self.epochs, watched)

    @property
    def stops(self) -> bool:
        """Whether it ends here, before its last epoch perhaps."""
        return self.member.stopping is not None and self.member.stopping.stops(self.curve["validation_loss"])

    def note(self, validation_loss: float) -> bool:
        """Take down the loss of an epoch; whether it is the best so far."""
        watched, best = self.curve["validation_loss"], self.best_epoch
        watched.append(validation_loss)
        if validation_loss < (math.inf if best is None else watched[best]):
            self.best_epoch = len(watched) - 1
        return self.best_epoch == len(watched) - 1


def lines_of(members: Sequence[Member], share_prefixes: bool) -> list[Line]:
    """One for each member, or one for all that differ in their number of epochs alone."""
    lines: dict[Hashable, Line] = {}
    for place, member in enumerate(members):
        key = _but_for_epochs(member) if share_prefixes else place
        line = lines.setdefault(key, Line(member, {}))
        line.ends.setdefault(member.epochs, []).append(place)
    return list(lines.values())


def _but_for_epochs(member: Member) -> Hashable:
    objects = (member.train_rows, member.validation_rows, member.labels, member.validation_target)
    monitors = tuple((name, id(one)) for name, one in member.monitors.items())
    rules = (member.optimiser, member.schedule, member.stopping)
    return member.seed, member.batch, *rules, *map(id, objects), monitors


def plan(lines: Sequence[Line], x: Tensor, head: Mlp, classes: int, memory_budget: int) -> tuple[list[list[Line]], int]:
    """The stacks, longest first, and how many to train at once.

    Members of a stack step together: batch size, number of items and kind of optimiser are the same. Those of a deck are
    neighbours, so that few stacks have more than one; then those of a learning rate and a number of epochs, which tend to
    end together: what is left of a stack is slower.
    """
    decks = {identity(line.member): place for place, line in reversed(list(enumerate(lines)))}

    def kind(line: Line) -> tuple[int, int, str]:
        return line.member.batch, len(line.member.train_rows), type(line.member.optimiser).__name__

    def order(line: Line) -> tuple[Hashable, ...]:
        return kind(line), *alike_in(line), repr(line.member.optimiser)

    def alike_in(line: Line) -> tuple[int, float, int]:
        return decks[identity(line.member)], line.member.optimiser.lr, line.epochs

    workers, stacks = torch.get_num_threads(), []
    for _, group in groupby(sorted(lines, key=order), kind):
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
        ends = list(accumulate(len(list(same)) for _, same in groupby(alike, alike_in)))
        stacks += [alike[start:end] for start, end in pairwise(_cuts(len(alike), size, ends))]

    def cost(stack: list[Line]) -> float:
        return sum(line.epochs * len(line.member.train_rows) * (1 + 8 / line.member.batch) for line in stack)

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


def _footprint(lines: Sequence[Line], x: Tensor, head: Mlp, classes: int) -> tuple[int, int]:
    """Bytes of a head that every step goes through, and all bytes that a head with a deck of its own needs."""
    member, hidden = lines[0].member, sum(head.hidden)
    train, validation = len(member.train_rows), max(len(line.member.validation_rows) for line in lines)
    parameters = sum((wide + 1) * narrow for wide, narrow in pairwise((x.shape[1], *head.hidden, classes)))
    hot = parameters * (1 + STATES[type(member.optimiser)])
    gradient = best = parameters
    dealt = train * (4 * x.shape[1] + hidden + 2 * classes) + validation * x.shape[1]  # 4: while moments are taken
    passing = hidden * max(5 * member.batch, 3 * EVALUATION_ROWS) + 6 * classes * max(train, validation)
    return hot * x.itemsize, (hot + gradient + best + dealt + passing) * x.itemsize

"""How does a target reach the optimiser? The second of the three choices.

A delivery is a pure function of (target, seed, epoch): nothing is carried from one epoch to the next, so a resumed run,
a run on eight ranks and a run with other workers all see the same labels. Every epoch has exactly one label per item.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dissensus import random
from dissensus.errors import InputError
from dissensus.labels.targets import Target
from dissensus.store.encoding import table
from dissensus.votes.votes import MOST_CELLS

Labels = Callable[[int], Tensor]
"""epoch -> int64 [N] (hard) or float32 [N, K] (soft)."""


class Delivery(Protocol):
    """A member of this axis: a frozen dataclass that binds a target and a seed to the labels of every epoch."""

    def labels(self, target: Target, seed: int) -> Labels:
        """What is done once for all epochs is done here; the function it returns is pure in the epoch."""
        ...


@dataclass(frozen=True)
class Soft:
    """The whole distribution, in the loss, at every step."""

    def labels(self, target: Target, seed: int) -> Labels:  # noqa: ARG002 - nothing here is random
        probs = target.probs.float()
        return lambda epoch: probs  # noqa: ARG005 - and nothing changes with the epoch


@dataclass(frozen=True)
class Sampled:
    """One label per item, drawn afresh from its distribution every `every` epochs: stochastic label sampling."""

    every: int = 1

    def __post_init__(self) -> None:
        if self.every < 1:
            raise InputError(
                f"labels cannot be held {self.every} epochs", where="sampled", hint="Hold them at least 1", state=""
            )

    def labels(self, target: Target, seed: int) -> Labels:
        cdf = target.probs.numpy().cumsum(1)

        def of_epoch(epoch: int) -> Tensor:
            u = random.uniform(seed, "deliver", "sampled", epoch // self.every, rows=target.rows)
            return torch.from_numpy(invert_cdf(cdf, u))

        return of_epoch


@dataclass(frozen=True)
class Multipass:
    """The item's own votes, shuffled once, one per epoch: vote `epoch mod m` of m.

    `seed_offset=1000` is the deterministic control of "Same Target, Different Basins" (2026): another fixed order.
    """

    seed_offset: int = 0

    def labels(self, target: Target, seed: int) -> Labels:
        if target.counts is None:
            raise InputError(
                "multipass cycles through an item's votes, and this target has none (it is a distribution, not a count)",
                where="delivery",
                hint="Deliver it as `sampled`, which needs only probabilities",
                state="",
            )
        counts = target.counts.numpy()
        votes = counts.sum(1)
        if int(votes.sum()) > MOST_CELLS:
            raise InputError(
                f"multipass lists every vote, and {int(votes.sum()):,} do not fit in memory",
                where="delivery",
                hint="Deliver it as `sampled`, which needs only probabilities",
                state="",
            )
        starts = np.cumsum(votes) - votes
        sequence = shuffled_votes(counts, target.rows.numpy(), seed + self.seed_offset)
        return lambda epoch: torch.from_numpy(sequence[starts + epoch % votes])


DELIVERIES = table(Soft, Sampled, Multipass)


def invert_cdf(cdf: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.int64]:
    """The class whose slice of the cumulative distribution [N, K] holds u [N]; a class of probability 0 is never chosen.

    Rounding may leave the last cumulative value a hair from 1, so u is scaled by it.
    """
    labels: NDArray[np.int64] = (cdf <= u[:, None] * cdf[:, -1:]).sum(1)
    return labels


def shuffled_votes(counts: NDArray[Any], rows: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """Each item's votes as a list, in an order of its own, items one after another.

    The order is keyed by (row, position of the vote in the item), so that other items do not matter.
    """
    n, k = counts.shape
    cells = np.repeat(np.arange(n * k), counts.ravel())
    item, label = cells // k, cells % k
    votes = counts.sum(1)
    position = np.arange(len(cells)) - np.repeat(np.cumsum(votes) - votes, votes)
    width = np.int64(2**32)  # rows and positions are far below it, so (row, position) is one number
    keys = random.uniform(seed, "deliver", "multipass", rows=rows[item].astype(np.int64) * width + position)
    shuffled: NDArray[np.int64] = label[np.lexsort((keys, item))]
    return shuffled

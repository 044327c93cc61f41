"""Labels for a training loop of your own: `labels = multipass(votes, seed=0)`, then `labels(epoch)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from dissensus.datasets.data import Data
from dissensus.errors import InputError
from dissensus.labels.delivery import Delivery, Labels, Multipass, Sampled, Soft
from dissensus.labels.targets import TARGETS, Target, TargetRule
from dissensus.metrics.checks import SHARES_TOLERANCE
from dissensus.votes.votes import Votes, row_names

People = Votes | Data | ArrayLike
"""What people said: votes, data, a matrix of counts [N, K], or of shares [N, K] whose rows sum to 1."""


def soft(
    votes: People, *, target: str | TargetRule = "empirical", gold: ArrayLike | None = None, rows: ArrayLike | None = None
) -> DeliveredLabels:
    """The distribution of each item, the same in every epoch: `labels(epoch)` is float32 [N, K].

    `votes` are Votes, or a matrix [N, K] of counts (whole numbers) or of shares (rows that sum to 1). `target` is the
    name of a target ("majority", "dawid_skene"…) or one with options, such as `Smoothed(eps=0.2)`; `gold` [N] are class
    indices for the targets that use them. With `rows` the labels are those of these items alone, in this order: nothing
    is learned from the others, and an item gets the same draws as without `rows`.

    >>> soft(Votes.from_counts([[3, 1], [0, 2]]))(0)
    tensor([[0.7500, 0.2500],
            [0.0000, 1.0000]])
    """
    return _delivered(votes, Soft(), 0, target, gold, rows)


def sampled(
    votes: People,
    *,
    seed: int = 0,
    every: int = 1,
    target: str | TargetRule = "empirical",
    gold: ArrayLike | None = None,
    rows: ArrayLike | None = None,
) -> DeliveredLabels:
    """One label per item, drawn from its distribution anew every `every` epochs: `labels(epoch)` is int64 [N].

    The other arguments are those of `soft`.
    """
    return _delivered(votes, Sampled(every), seed, target, gold, rows)


def multipass(
    votes: People,
    *,
    seed: int = 0,
    target: str | TargetRule = "empirical",
    gold: ArrayLike | None = None,
    rows: ArrayLike | None = None,
) -> DeliveredLabels:
    """The item's own votes in a shuffled order, one per epoch, over and over: `labels(epoch)` is int64 [N].

    After as many epochs as an item has votes, each of its votes has been seen once. The other arguments are those of
    `soft`; targets without votes of their own (shares, smoothed, Dawid–Skene…) are refused.

    >>> labels = multipass(Votes.from_counts([[2, 1]]), seed=0)
    >>> sorted(int(labels(epoch)[0]) for epoch in range(3))
    [0, 0, 1]
    """
    return _delivered(votes, Multipass(), seed, target, gold, rows)


@dataclass(frozen=True, eq=False)
class DeliveredLabels:
    """The labels of every epoch: `labels(epoch)` is int64 [N], or float32 [N, K] for `soft`.

    A pure function of the epoch, so a resumed run, another rank and a worker process get the same labels. It can be
    pickled. `cross_entropy` of PyTorch takes both kinds of label.
    """

    target: Target
    delivery: Delivery
    seed: int

    def __call__(self, epoch: int) -> Tensor:
        return self._labels(int(epoch))

    def __len__(self) -> int:
        return len(self.target)

    @cached_property
    def _labels(self) -> Labels:
        return self.delivery.labels(self.target, self.seed)

    def __reduce__(self) -> tuple[Callable[..., DeliveredLabels], tuple[Any, ...]]:  # without what is made on demand
        return DeliveredLabels, (self.target, self.delivery, self.seed)


def _delivered(
    votes: People,
    delivery: Delivery,
    seed: int,
    target: str | TargetRule,
    gold: ArrayLike | None,
    rows: ArrayLike | None,
) -> DeliveredLabels:
    data = _as_data(votes, gold)
    chosen = torch.arange(len(data)) if rows is None else torch.from_numpy(_checked_rows(rows, len(data)))
    labels = DeliveredLabels(_rule(target).target(data, chosen, seed=seed), delivery, seed)
    labels(0)  # what cannot be delivered is refused here, not in the first epoch
    return labels


def _rule(target: str | TargetRule) -> TargetRule:
    if not isinstance(target, str):
        return target
    if target not in TARGETS:
        raise InputError(f"target {target!r} is not one of {', '.join(TARGETS)}", where="target", state="")
    if target == "teacher":
        hint = "Pass the teacher's probabilities in place of the votes"
        raise InputError("a teacher needs finished runs, which an own loop does not have", where="target", hint=hint)
    rule: TargetRule = TARGETS[target]()
    return rule


def _as_data(votes: People, gold: ArrayLike | None) -> Data:
    if isinstance(votes, Data):
        if gold is not None:
            raise InputError("these data have gold labels of their own", where="gold", hint="Leave `gold` out", state="")
        return votes
    labels = None if gold is None else torch.as_tensor(np.asarray(gold)).long()
    if isinstance(votes, Votes):
        return Data.of_votes(votes, gold=labels)
    matrix = np.asarray(votes)
    if matrix.ndim == 2 and matrix.dtype.kind == "f" and np.allclose(matrix.sum(1), 1, atol=SHARES_TOLERANCE):
        n, k = matrix.shape
        probs = torch.from_numpy(matrix.astype(np.float64))
        return Data(name="votes", classes=row_names(k), ids=row_names(n), probs=probs, gold=labels)
    return Data.of_votes(Votes.from_counts(matrix), gold=labels)


def _checked_rows(rows: ArrayLike, items: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    chosen = np.asarray(rows)
    chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or not len(chosen):
        raise InputError("rows are a list of row numbers, or a mask", where="rows", state="")
    if chosen.min() < 0 or chosen.max() >= items:
        raise InputError(f"rows {chosen.min()}…{chosen.max()} are outside 0…{items - 1}", where="rows", state="")
    return chosen.astype(np.int64)

"""What there is to learn, what is tried, and what every candidate can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dissensus import random
from dissensus.datasets.data import Data
from dissensus.labels.delivery import Delivery, Labels
from dissensus.labels.targets import Target, TargetRule
from dissensus.metrics.proper import unchecked_soft_nll
from dissensus.models import Classifier
from dissensus.training.logistic import PENALTIES

LARGE = 4_000_000  # numbers in the features; smaller problems are not worth a second process

Progress = Callable[[float, str], None]
"""(the share that is done, what is being done)."""


@dataclass(frozen=True)
class CandidateGrid:
    """What is tried; a setting that the user has fixed has one value.

    `mlps` are pairs of dropout and weight decay. `epochs` are the most where `early_stopping`, else the number. With `lr`
    None the default is used, and a candidate that diverges is left out with a warning; with a given rate it is an error.
    """

    linear: bool = True
    penalties: tuple[float, ...] = PENALTIES
    mlps: tuple[tuple[float, float], ...] = ((0.0, 1.0), (0.5, 1.0), (0.5, 5.0), (0.8, 1.0), (0.8, 5.0))
    hidden: int = 128
    lr: float | None = None
    batch: int = 64
    epochs: int = 100
    early_stopping: bool = True
    patience: int = 6
    seeds: int = 4


@dataclass(frozen=True, eq=False)
class Lesson:
    """Data with features, the target and its delivery, and how much each item counts (None: all the same).

    `threads` bounds the processes that train side by side; each computes on one thread.
    """

    data: Data
    rule: TargetRule
    delivery: Delivery
    seed: int
    weights: Tensor | None = None
    threads: int = 1

    @property
    def x(self) -> Tensor:
        """Features, float32 [N, D]."""
        assert self.data.x is not None
        return self.data.x

    @property
    def processes(self) -> int:
        """As many as there may be threads, and one for a small problem, where a second costs more than it saves."""
        return self.threads if self.x.numel() >= LARGE else 1

    def target(self, rows: Tensor) -> Target:
        """What these rows stand for; anything learned is learned on them alone."""
        return self.rule.target(self.data, rows, seed=self.seed)

    def labels(self, target: Target, seed: int) -> Labels:
        """What the optimiser sees."""
        return self.delivery.labels(target, seed)

    def mean_loss(self, log_probs: Tensor) -> float:
        """Mean soft NLL of predictions [N, K] of all items to the votes."""
        losses = unchecked_soft_nll(log_probs, self.data.people)
        return float(losses.mean() if self.weights is None else (losses * self.weights).sum() / self.weights.sum())


@dataclass(frozen=True, eq=False)
class Candidate:
    """A way of training: its mean soft NLL on items left out, and its weight in the pool (0: left out of it)."""

    name: str
    soft_nll: float
    weight: float = 0.0


class Trainable(Protocol):
    """A candidate with its predictions of items left out, which can be trained on everything."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def log_probs(self) -> Tensor:
        """Of each item by the model that has not seen it, float64 [N, K]."""
        ...

    @property
    def soft_nll(self) -> float:
        """Mean over the items, of those predictions; NaN where nothing could be left out."""
        ...

    def refit(self, lesson: Lesson) -> list[Classifier]:
        """Networks trained on all items, which count the same."""
        ...


def repeated_rows(rows: Tensor, weights: Tensor | None, seed: int) -> Tensor:
    """As many rows, each as often as its weight says, to within one; ascending. Without weights, the rows themselves.

    The gradient steps know no weights: an item that counts twice is seen twice per epoch. What is left of a fraction is
    drawn systematically, keyed by the seed.

    >>> repeated_rows(torch.arange(4), torch.tensor([2.0, 0.0, 1.0, 1.0]), seed=0).tolist()
    [0, 0, 2, 3]
    """
    if weights is None:
        return rows
    expected = weights[rows].double() * len(rows) / weights[rows].double().sum()
    offset = float(random.uniform(seed, "subsample", "weighted rows", rows=np.zeros(1, dtype=np.int64))[0])
    ends = (expected.cumsum(0) + offset).round(decimals=9).floor().long()
    times = torch.diff(ends, prepend=torch.zeros(1, dtype=torch.int64))
    return rows.repeat_interleave(times)

"""Which items train and which judge. A split is a pure function of (strata, seed), drawn within each stratum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dissensus import random
from dissensus.errors import InputError
from dissensus.store.encoding import table


class Split(NamedTuple):
    """Rows of the whole data set, each part in ascending order."""

    train: Tensor
    held_out: Tensor


@dataclass(frozen=True)
class Holdout:
    """A share of every stratum is held out, at least one item where a stratum has two or more, redrawn with each seed.

    With `fixed`, the seed of the draw is this one for every run: all are judged on the same items.
    """

    fraction: float = 0.2
    fixed: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.fraction < 1:
            raise InputError(
                f"cannot hold out {self.fraction} of the items",
                where="split",
                hint="Give a share between 0 and 1",
                state="",
            )

    def split(self, strata: Tensor, seed: int, purpose: str = "evaluation") -> Split:
        """`purpose` names the split, so that a validation part of the training items is drawn anew."""
        labels, seed = strata.numpy(), seed if self.fixed is None else self.fixed
        shuffled = np.lexsort((random.uniform(seed, "split", purpose, rows=np.arange(len(labels))), labels))
        counts = np.bincount(labels)
        rounded = np.rint(counts * self.fraction).astype(np.int64)
        held = np.where(counts >= 2, np.clip(rounded, 1, counts - 1), 0)
        rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
        is_held = np.zeros(len(labels), dtype=bool)
        is_held[shuffled] = rank < np.repeat(held, counts)
        if not is_held.any():
            raise InputError(
                f"{len(labels)} items are too few to hold any out",
                where="split",
                hint="Give at least two items of one class",
                state="",
            )
        rows = np.arange(len(labels))
        return Split(torch.from_numpy(rows[~is_held]), torch.from_numpy(rows[is_held]))


@dataclass(frozen=True)
class Folds:
    """Fold `fold` of `folds` is held out; the folds are data, the same for every run of the same `folds_seed`."""

    folds: int = 10
    fold: int = 0
    folds_seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.fold < self.folds:
            raise InputError(
                f"there is no fold {self.fold} among {self.folds}",
                where="split",
                hint=f"Folds count from 0 to {self.folds - 1}",
                state="",
            )

    def split(self, strata: Tensor, seed: int, purpose: str = "evaluation") -> Split:  # noqa: ARG002 - folds are fixed
        """Items of each stratum are dealt to the folds in turn, after a shuffle."""
        labels = strata.numpy()
        draws = random.uniform(self.folds_seed, "split", "folds", purpose, rows=np.arange(len(labels)))
        fold = np.empty(len(labels), dtype=np.int64)
        fold[np.lexsort((draws, labels))] = np.arange(len(labels)) % self.folds
        rows = np.arange(len(labels))
        return Split(torch.from_numpy(rows[fold != self.fold]), torch.from_numpy(rows[fold == self.fold]))


@dataclass(frozen=True)
class Last:
    """The last `items` rows are held out: an official test part that stands behind the training part."""

    items: int

    def split(self, strata: Tensor, seed: int, purpose: str = "evaluation") -> Split:  # noqa: ARG002 - nothing is drawn
        """The order of the data decides."""
        if not 0 < self.items < len(strata):
            raise InputError(
                f"{self.items:,} of {len(strata):,} items cannot be held out",
                where="split",
                hint="Hold out at least one item, and fewer than all",
                state="",
            )
        rows = torch.arange(len(strata))
        return Split(rows[: -self.items], rows[-self.items :])


SplitRule = Holdout | Folds | Last
"""How items are divided into those that train and those that judge."""

SPLITS = table(Holdout, Folds, Last)

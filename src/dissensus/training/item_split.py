"""Items into train, validation and test parts, before anything is trained: the split that `dissensus split` writes."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from dissensus import random
from dissensus.errors import InputError
from dissensus.metrics.agreement import entropy, majority, without_rounding
from dissensus.training.splits import Holdout
from dissensus.votes.votes import Floats, Ints, Votes

StratifyBy = Literal["majority", "disagreement"]
STRATIFY_BY: tuple[StratifyBy, ...] = get_args(StratifyBy)
DISPUTED_BINS = 4


class ItemSplit(NamedTuple):
    """Rows of the items of each part, int64, in ascending order."""

    train: Tensor
    validation: Tensor
    test: Tensor


def split_items(
    votes: Votes,
    *,
    by: StratifyBy = "majority",
    test: float = 0.2,
    validation: float = 0.1,
    seed: int = 0,
    groups: Ints | None = None,
) -> ItemSplit:
    """A share `test` and a share `validation` of the items are held out, of each stratum alike; the rest is for training.

    `by` names the strata: the majority class, or the disagreement (unanimous items, and four parts of equal size by the
    entropy of the votes). By majority, the test part is the one that `Holdout(test)` holds out at the same seed, and so
    `dissensus fit`. `groups` [N] are numbers of groups (authors, patients, videos…) that no split may tear apart; parts
    then differ a little from the shares that were asked for. A share of 0 leaves a part empty.
    """
    for name, share in (("test", test), ("validation", validation)):
        if not 0 <= share < 1:
            raise InputError(
                f"{share:g} is no share of the items", where=name, hint="Give 0 or more, and less than 1", state=""
            )
    if test + validation >= 1:
        raise InputError("nothing is left to train on", where="split", hint="Hold out less than all items", state="")
    labels = strata(votes, by)
    rows = torch.arange(len(votes))
    kept, tested = _held_out(rows, labels, groups, test, seed, "evaluation")
    kept, validated = _held_out(kept, labels, groups, validation / (1 - test), seed, "validation")
    return ItemSplit(kept, validated, tested)


def strata(votes: Votes, by: StratifyBy) -> Tensor:
    """The stratum of each item, int64 [N]."""
    people = torch.from_numpy(votes.soft.copy())
    if by == "majority":
        return majority(people)
    entropies: Floats = without_rounding(entropy(people).numpy())
    disputed = np.flatnonzero(entropies > 0)
    parts = np.zeros(len(entropies), dtype=np.int64)
    if len(disputed):
        edges = np.quantile(entropies[disputed], np.arange(1, DISPUTED_BINS) / DISPUTED_BINS)
        parts[disputed] = 1 + np.searchsorted(edges, entropies[disputed])  # equal entropies share a stratum
    return torch.from_numpy(parts)


def _held_out(
    rows: Tensor, labels: Tensor, groups: Ints | None, share: float, seed: int, purpose: str
) -> tuple[Tensor, Tensor]:
    """Some of these rows held out: (the others, those)."""
    if share == 0:
        return rows, rows[:0]
    if groups is None:
        inner = Holdout(share).split(labels[rows], seed, purpose)
        return rows[inner.train], rows[inner.held_out]
    held = torch.from_numpy(_whole_groups(labels[rows].numpy(), groups[rows.numpy()], share, seed, purpose))
    if not bool(held.any()) or bool(held.all()):
        raise InputError(
            f"{len(np.unique(groups[rows.numpy()])):,} groups are too few to hold out a share of {share:.2g}",
            where="split",
            hint="Use a column with more groups, or a larger share",
            state="",
        )
    return rows[~held], rows[held]


def _whole_groups(
    labels: Ints, groups: Ints, share: float, seed: int, purpose: str
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which items are held out: whole groups in a random order, until each stratum (by their commonest) is full."""
    names, group = np.unique(groups, return_inverse=True)
    table = np.zeros((len(names), int(labels.max()) + 1), dtype=np.int64)
    np.add.at(table, (group, labels), 1)
    size, stratum = table.sum(1), table.argmax(1)
    order = np.lexsort((random.uniform(seed, "split", purpose, "groups", rows=names), stratum))
    ends = np.cumsum(size[order])
    first = np.searchsorted(stratum[order], stratum[order])  # where the stratum of each group begins
    before = np.where(first > 0, ends[first - 1], 0)
    middle = ends - size[order] / 2 - before
    wanted = share * np.bincount(stratum, weights=size)[stratum[order]]
    is_held = np.zeros(len(names), dtype=bool)
    is_held[order] = middle <= wanted
    return is_held[group]

"""Votes: who chose which class for which item. Immutable, and nothing is ever dropped silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dissensus import random
from dissensus.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_VOTES = 10**9  # more does not fit in memory, and a "count" that large is no count of people


@dataclass(frozen=True, eq=False)
class Votes:
    """One entry per vote. `item`, `label` and `annotator` are indices into `items`, `classes` and `annotators`.

    Every item has at least one vote; classes keep their given order, and classes that nobody chose stay.

    >>> votes = Votes.from_counts([[2, 1], [0, 3]], classes=["cat", "dog"])
    >>> votes.soft.round(2).tolist()
    [[0.67, 0.33], [0.0, 1.0]]
    """

    item: Ints
    label: Ints
    items: tuple[str, ...]
    classes: tuple[str, ...]
    annotator: Ints | None = None
    annotators: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("item", "label", "annotator"):
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, _frozen_index(values, name))
        for name in ("items", "classes", "annotators"):
            names = getattr(self, name)
            if names is not None:
                object.__setattr__(self, name, _unique_names(names, name))
        if self.item.shape != self.label.shape:
            raise InputError(f"{len(self.item)} items but {len(self.label)} labels", where="votes", state="")
        if (self.annotator is None) != (self.annotators is None):
            raise InputError("annotator indices and annotator names go together", where="votes", state="")
        _check_range(self.item, len(self.items), "item")
        _check_range(self.label, len(self.classes), "label")
        if self.annotator is not None and self.annotators is not None:
            if self.annotator.shape != self.item.shape:
                raise InputError(f"{len(self.item)} items but {len(self.annotator)} annotators", where="votes", state="")
            _check_range(self.annotator, len(self.annotators), "annotator")
        if len(self.items) == 0:
            raise InputError("there are no votes", where="votes", state="")
        silent = np.flatnonzero(self.votes_per_item == 0)
        if len(silent):
            names = ", ".join(self.items[i] for i in silent[:3]) + (", …" if len(silent) > 3 else "")
            raise InputError(
                f"{len(silent)} of {len(self.items)} items have no vote ({names})",
                where="votes",
                hint="Leave those items out, or collect votes for them",
                state="",
            )

    @classmethod
    def from_counts(
        cls, counts: ArrayLike, *, classes: Sequence[str] | None = None, items: Sequence[str] | None = None
    ) -> Votes:
        """Votes from a matrix [N, K] of how many people chose each class; who they were is not known."""
        matrix = np.asarray(counts)
        if matrix.ndim != 2:
            raise InputError(f"counts have shape {matrix.shape}, not [items, classes]", where="counts", state="")
        if matrix.dtype.kind not in "iub":
            _check_whole_numbers(matrix)
        matrix = matrix.astype(np.int64)
        if (matrix < 0).any():
            row, column = np.argwhere(matrix < 0)[0]
            raise InputError(f"negative count {matrix[row, column]} in row {row}", where="counts", state="")
        if (total := float(matrix.sum(dtype=np.float64))) > MOST_VOTES:
            raise InputError(f"the counts add up to {total:.3g} votes", where="counts", hint="Check the matrix", state="")
        cells = np.repeat(np.arange(matrix.size), matrix.ravel())
        n, k = matrix.shape
        return cls(
            item=cells // k,
            label=cells % k,
            items=tuple(items) if items is not None else row_names(n),
            classes=tuple(classes) if classes is not None else row_names(k),
        )

    def __len__(self) -> int:
        """How many votes there are (items are `len(votes.items)`)."""
        return len(self.item)

    @cached_property
    def counts(self) -> Ints:
        """[N, K]: how many people chose each class."""
        n, k = len(self.items), len(self.classes)
        table = np.bincount(self.item * k + self.label, minlength=n * k).reshape(n, k).astype(np.int64, copy=False)
        table.flags.writeable = False
        return table

    @cached_property
    def votes_per_item(self) -> Ints:
        """[N]: how many votes each item has."""
        table = np.bincount(self.item, minlength=len(self.items)).astype(np.int64, copy=False)
        table.flags.writeable = False
        return table

    @cached_property
    def soft(self) -> Floats:
        """[N, K]: the share of each class; rows sum to 1."""
        shares: Floats = self.counts / self.counts.sum(1, keepdims=True)
        shares.flags.writeable = False
        return shares

    def subset(self, rows: ArrayLike) -> Votes:
        """The votes of these items (indices or a mask), in this order; annotators and classes keep their indices."""
        chosen = np.asarray(rows)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
        _check_range(chosen, len(self.items), "item")
        order = np.argsort(self.item, kind="stable")
        starts = np.concatenate([[0], np.cumsum(self.votes_per_item)])
        lengths = self.votes_per_item[chosen]
        new_item = np.repeat(np.arange(len(chosen)), lengths)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        picked = order[np.repeat(starts[chosen], lengths) + within]
        return self._pick(picked, item=new_item, items=tuple(self.items[i] for i in chosen))

    def resample(self, k: int, seed: int, *, replace: bool = True) -> Votes:
        """`k` votes per item: the sparse regime.

        With replacement it is a bootstrap, multinomial(k, p_i), as in "Same Target, Different Basins" (2026); annotators
        are then dropped, because one person may be drawn twice. Without, `k` different votes are kept, or all where an
        item has fewer.
        """
        if k < 1:
            raise InputError(f"cannot keep {k} votes per item", where="resample", hint="Ask for at least 1", state="")
        mode: Literal["with", "without"] = "with" if replace else "without"
        order = np.argsort(self.item, kind="stable")
        starts = np.concatenate([[0], np.cumsum(self.votes_per_item)])[:-1]
        if replace:
            rows = np.arange(len(self.items))
            draws = [random.uniform(seed, "subsample", mode, k, draw, rows=rows) for draw in range(k)]
            position = np.floor(np.stack(draws, 1) * self.votes_per_item[:, None]).astype(np.int64)
            picked = order[(starts[:, None] + position).ravel()]
            return Votes(item=self.item[picked], label=self.label[picked], items=self.items, classes=self.classes)
        keyed = random.uniform(seed, "subsample", mode, k, rows=np.arange(len(self)))
        by_item_then_key = np.lexsort((keyed, self.item))
        rank = np.arange(len(self)) - np.repeat(starts, self.votes_per_item)
        picked = np.sort(by_item_then_key[rank < k])
        return self._pick(picked, item=self.item[picked], items=self.items)

    def _pick(self, picked: Ints, *, item: Ints, items: tuple[str, ...]) -> Votes:
        annotator = None if self.annotator is None else self.annotator[picked]
        return Votes(item, self.label[picked], items, self.classes, annotator, self.annotators)


def row_names(n: int) -> tuple[str, ...]:
    """Names for rows that came without any: their numbers."""
    return tuple(map(str, range(n)))


def _frozen_index(values: Any, name: str) -> Ints:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be a list of whole numbers, not {array.dtype} {array.shape}", where="votes", state=""
        )
    if array.dtype == np.int64 and array.flags.owndata and not array.flags.writeable:
        return array  # already frozen: ten million votes need no second copy
    array = array.astype(np.int64)  # a copy, so that freezing it does not freeze the caller's
    array.flags.writeable = False
    return array


def _unique_names(names: Sequence[str], what: str) -> tuple[str, ...]:
    fixed = tuple(names)
    if len(set(fixed)) != len(fixed):
        twice = next(name for name, times in Counter(fixed).items() if times > 1)
        raise InputError(f"{what} has {twice!r} twice", where="votes", hint="Give every one its own name", state="")
    return fixed


def _check_range(index: Ints, size: int, what: str) -> None:
    if len(index) and (index.min() < 0 or index.max() >= size):
        raise InputError(f"{what} index {index.min()}…{index.max()} is outside 0…{size - 1}", where="votes", state="")


def _check_whole_numbers(matrix: NDArray[Any]) -> None:
    if matrix.dtype.kind != "f":
        raise InputError(f"counts are of type {matrix.dtype}, not numbers", where="counts", state="")
    bad = ~np.isfinite(matrix) | (matrix != np.floor(matrix))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputError(
            f"{matrix[row, column]} in row {row}, column {column} is not a count",
            where="counts",
            hint="Give whole numbers; if these are probabilities, pass them as probabilities (--probs)",
            state="",
        )

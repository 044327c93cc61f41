"""Votes: who chose which class for which item. Immutable, and nothing is ever dropped silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dissensus import random
from dissensus.errors import InputError
from dissensus.votes.read_as import ReadAs

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Column = Literal["item", "label", "annotator"]

MOST_VOTES = 10**9  # a "count" larger than that is no count of people
MOST_CELLS = 2**28  # of an array that is made on demand: 2 GiB of int64
ROWS_AT_ONCE = 1 << 20


class Cells(NamedTuple):
    """The counts above 0, by item and then class: `times[c]` people chose class `label[c]` for item `item[c]`."""

    item: Ints
    label: Ints
    times: Ints


class Votes:
    """Who chose which class for which item, as one row per vote.

    `item`, `label` and `annotator` are indices into `items`, `classes` and `annotators`. Every item has at least one
    vote; classes keep their given order, and classes that nobody chose stay. `read_as` says how the file they come from
    was understood. `times` says how many votes a row stands for (1 by default): counts are kept as counts, and the rows
    are made only where somebody asks for them.

    To scikit-learn, votes are a matrix of counts with one row per item: `len(votes)` is the number of items, `votes[key]`
    selects items, and `train_test_split`, `cross_val_score` and `GridSearchCV` take votes as `y`.

    >>> votes = Votes.from_counts([[2, 1], [0, 3]], classes=["cat", "dog"])
    >>> votes.soft.round(2).tolist()
    [[0.67, 0.33], [0.0, 1.0]]
    >>> len(votes), votes.n_votes, votes[1:].items
    (2, 6, ('1',))
    """

    items: tuple[str, ...]
    classes: tuple[str, ...]
    annotators: tuple[str, ...] | None
    read_as: ReadAs | None
    _item: Ints
    _label: Ints
    _annotator: Ints | None
    _times: Ints | None

    def __init__(
        self,
        item: ArrayLike,
        label: ArrayLike,
        items: Sequence[str],
        classes: Sequence[str],
        annotator: ArrayLike | None = None,
        annotators: Sequence[str] | None = None,
        read_as: ReadAs | None = None,
        *,
        times: ArrayLike | None = None,
    ) -> None:
        self.__dict__.update(
            items=_unique_names(items, "items"),
            classes=_unique_names(classes, "classes"),
            annotators=None if annotators is None else _unique_names(annotators, "annotators"),
            read_as=read_as,
            _item=_frozen_index(item, "item"),
            _label=_frozen_index(label, "label"),
            _annotator=None if annotator is None else _frozen_index(annotator, "annotator"),
            _times=None if times is None else _frozen_index(times, "times"),
        )
        self._check()

    def _check(self) -> None:
        if (self._annotator is None) != (self.annotators is None):
            raise InputError("annotator indices and annotator names go together", where="votes", state="")
        for values, name in ((self._label, "labels"), (self._annotator, "annotators"), (self._times, "times")):
            if values is not None and values.shape != self._item.shape:
                raise InputError(f"{len(self._item)} items but {len(values)} {name}", where="votes", state="")
        _check_range(self._item, len(self.items), "item")
        _check_range(self._label, len(self.classes), "label")
        if self._annotator is not None and self.annotators is not None:
            _check_range(self._annotator, len(self.annotators), "annotator")
        if self._times is not None and len(self._times):
            if self._times.min() < 1:
                raise InputError(f"a row cannot stand for {self._times.min()} votes", where="votes", state="")
            _check_total(float(self._times.sum(dtype=np.float64)))
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
        cls,
        counts: ArrayLike,
        *,
        classes: Sequence[str] | None = None,
        items: Sequence[str] | None = None,
        read_as: ReadAs | None = None,
    ) -> Votes:
        """Votes from a matrix [N, K] of how many people chose each class; who they were is not known."""
        matrix = np.asarray(counts)
        if matrix.ndim != 2:
            raise InputError(f"counts have shape {matrix.shape}, not [items, classes]", where="counts", state="")
        if matrix.dtype.kind not in "iub":
            _check_whole_numbers(matrix)
        if matrix.size and matrix.min() < 0:
            row, column = np.argwhere(matrix < 0)[0]
            raise InputError(f"negative count {matrix[row, column]:g} in row {row}", where="counts", state="")
        _check_total(float(matrix.sum(dtype=np.float64)))
        n, k = matrix.shape
        cell = np.flatnonzero(matrix)
        cells = Cells(cell // max(k, 1), cell % max(k, 1), matrix.reshape(-1)[cell].astype(np.int64))
        del cell  # of a large matrix with few zeros, each of these is as large as the matrix
        for values in cells:
            values.flags.writeable = False
        votes = cls(
            item=cells.item,
            label=cells.label,
            items=row_names(n) if items is None else items,
            classes=row_names(k) if classes is None else classes,
            read_as=read_as,
            times=cells.times,
        )
        votes.__dict__["cells"] = cells
        return votes

    def __len__(self) -> int:
        """How many items there are; `n_votes` is the number of votes."""
        return len(self.items)

    @property
    def n_votes(self) -> int:
        """How many votes there are."""
        return len(self._item) if self._times is None else int(self._times.sum())

    @property
    def shape(self) -> tuple[int, int]:
        """(items, classes)."""
        return len(self.items), len(self.classes)

    @cached_property
    def items_in_order(self) -> bool:
        """Whether the votes of each item come together, and the items one after another."""
        return bool((np.diff(self._item) >= 0).all())

    def __getitem__(self, key: Any) -> Votes:
        """The votes of some items: by index, list of indices, slice or mask, as NumPy selects rows."""
        if isinstance(key, tuple):  # scikit-learn asks for votes[key, ...]
            if len(key) != 2 or (key[1] is not ... and key[1] != slice(None)):
                raise IndexError("votes are selected by item alone: votes[items]")
            key = key[0]
        return self.subset(np.atleast_1d(np.arange(len(self))[key]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The counts [N, K]."""
        return np.array(self.counts, dtype=dtype, copy=copy)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"votes cannot be changed (to set {name!r}, make new Votes)")

    def __repr__(self) -> str:
        people = "" if self.annotators is None else f" by {len(self.annotators):,} annotators"
        return f"<{self.n_votes:,} votes on {len(self):,} items{people}, {len(self.classes):,} classes>"

    def __reduce__(self) -> tuple[Any, ...]:  # arrays would come back from a pickle writeable
        rows = self._item, self._label, self.items, self.classes, self._annotator, self.annotators, self.read_as
        return _restore, (*rows, self._times)

    def described(self, read_as: ReadAs | None) -> Votes:
        """The same votes with another `read_as`."""
        same = object.__new__(Votes)  # nothing is checked or counted again
        same.__dict__.update(self.__dict__, read_as=read_as)
        return same

    @cached_property
    def item(self) -> Ints:
        """[V]: the item of each vote."""
        return self._expanded(self._item)

    @cached_property
    def label(self) -> Ints:
        """[V]: the class of each vote."""
        return self._expanded(self._label)

    @cached_property
    def annotator(self) -> Ints | None:
        """[V]: who cast each vote, where that is known."""
        return None if self._annotator is None else self._expanded(self._annotator)

    def _expanded(self, values: Ints) -> Ints:
        if self._times is None:
            return values
        if (votes := self.n_votes) > MOST_CELLS:
            raise InputError(
                f"{votes:,} votes cannot be listed one by one in memory",
                where="votes",
                hint="Check the counts, or use what needs only counts (target empirical, delivery soft or sampled)",
                state="",
            )
        rows = np.repeat(values, self._times)
        rows.flags.writeable = False
        return rows

    @property
    def columns(self) -> tuple[Column, ...]:
        """The arrays with one entry per vote."""
        return ("item", "label") if self._annotator is None else ("item", "label", "annotator")

    def rows_in_parts(self, column: Column) -> Iterator[Ints]:
        """The indices of a column, one per vote, in parts: however large the counts are, little memory is needed."""
        values: Ints = getattr(self, f"_{column}")
        if self._times is None:
            yield values
            return
        ends = np.cumsum(self._times)
        for start in range(0, self.n_votes, ROWS_AT_ONCE):
            votes = np.arange(start, min(start + ROWS_AT_ONCE, self.n_votes))
            yield values[np.searchsorted(ends, votes, side="right")]

    @cached_property
    def cells(self) -> Cells:
        """The counts above 0 as a list: small also where items × classes is large."""
        n, k = self.shape
        if n * k <= max(8 * len(self._item), 1 << 16):
            item, label = np.nonzero(self.counts)
            return Cells(item, label, self.counts[item, label])
        cell, row_cell = np.unique(self._item * k + self._label, return_inverse=True)
        return Cells(cell // k, cell % k, _add_up(row_cell, self._times, len(cell)))

    @cached_property
    def counts(self) -> Ints:
        """[N, K]: how many people chose each class. Refused where it needs over 2 GiB; `cells` is the sparse form."""
        n, k = self.shape
        if n * k > MOST_CELLS:
            raise InputError(
                f"a table of {n:,} items × {k:,} classes does not fit in memory",
                where="votes",
                hint="Check that the label column holds classes; --classes selects some of them",
                state="",
            )
        table = _add_up(self._item * k + self._label, self._times, n * k).reshape(n, k)
        table.flags.writeable = False
        return table

    def counts_of(self, rows: Ints) -> Ints:
        """[R, K]: the `counts` of these items alone, for readers who go through a table that nobody made as a whole."""
        if "counts" in vars(self) or len(self.items) * len(self.classes) <= 4 * len(self._item):
            return np.asarray(self.counts[rows])
        starts = self._cell_starts
        lengths = starts[rows + 1] - starts[rows]
        row = np.repeat(np.arange(len(rows)), lengths)
        cell = np.arange(len(row)) + np.repeat(starts[rows] - (np.cumsum(lengths) - lengths), lengths)
        table = np.zeros((len(rows), len(self.classes)), dtype=np.int64)
        table[row, self.cells.label[cell]] = self.cells.times[cell]
        return table

    @cached_property
    def _cell_starts(self) -> Ints:
        """[N + 1]: where the `cells` of each item begin, and where the last ones end."""
        return np.searchsorted(self.cells.item, np.arange(len(self.items) + 1))

    @cached_property
    def votes_per_item(self) -> Ints:
        """[N]: how many votes each item has."""
        table = _add_up(self._item, self._times, len(self.items))
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
        order, per_item, starts = self._by_item()
        lengths = per_item[chosen]
        new_item = np.repeat(np.arange(len(chosen)), lengths)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        picked = order[np.repeat(starts[chosen], lengths) + within]
        return Votes(
            new_item,
            self._label[picked],
            tuple(self.items[i] for i in chosen),
            self.classes,
            None if self._annotator is None else self._annotator[picked],
            self.annotators,
            self.read_as,
            times=None if self._times is None else self._times[picked],
        )

    def _by_item(self) -> tuple[Ints, Ints, Ints]:
        """The stored rows sorted by item, how many each item has, and where each item's begin."""
        per_item = np.bincount(self._item, minlength=len(self.items))
        return np.argsort(self._item, kind="stable"), per_item, np.cumsum(per_item) - per_item

    def resample(self, k: int, seed: int, *, replace: bool = True) -> Votes:
        """`k` votes per item: the sparse regime.

        With replacement it is a bootstrap, multinomial(k, p_i), as in "Same Target, Different Basins" (2026); annotators
        are then dropped, because one person may be drawn twice. Without, `k` different votes are kept, or all where an
        item has fewer.
        """
        if k < 1:
            raise InputError(f"cannot keep {k} votes per item", where="resample", hint="Ask for at least 1", state="")
        starts = np.cumsum(self.votes_per_item) - self.votes_per_item
        if replace:
            rows = np.arange(len(self.items))
            draws = [random.uniform(seed, "subsample", "with", k, draw, rows=rows) for draw in range(k)]
            position = np.floor(np.stack(draws, 1) * self.votes_per_item[:, None]).astype(np.int64)
            drawn = (starts[:, None] + position).ravel()  # of the votes sorted by item
            order, *_ = self._by_item()
            if self._times is not None:
                drawn = np.searchsorted(np.cumsum(self._times[order]), drawn, side="right")
            picked = order[drawn]
            return Votes(self._item[picked], self._label[picked], self.items, self.classes, read_as=self.read_as)
        keyed = random.uniform(seed, "subsample", "without", k, rows=np.arange(len(self.item)))
        by_item_then_key = np.lexsort((keyed, self.item))
        rank = np.arange(len(keyed)) - np.repeat(starts, self.votes_per_item)
        picked = np.sort(by_item_then_key[rank < k])
        annotator = None if self.annotator is None else self.annotator[picked]
        kept = self.item[picked], self.label[picked]
        return Votes(*kept, self.items, self.classes, annotator, self.annotators, self.read_as)


def row_names(n: int) -> tuple[str, ...]:
    """Names for rows that came without any: their numbers."""
    return tuple(map(str, range(n)))


def _restore(*parts: Any) -> Votes:
    *rows, times = parts
    return Votes(*rows, times=times)


def _add_up(index: Ints, times: Ints | None, size: int) -> Ints:
    """[size]: how many votes fall on each index. Weights are floats, exact far beyond MOST_VOTES."""
    return np.bincount(index, weights=times, minlength=size).astype(np.int64, copy=False)


def _check_total(total: float) -> None:
    if total > MOST_VOTES:
        raise InputError(f"the counts add up to {total:.3g} votes", where="counts", hint="Check the matrix", state="")


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

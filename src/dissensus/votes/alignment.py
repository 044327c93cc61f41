"""Rows of one file matched to the items of another: by id wherever both have ids, by order only where that is plain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dissensus.errors import InputError
from dissensus.votes.files import PathLike
from dissensus.votes.names import positions
from dissensus.votes.votes import Ints, Votes, row_names


@dataclass(frozen=True)
class Items:
    """The items that rows are matched to.

    `named` is False where their file has no ids, so that they are only numbered. `in_order` is False where their order is
    an accident: in a table with one row per vote, whose items come and go.
    """

    ids: tuple[str, ...]
    named: bool = True
    in_order: bool = True

    @classmethod
    def of(cls, votes: Votes) -> Items:
        """The items of votes."""
        named = votes.read_as is None or "items" not in votes.read_as.unnamed
        return cls(votes.items, named, votes.items_in_order)


@dataclass(frozen=True, eq=False)
class Matched:
    """Row `rows[i]` of the file belongs to item `kept[i]`; `note` says how that is known, where it is not by id."""

    kept: Ints
    rows: Ints
    note: str = ""


def align(ids: Sequence[str], others: Sequence[str], *, this: str = "the votes", other: str = "the other file") -> Ints:
    """Rows int64 [N] of `others` in the order of `ids`: `others[rows[i]] == ids[i]`. Both must hold the same ids.

    >>> align(["a", "b"], ["b", "a"]).tolist()
    [1, 0]
    """
    row_of, absent = _rows_by_id(ids, others, other)
    missing = [name for name, row in zip(ids, row_of, strict=True) if row < 0]
    if missing or absent:
        parts = [f"{len(missing)} ids are missing ({_few(missing)})"] * bool(missing)
        parts += [f"{len(absent)} are not in {this} ({_few(absent)})"] * bool(absent)
        hint = "Write the same ids in both files (`dissensus score` also takes --intersect: the items that are in both)"
        if len(absent) == len(others) and set(others) == set(row_names(len(others))):
            hint = (
                "If these are only numbers of rows, take the column out or pass --by-order; otherwise write the same ids"
            )
        raise InputError(" and ".join(parts), where=other, hint=hint)
    return row_of


def _rows_by_id(ids: Sequence[str], others: Sequence[str], other: str) -> tuple[Ints, list[str]]:
    """The row of each id in `others`, -1 where it is not there; and those of `others` that are not among the ids."""
    if len(set(others)) < len(others):
        seen: set[str] = set()
        twice = next(name for name in others if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InputError(f"the id {twice!r} occurs twice", where=other, hint="Give every row its own id")
    exact = {name: row for row, name in enumerate(others)}
    rows = [exact.get(name, -1) for name in ids]
    if -1 in rows:
        by_rule = positions(ids, others)
        taken = [row for row in by_rule if row >= 0]
        rows = by_rule if len(set(taken)) == len(taken) else rows
    used = set(rows)
    return np.array(rows, dtype=np.int64), [name for row, name in enumerate(others) if row not in used]


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def match(
    items: Items,
    in_file: Sequence[str] | None,
    rows: int,
    *,
    path: PathLike,
    by_order: bool = False,
    intersect: bool = False,
    pool: bool = False,
) -> Matched:
    """The row of each item in a file of `rows` rows.

    - Both have ids: by id; the ids must be the same, or `intersect` keeps the items that are in both. From a `pool`, rows
      of other items are left out: people label a part of their texts, and features are made of all.
    - One side has no ids, and the ids of the other are the numbers 0…N-1, in any order: they number the rows.
    - One side has none: by order, where the order of the items is plain: they come one after another in their file, or
      sorted. Otherwise it is refused, unless `by_order` insists.
    """
    ids, everything = items.ids, np.arange(len(items.ids))
    if in_file is not None and items.named and not by_order:
        if pool:
            row_of, absent = _rows_by_id(ids, in_file, str(path))
            if absent and (row_of >= 0).all():
                note = f"{len(absent):,} of its {rows:,} rows are of items without votes ({_few(absent)}): left out"
                return Matched(everything, row_of, f"{path}: {note}")
        if not intersect:
            return Matched(everything, align(ids, in_file, other=str(path)))
        row_of, absent = _rows_by_id(ids, in_file, str(path))
        kept = np.flatnonzero(row_of >= 0)
        if not len(kept):
            what = f"no id of it is an item of the votes ({_few(list(in_file))} and {_few(ids)})"
            raise InputError(what, where=str(path), hint="Write the same ids in both files")
        note = f"{len(kept):,} items are in both: {len(ids) - len(kept):,} of the votes and {len(absent):,} rows are not"
        return Matched(kept, row_of[kept], f"{path}: {note}" if len(kept) < len(ids) or absent else "")
    if rows != len(ids):
        raise InputError(
            f"{rows} rows for {len(ids)} items, and no ids to match them by",
            where=str(path),
            hint="Write one row per item, or add a first column `id`",
        )
    if not by_order:
        numbered, numbers = in_file if in_file is not None else ids, row_names(rows)
        if tuple(numbered) == numbers:  # sets of a million names would take longer than all scores
            return Matched(everything, everything, _by_number(path, in_file))
        if set(numbered) == set(numbers):
            place = np.array([int(name) for name in numbered])
            return Matched(everything, np.argsort(place) if in_file is not None else place, _by_number(path, in_file))
        if not items.in_order and not _is_sorted(ids):
            raise InputError(
                f"it has no ids, and the order of the items is not plain: the votes on {ids[0]!r}, {ids[1]!r}, … are "
                "scattered over their file",
                where=str(path),
                hint="Add the ids (a first column `id`, or an array `ids` in an .npz); --by-order takes the items in the "
                "order of their first votes",
            )
    first = "" if not len(ids) else f" (the first row is item {ids[0]!r}, the last {ids[-1]!r})"
    return Matched(everything, everything, f"{path}: rows were matched to the items by their order{first}")


def _by_number(path: PathLike, in_file: Sequence[str] | None) -> str:
    which = "it has no ids" if in_file is None else "the votes have no ids"
    return f"{path}: {which}, so rows were matched by their number: item 0 is the first row"


def _is_sorted(ids: Sequence[str]) -> bool:
    """Whether ids come sorted, as text or as numbers."""
    if all(earlier <= later for earlier, later in pairwise(ids)):
        return True
    if not all(name.isascii() and name.isdigit() for name in ids):
        return False
    return all(int(earlier) <= int(later) for earlier, later in pairwise(ids))


def match_rows(
    ids: Sequence[str] | Items, in_file: Sequence[str] | None, rows: int, *, path: PathLike, by_order: bool = False
) -> Ints:
    """The row of each item in a file of `rows` rows: `match` without its note."""
    items = ids if isinstance(ids, Items) else Items(tuple(ids))
    return match(items, in_file, rows, path=path, by_order=by_order).rows

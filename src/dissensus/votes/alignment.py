"""Rows of one file matched to the items of another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dissensus.errors import InputError
from dissensus.votes.files import PathLike
from dissensus.votes.votes import Ints, row_names


def align(ids: Sequence[str], others: Sequence[str], *, this: str = "the votes", other: str = "the other file") -> Ints:
    """Rows int64 [N] of `others` in the order of `ids`: `others[rows[i]] == ids[i]`. Both must hold the same ids.

    >>> align(["a", "b"], ["b", "a"]).tolist()
    [1, 0]
    """
    place = {name: row for row, name in enumerate(others)}
    if len(place) < len(others):
        twice = next(name for row, name in enumerate(others) if place[name] != row)
        raise InputError(f"the id {twice!r} stands there twice", where=other, hint="Give every row an id of its own")
    known = set(ids)
    missing, surplus = [name for name in ids if name not in place], [name for name in others if name not in known]
    if missing or surplus:
        parts = [f"{len(missing)} ids are missing ({_few(missing)})"] * bool(missing)
        parts += [f"{len(surplus)} are not in {this} ({_few(surplus)})"] * bool(surplus)
        hint = "Write the same ids in both files, or leave them out of the matrix to match by row"
        raise InputError(" and ".join(parts), where=other, hint=hint)
    return np.fromiter((place[name] for name in ids), np.int64, len(ids))


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def match_rows(ids: Sequence[str], found: Sequence[str] | None, rows: int, *, path: PathLike) -> Ints:
    """The row of each of `ids` in a file of `rows` rows: by id where both sides have ids, else by place.

    Ids that are just the numbers 0…N-1 are places: of rows in a matrix that has no ids, in whatever order they come.
    """
    numbered = row_names(len(ids))
    has_no_ids = tuple(ids) == numbered  # as the items of a matrix of counts
    if found is not None and not (has_no_ids and set(found) != set(ids)):
        return align(ids, found, other=str(path))
    if rows != len(ids):
        raise InputError(
            f"{rows} rows for {len(ids)} items, and no ids to match them by",
            where=str(path),
            hint="Give the file one row an item, or a first column `id`",
        )
    return np.array([int(name) for name in ids]) if set(ids) == set(numbered) else np.arange(rows)

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
    row_of = {name: row for row, name in enumerate(others)}
    if len(row_of) < len(others):
        twice = next(name for row, name in enumerate(others) if row_of[name] != row)
        raise InputError(f"the id {twice!r} occurs twice", where=other, hint="Give every row its own id")
    known = set(ids)
    missing, surplus = [name for name in ids if name not in row_of], [name for name in others if name not in known]
    if missing or surplus:
        parts = [f"{len(missing)} ids are missing ({_few(missing)})"] * bool(missing)
        parts += [f"{len(surplus)} are not in {this} ({_few(surplus)})"] * bool(surplus)
        hint = "Write the same ids in both files, or leave the ids out to match by position"
        raise InputError(" and ".join(parts), where=other, hint=hint)
    return np.fromiter((row_of[name] for name in ids), np.int64, len(ids))


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def match_rows(ids: Sequence[str], in_file: Sequence[str] | None, rows: int, *, path: PathLike) -> Ints:
    """The row of each of `ids` in a file of `rows` rows: by id where both sides have ids, else by position.

    Ids that are just the numbers 0…N-1, in any order, are positions: of rows in a matrix that has no ids.
    """
    numbered = row_names(len(ids))
    has_no_ids = tuple(ids) == numbered  # as the items of a matrix of counts
    if in_file is not None and not (has_no_ids and set(in_file) != set(ids)):
        return align(ids, in_file, other=str(path))
    if rows != len(ids):
        raise InputError(
            f"{rows} rows for {len(ids)} items, and no ids to match them by",
            where=str(path),
            hint="Write one row per item, or add a first column `id`",
        )
    return np.array([int(name) for name in ids]) if set(ids) == set(numbered) else np.arange(rows)

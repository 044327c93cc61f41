"""Votes in a data frame: one row per vote, or one row per item and one column per class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dissensus.errors import InputError
from dissensus.metrics.array_inputs import rows_by_name
from dissensus.votes.frames import is_frame
from dissensus.votes.roles import RANKS, TOTALS, Role, plain
from dissensus.votes.votes import Votes, row_names


def read_frame(frame: Any, X: Any, classes: Sequence[str] | None) -> Votes | tuple[NDArray[Any], tuple[str, ...]]:
    """The votes of a table with one row per vote, or the matrix of one row per item, and its classes.

    Items are the rows of X by its index where that has their names, else by their order where that is plain.
    """
    item, label = _column(frame, "item"), _column(frame, "label")
    if item is not None and label is not None:
        return _long(frame, X, classes, item, label, _column(frame, "count"))
    if item is not None or not all(dtype.kind in "iuf" for dtype in frame.dtypes):
        raise InputError(
            f"the columns {', '.join(map(str, frame.columns))} name no item and label, and are not the counts of classes",
            where="votes",
            hint="Name the columns item, label and annotator (and count); or give one row per item and one column of "
            "counts per class, with the items as the index",
            state="",
        )
    return _wide(frame, X, classes)


def refuse_other_order(X: Any, votes: Any) -> None:
    """Refuse features and votes, or labels with an index, that have the same names in another order, or other names."""
    if isinstance(votes, Votes):
        if rows_by_name(X, votes.items, "features") is not None:
            hint = "Pass X.loc[list(votes.items)] to match them by name, or X.to_numpy() to match them by order"
            raise InputError(
                "features and votes have the same items in another order", where="votes", hint=hint, state=""
            )
        return
    index = votes.index if hasattr(votes, "iloc") else X.index
    if list(X.index) != list(index) and set(X.index) == set(index):
        raise InputError(
            "features and votes have the same index in another order",
            where="votes",
            hint="Pass votes.loc[X.index] to match them by name, or votes.reset_index(drop=True) to match them by order",
            state="",
        )


def _long(frame: Any, X: Any, classes: Sequence[str] | None, item: Any, label: Any, count: Any) -> Votes:
    for column in (item, label, *([] if count is None else [count])):
        if missing := int(frame[column].isna().sum()):
            hint = f"Drop them with votes.dropna(subset=[{column!r}])"
            raise InputError(f"{missing} rows have no {column}", where="votes", hint=hint, state="")
    item_names, label_names = ([str(value) for value in frame[column].tolist()] for column in (item, label))
    names = list(classes) if classes is not None else sorted(set(label_names))
    if unknown := sorted(set(label_names) - set(names)):
        raise InputError(f"label {unknown[0]!r} is not one of the classes", where="votes", state="")
    items, by_index = _items(item_names, X)
    row, code = ({name: number for number, name in enumerate(values)} for values in (items, names))
    times = None if count is None else _counted(frame[count].to_numpy())
    used = slice(None) if times is None else times > 0
    item_of, label_of = np.array([row[n] for n in item_names])[used], np.array([code[n] for n in label_names])[used]
    votes = Votes(item_of, label_of, items, names, times=None if times is None else times[used])
    if not by_index and not votes.items_in_order:
        raise InputError(
            f"the votes on {items[0]!r} and others are scattered, and the features have no index that names the items",
            where="votes",
            hint="Give the features as a data frame whose index has the items, or sort votes and features by item",
            state="",
        )
    return votes


def _items(names: Sequence[str], X: Any) -> tuple[list[str], bool]:
    """The items in the order of the rows of X, and whether that is known by name."""
    seen = list(dict.fromkeys(names))
    index = [str(value) for value in X.index.tolist()] if is_frame(X) else []
    if set(seen) <= set(index):
        return index, True
    numbers = list(row_names(len(index)))
    if index != numbers and (both := set(seen) & set(index)):
        what = f"{len(both)} of the {len(seen)} items are in the index of the features, the others are not"
        hint = "Give features and votes of the same items, or drop the index with X.reset_index(drop=True)"
        raise InputError(what, where="votes", hint=hint, state="")
    if set(seen) == set(row_names(len(seen))):  # they number the rows
        return list(row_names(len(seen))), True
    return seen, False


def _counted(counts: NDArray[Any]) -> NDArray[np.int64]:
    if counts.dtype.kind not in "iuf" or (counts < 0).any() or (counts != np.floor(counts)).any():
        raise InputError("the counts are not whole numbers of votes", where="votes", state="")
    return counts.astype(np.int64)


def _wide(frame: Any, X: Any, classes: Sequence[str] | None) -> tuple[NDArray[Any], tuple[str, ...]]:
    matrix, names = frame.to_numpy(), tuple(map(str, frame.columns))
    for place, name in enumerate(names):
        if plain(name) in TOTALS and np.array_equal(matrix[:, place], np.delete(matrix, place, 1).sum(1)):
            what = f"the column {name!r} is the sum of the others, and no class"
            raise InputError(what, where="votes", hint=f"Drop it: votes.drop(columns={name!r})", state="")
    if is_frame(X):
        refuse_other_order(X, frame)
    if classes is None or tuple(classes) == names:
        return matrix, names
    if set(names) <= set(classes):
        place_of = {name: place for place, name in enumerate(names)}
        filled = np.concatenate([matrix, np.zeros((len(matrix), 1), dtype=matrix.dtype)], 1)
        return filled[:, [place_of.get(name, -1) for name in classes]], tuple(classes)
    if len(names) == len(classes) and row_names(len(names)) in (names, tuple(classes)):  # one side just numbers them
        return matrix, tuple(classes)
    odd = next(name for name in names if name not in set(classes))
    raise InputError(f"class {odd!r} is not one of the classes ({', '.join(classes)})", where="votes", state="")


def _column(frame: Any, role: Role) -> Any:
    for rank in RANKS[role]:
        matches = [name for name in frame.columns if plain(str(name)) in rank]
        if len(matches) == 1:
            return matches[0]
    return None

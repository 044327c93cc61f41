"""Gold labels: one class per item, from a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dissensus.errors import InputError
from dissensus.votes.alignment import Items, match
from dissensus.votes.array_files import load_arrays
from dissensus.votes.assembly import unknown_label
from dissensus.votes.cells import encode
from dissensus.votes.files import PathLike, kind_of, row_of_array
from dissensus.votes.matrices import array_names
from dissensus.votes.names import class_positions
from dissensus.votes.roles import column_error, find
from dissensus.votes.tables import open_table
from dissensus.votes.votes import Ints


@dataclass(frozen=True, eq=False)
class GoldLabels:
    """The class of each item, int64 [N], and what the user should know about how the file was read."""

    labels: Ints
    notes: tuple[str, ...]


def read_gold(
    path: PathLike, classes: Sequence[str], ids: Sequence[str], *, item: str | None = None, label: str | None = None
) -> Ints:
    """The class of each of `ids`, int64 [N], as an index into `classes`; `gold_of` says how it was read."""
    return gold_of(path, classes, Items(tuple(ids)), item=item, label=label).labels


def gold_of(
    path: PathLike,
    classes: Sequence[str],
    items: Items,
    *,
    item: str | None = None,
    label: str | None = None,
    by_order: bool = False,
    intersect: bool = False,
) -> GoldLabels:
    """The class of each item, as an index into `classes`.

    A table has a column called gold, truth, target, label … (or only one beside the items), matched by its item column,
    or by order where there is none; an .npy or .npz holds one list, matched by order (`alignment.match`). Labels are
    names of classes; if none of them is, all must be numbers of classes, 0…K-1. With `intersect`, rows beyond the items
    are left out.
    """
    is_array = kind_of(path) in ("npy", "npz")
    names, in_file, where = _array_labels(path) if is_array else _table_labels(path, item, label)
    matched = match(items, in_file, len(names), path=path, by_order=by_order, intersect=intersect)
    if len(matched.kept) < len(items.ids):
        absent = len(items.ids) - len(matched.kept)
        raise InputError(f"{absent:,} items have no gold label", where=str(path), hint="Write a label for every item")
    distinct = tuple(dict.fromkeys(names))
    places, by_number = class_positions(distinct, classes)
    class_of = dict(zip(distinct, places, strict=True))
    labels = np.array([class_of[name] for name in names], dtype=np.int64)
    if (labels < 0).any():
        row = int(np.argmax(labels < 0))
        raise unknown_label(names[row], tuple(classes), where(row))
    note = f"{path}: the labels are numbers of classes: 0 is {classes[0]!r}, {len(classes) - 1} is {classes[-1]!r}"
    notes = ((note,) if by_number else ()) + ((matched.note,) if matched.note else ())
    return GoldLabels(labels[matched.rows], notes)


Labels = tuple[
    Sequence[str], tuple[str, ...] | None, Callable[[int], str]
]  # labels, ids, and what names a row in messages


def _array_labels(path: PathLike) -> Labels:
    arrays = load_arrays(path)
    lists = {name: array for name, array in arrays.items() if name not in ("ids", "items", "classes")}
    array = next(iter(lists.values()), None)
    if len(lists) != 1 or array is None or array.ndim != 1 or array.dtype.kind not in "iuU":
        shapes = ", ".join(f"{name} {array.dtype}{array.shape}".strip() for name, array in lists.items())
        what = f"there is not exactly one list of classes in it ({shapes or 'it is empty'})"
        raise InputError(what, where=str(path), hint="Save one array [items] of whole numbers or names")
    ids = next((arrays[name] for name in ("ids", "items") if name in arrays), None)
    if ids is not None and ids.shape != array.shape:
        raise InputError(f"{ids.size} ids for {array.size} labels", where=str(path), hint="Save one id per label")
    return array_names(array), None if ids is None else array_names(ids), lambda row: row_of_array(path, row)


def _table_labels(path: PathLike, item: str | None, label: str | None) -> Labels:
    table = open_table(path)
    id_column = find(table, "item", item)
    others = [name for name in table.names if name != id_column]
    gold_column = others[0] if label is None and len(others) == 1 else find(table, "gold", label)
    if gold_column is None:
        raise column_error(table, "no column is known to hold the gold labels", "Name it `gold`, beside a column `item`")
    parts = []
    for name in [gold_column] if id_column is None else [gold_column, id_column]:
        codes, names = encode(table.columns([name])[0], f"{path}, column {name!r}")
        if (empty := codes < 0).any():
            where = table.where(int(np.argmax(empty)))
            raise InputError(f"column {name!r} is empty", where=where, hint="Fill in the cell, or drop the row")
        parts.append([names[code] for code in codes])
    return parts[0], tuple(parts[1]) if id_column is not None else None, table.where

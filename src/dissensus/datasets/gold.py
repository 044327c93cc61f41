"""Gold labels: one class per item, from a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dissensus.errors import InputError
from dissensus.votes.alignment import match_rows
from dissensus.votes.cells import encode
from dissensus.votes.files import PathLike, kind_of, load_arrays, row_of_array
from dissensus.votes.read import unknown_label
from dissensus.votes.roles import column_error, find
from dissensus.votes.tables import open_table
from dissensus.votes.votes import Ints, row_names


def read_gold(
    path: PathLike, classes: Sequence[str], ids: Sequence[str], *, item: str | None = None, label: str | None = None
) -> Ints:
    """The class of each of `ids`, int64 [N], as an index into `classes`.

    A table has a column called gold, truth, target, label … (or only one beside the items), matched by its item column,
    or by position where there is none; an .npy or .npz holds one list, matched by position. Labels are names of classes;
    if none of them is, all must be numbers of classes, 0…K-1.
    """
    labels, in_file, where = _array_labels(path) if kind_of(path) in ("npy", "npz") else _table_labels(path, item, label)
    rows = match_rows(ids, in_file, len(labels), path=path)
    names, codes = np.unique(np.array(labels, dtype=object), return_inverse=True)
    by_name = any(name in set(classes) for name in names)
    position = {name: index for index, name in enumerate(classes if by_name else row_names(len(classes)))}
    to_class = np.array([position.get(name, -1) for name in names])
    if (to_class < 0).any():
        row = int(np.argmax(to_class[codes] < 0))
        raise unknown_label(labels[row], tuple(classes), where(row))
    return to_class[codes][rows]


Labels = tuple[list[str], tuple[str, ...] | None, Callable[[int], str]]  # labels, ids, and what names a row in messages


def _array_labels(path: PathLike) -> Labels:
    lists = {name: array for name, array in load_arrays(path).items() if name not in ("ids", "items", "classes")}
    array = next(iter(lists.values()), None)
    if len(lists) != 1 or array is None or array.ndim != 1 or array.dtype.kind not in "iuU":
        shapes = ", ".join(f"{name} {array.dtype}{array.shape}".strip() for name, array in lists.items())
        what = f"there is not exactly one list of classes in it ({shapes or 'it is empty'})"
        raise InputError(what, where=str(path), hint="Save one array [items] of whole numbers or names")
    return [str(label) for label in array.tolist()], None, lambda row: row_of_array(path, row)


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

"""Matrices with one row per item: predictions, probabilities, counts, features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dissensus.errors import InputError
from dissensus.votes.alignment import match_rows
from dissensus.votes.cells import encode, first_not_number, gaps, numbers
from dissensus.votes.files import PathLike, load_arrays, row_of_array
from dissensus.votes.roles import column_error, leading_item, listed
from dissensus.votes.tables import FileTable
from dissensus.votes.votes import Floats, row_names


@dataclass(frozen=True, eq=False)
class Matrix:
    """Numbers [N, K], with the names of rows and columns where the file has them. `where` names a row in messages."""

    values: Floats
    ids: tuple[str, ...] | None
    classes: tuple[str, ...] | None
    path: PathLike
    where: Callable[[int], str]

    def column(self, index: int) -> str:
        """A column, for messages."""
        return repr(self.classes[index]) if self.classes is not None else str(index)

    def for_items(self, ids: Sequence[str]) -> Floats:
        """The rows of these items, in their order: by id, or by position where the file has no ids."""
        return self.values[match_rows(ids, self.ids, len(self.values), path=self.path)]

    def for_classes(self, classes: Sequence[str]) -> Floats:
        """The columns of these classes, in their order: by name, or by position where either side has only numbers."""
        if self.values.shape[1] != len(classes):
            raise InputError(
                f"{self.values.shape[1]} columns for {len(classes)} classes ({listed(tuple(classes))})",
                where=str(self.path),
                hint="Write one column per class; a column of ids comes first and is called `id`",
            )
        numbered = row_names(len(classes))
        if self.classes is None or tuple(classes) == self.classes or numbered in (self.classes, tuple(classes)):
            return self.values
        if set(classes) != set(self.classes):
            theirs = sorted(set(self.classes) - set(classes))
            raise InputError(
                f"the columns {listed(theirs)} are not classes ({listed(tuple(classes))})",
                where=str(self.path),
                hint="Name the columns after the classes",
            )
        return self.values[:, [self.classes.index(name) for name in classes]]


def array_matrix(path: PathLike) -> Matrix:
    """The matrix of an .npy or .npz file: its only array with two axes; `ids` or `items`, and `classes` are its names."""
    arrays = load_arrays(path)
    matrices = {name: array for name, array in arrays.items() if array.ndim == 2}
    if len(matrices) != 1:
        shapes = ", ".join(f"{name} {array.shape}".strip() for name, array in arrays.items())
        what = f"there is not exactly one matrix [items, columns] in it ({shapes or 'it is empty'})"
        raise InputError(what, where=str(path), hint="Save one array with two axes")
    values = next(iter(matrices.values()))
    if values.dtype.kind not in "iubf":
        raise InputError(f"the matrix holds {values.dtype}, not numbers", where=str(path), hint="Save numbers")
    if values.size == 0:
        raise InputError(f"the matrix is empty {values.shape}", where=str(path), hint="Save it again")
    ids = next((arrays[name] for name in ("ids", "items") if name in arrays), None)
    classes = arrays.get("classes")
    for what, names, size in (("ids", ids, values.shape[0]), ("classes", classes, values.shape[1])):
        if names is not None and names.shape != (size,):
            raise InputError(
                f"{what} have the shape {names.shape}, not ({size},)",
                where=str(path),
                hint="Save one name per row of ids, and one per column of classes",
            )
    return _named(
        values.astype(np.float64),
        None if ids is None else tuple(str(name) for name in ids.tolist()),
        None if classes is None else tuple(str(name) for name in classes.tolist()),
        path,
        lambda row: row_of_array(path, row),
    )


def table_matrix(table: FileTable, item: str | None) -> Matrix:
    """The matrix of a table: all its columns but that of the ids, every cell a number."""
    leading = leading_item(table, item)
    names = tuple(name for name in table.names if name != leading)
    if not names:
        raise column_error(table, "there is no column of numbers", "Write one column per class")
    columns = table.columns([*([] if leading is None else [leading]), *names])
    ids = None
    if leading is not None:
        codes, distinct = encode(columns.pop(0), f"{table.path}, column {leading!r}")
        if (codes < 0).any():
            where = table.where(int(np.argmax(codes < 0)))
            raise InputError("the id is empty", where=where, hint=f"Fill in the column {leading!r}")
        ids = tuple(distinct[code] for code in codes)
    values = np.empty((len(columns[0]), len(names)))
    for index, (name, column) in enumerate(zip(names, columns, strict=True)):
        parsed = numbers(column)
        if parsed is None:
            row = first_not_number(column)
            what = f"{str(column[row])!r} in column {name!r} is not a number"
            raise InputError(
                what, where=table.where(row), hint="Correct the cell; if the column holds the ids, pass --item"
            )
        if (empty := gaps(column)).any():
            where = table.where(int(np.argmax(empty)))
            raise InputError(f"column {name!r} is empty or NaN", where=where, hint="Fill in the cell, or drop the row")
        values[:, index] = parsed
    return _named(values, ids, names, table.path, table.where)


def _named(
    values: Floats,
    ids: tuple[str, ...] | None,
    classes: tuple[str, ...] | None,
    path: PathLike,
    where: Callable[[int], str],
) -> Matrix:
    if ids is not None and len(set(ids)) < len(ids):
        first: dict[str, int] = {}
        row = next(row for row, name in enumerate(ids) if first.setdefault(name, row) != row)
        raise InputError(f"the id {ids[row]!r} occurs a second time", where=where(row), hint="Write one row per item")
    return Matrix(values, ids, classes, path, where)

"""Matrices with one row per item: predictions, probabilities, counts, features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dissensus.errors import InputError
from dissensus.votes.alignment import match_rows
from dissensus.votes.array_files import load_arrays
from dissensus.votes.cells import encode, first_not_number, gaps
from dissensus.votes.files import PathLike, kind_of, row_of_array
from dissensus.votes.item_columns import ids_behind, item_of_matrix, row_numbers
from dissensus.votes.names import class_positions, label_name, positions
from dissensus.votes.roles import column_error, leading_item, listed
from dissensus.votes.tables import FileTable, open_table


@dataclass(frozen=True, eq=False)
class Matrix:
    """Numbers [N, K], with the names of rows and columns where the file has them. `where` names a row in messages.

    `notes` say what the user should know about how it was read.
    """

    values: NDArray[Any]
    ids: tuple[str, ...] | None
    classes: tuple[str, ...] | None
    path: PathLike
    where: Callable[[int], str]
    notes: tuple[str, ...] = ()

    def column(self, index: int) -> str:
        """A column, for messages."""
        return repr(self.classes[index]) if self.classes is not None else str(index)

    def for_items(self, ids: Sequence[str]) -> NDArray[Any]:
        """The rows of these items, in their order: by id, or by position where the file has no ids."""
        rows = match_rows(ids, self.ids, len(self.values), path=self.path)
        return self.values if np.array_equal(rows, np.arange(len(self.values))) else self.values[rows]

    def for_classes(self, classes: Sequence[str]) -> NDArray[Any]:
        """The columns of these classes, in their order: the values of `with_classes`."""
        return self.with_classes(classes).values

    def with_classes(self, classes: Sequence[str], *, named: bool = True, by_order: bool = False) -> Matrix:
        """The matrix with the columns of these classes, in their order.

        By name wherever both sides have names. Columns that are called 0…K-1, none of which is a class, are numbers of
        classes. By order where the file has no names, or the classes have none (`named`), or `by_order` insists.
        """
        if self.values.shape[1] != len(classes):
            what = f"{self.values.shape[1]} columns for {len(classes)} classes ({listed(tuple(classes))})"
            if self.classes is not None:
                foreign = [
                    name for name, place in zip(self.classes, positions(self.classes, classes), strict=True) if place < 0
                ]
                absent = [
                    name for name, place in zip(classes, positions(classes, self.classes), strict=True) if place < 0
                ]
                what += f"; no class is called {listed(foreign)}" if 0 < len(foreign) < self.values.shape[1] else ""
                what += f"; there is no column {listed(absent)}" if 0 < len(absent) < len(classes) else ""
            hint = "Write one column per class, and take out other columns; a column of ids is called `id`"
            raise InputError(what, where=str(self.path), hint=hint)
        if self.classes is None or not named or by_order:
            if self.classes == tuple(classes):
                return self
            note = f"{self.path}: columns were matched to the classes by their order ({listed(tuple(classes))})"
            return replace(self, classes=tuple(classes), notes=(*self.notes, note))
        places, by_number = class_positions(self.classes, classes)
        if len(set(places)) < len(places) or -1 in places:
            theirs = sorted(name for name, place in zip(self.classes, places, strict=True) if place < 0)
            what = f"the columns {listed(theirs)} are not classes" if theirs else "two columns name the same class"
            raise InputError(
                f"{what} ({listed(tuple(classes))})",
                where=str(self.path),
                hint="Name the columns after the classes, or pass --by-order if they are in the order of the classes",
            )
        order = np.argsort(places)
        sorted_already = np.array_equal(order, np.arange(len(order)))
        note = (
            f"{self.path}: the columns are numbers of classes: 0 is {classes[0]!r}, 1 is {classes[1 % len(classes)]!r}, …"
        )
        return replace(
            self,
            values=self.values if sorted_already else self.values[:, order],
            classes=tuple(classes),
            notes=(*self.notes, note) if by_number else self.notes,
        )


def read_matrix(path: PathLike, item: str | None = None) -> Matrix:
    """The matrix in a file of any kind."""
    return array_matrix(path) if kind_of(path) in ("npy", "npz") else table_matrix(open_table(path), item)


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
    if values.dtype.kind == "b":
        values = values.view(np.uint8)
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
        values,
        None if ids is None else array_names(ids),
        None if classes is None else array_names(classes),
        path,
        lambda row: row_of_array(path, row),
    )


def array_names(names: NDArray[Any]) -> tuple[str, ...]:
    """The names in an array: text as it is; 1 and 1.0 are `1`, True is `true`.

    >>> array_names(np.array([1.0, 2.5])), array_names(np.array([True]))
    (('1', '2.5'), ('true',))
    """
    if names.dtype.kind in "US":
        return tuple(str(name) for name in names.tolist())
    return tuple(label_name(str(name)) for name in names.tolist())


def table_matrix(table: FileTable, item: str | None, columns: Sequence[str] | None = None) -> Matrix:
    """The matrix of a table: these columns, or all but that of the ids; every cell a number."""
    leading = leading_item(table, item)
    left_out = None
    if columns is None:
        leading = item_of_matrix(table, item) if leading is not None else ids_behind(table)
        left_out = row_numbers(table, leading)
    names = tuple(columns) if columns is not None else tuple(n for n in table.names if n not in (leading, left_out))
    if not names:
        raise column_error(table, "there is no column of numbers", "Write one column per class")
    cells = table.columns([*([] if leading is None else [leading]), *names])
    ids = None
    if leading is not None:
        codes, distinct = encode(cells.pop(0), f"{table.path}, column {leading!r}")
        if (codes < 0).any():
            where = table.where(int(np.argmax(codes < 0)))
            raise InputError("the id is empty", where=where, hint=f"Fill in the column {leading!r}")
        refuse_lost_rows(table, leading, distinct, codes)
        ids = tuple(distinct[code] for code in codes)
    values = np.empty((len(cells[0]), len(names)))
    for index, (name, column, parsed) in enumerate(zip(names, cells, table.numbers(names), strict=True)):
        if parsed is None:
            row = first_not_number(column)
            what = f"{str(column[row])!r} in column {name!r} is not a number"
            hint = "Correct the cell, or take the column out; ids come in a column called `id` (or pass --items)"
            raise InputError(what, where=table.where(row), hint=hint)
        if np.isnan(parsed).any() and (empty := gaps(column)).any():
            where = table.where(int(np.argmax(empty)))
            hint = "Fill in the cell, or drop the row; if an empty cell means 0, write 0 (in pandas: .fillna(0))"
            raise InputError(f"column {name!r} is empty or NaN", where=where, hint=hint)
        values[:, index] = parsed
    unnamed = table.headless and names == table.names
    ignored = () if left_out is None else (f"the column {left_out!r} numbers the rows: ignored",)
    behind = leading is not None and item is None and leading != table.names[0] and left_out is None
    named = (f"rows are named by the column {leading!r}",) if behind else ()
    notes = (*table.notes, *table.notes_on_numbers, *ignored, *named)
    return _named(values, ids, None if unnamed else names, table.path, table.where, notes)


def refuse_lost_rows(table: FileTable, column: str, names: Sequence[str], codes: NDArray[Any]) -> None:
    """Refuse a name in which a quote that was never closed seems to have swallowed rows."""
    for code, name in enumerate(names):
        if ("\n" in name or "\r" in name) and table.lost_rows(name, column):
            row = int(np.argmax(codes == code))
            raise InputError(
                f"the cell {name!r} of column {column!r} holds whole rows: a double quote seems to be never closed",
                where=table.where(row),
                hint="Correct the quotes; names that really look so can be written as JSONL or Parquet",
            )


def _named(
    values: NDArray[Any],
    ids: tuple[str, ...] | None,
    classes: tuple[str, ...] | None,
    path: PathLike,
    where: Callable[[int], str],
    notes: tuple[str, ...] = (),
) -> Matrix:
    if ids is not None and len(set(ids)) < len(ids):
        first: dict[str, int] = {}
        row = next(row for row, name in enumerate(ids) if first.setdefault(name, row) != row)
        raise InputError(f"the id {ids[row]!r} occurs a second time", where=where(row), hint="Write one row per item")
    if classes is not None and len(set(classes)) < len(classes):
        raise InputError("a class has two columns", where=str(path), hint="Give every class its own column")
    return Matrix(values, ids, classes, path, where, notes)

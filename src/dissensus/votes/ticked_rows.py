"""Long tables without a column of labels, but with one column of 0 and 1 per class: a row is a vote for its only 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dissensus.votes.cells import nameable
from dissensus.votes.names import label_name
from dissensus.votes.roles import column_error, is_aggregate, listed
from dissensus.votes.tables import FileTable
from dissensus.votes.votes import Ints

MARKS = ({"0", "1"}, {"false", "true"})


def tick_columns(
    table: FileTable, candidates: Sequence[str], beside: Sequence[str | None], *, drop_empty: bool
) -> tuple[str, ...]:
    """The columns of 0 and 1 that share out one 1 per row; () where another column of the `candidates` can be the label.

    Where several candidates hold 0 and 1, and a row has not one 1, it is refused: no class is read against all others.
    """
    found = {name: _ticks(table, name) for name in table.names if name not in beside and not is_aggregate(name)}
    ticks = {name: column for name, column in found.items() if column is not None}
    if len(ticks) < 2 or not candidates or not ticks.keys() >= set(candidates):
        return ()
    per_row = np.sum(list(ticks.values()), axis=0)
    odd = (per_row > 1) if drop_empty else (per_row != 1)
    if not odd.any():
        return tuple(ticks)
    if len(candidates) == 1:  # the others are the same for everybody
        return ()
    row = int(np.argmax(odd))
    what = f"{listed(tuple(ticks))} hold 0 and 1, but not one 1 in every row: {per_row[row]} in {table.where(row)}"
    foreign = [name for name, column in ticks.items() if len(ticks) > 2 and (per_row - column == 1).all()]
    if foreign:
        hint = f"Without {foreign[0]!r} it is one: pass --ignore {foreign[0]} to read the others as classes"
    elif per_row.max() <= 1:
        hint = "Pass --drop-empty to leave out rows without a 1, or --ignore with columns that are no classes"
    else:
        hint = "Pass --ignore with columns that are no classes, or take out rows with several: a vote is for one class"
    raise column_error(table, what, f"{hint}; --labels reads the 0 and 1 of one column")


def ticked_labels(table: FileTable, columns: tuple[str, ...]) -> Ints:
    """Which of the columns has the 1 of each row; -1 where none has it."""
    ticks = [column for column in (_ticks(table, name) for name in columns) if column is not None]
    matrix = np.stack(ticks, 1)
    return np.where(matrix.any(1), matrix.argmax(1), -1)


def _ticks(table: FileTable, name: str) -> NDArray[np.bool_] | None:
    """[V]: whether the cell is 1 or true; None where others than 0 and 1 occur, or never 0."""
    (column,) = table.columns([name])
    if not nameable(column.type):
        return None
    codes, names = table.encoded(name)
    values = [label_name(value) for value in names]
    if not any(set(values) <= marks for marks in MARKS) or not {"0", "false"} & set(values) or (codes < 0).any():
        return None
    return np.array([value in ("1", "true") for value in values])[codes]

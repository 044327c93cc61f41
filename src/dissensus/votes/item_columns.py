"""Which column of a table with one row per item holds the ids, also where pandas or R wrote row numbers before it."""

from __future__ import annotations

import numpy as np

from dissensus.votes.cells import nameable
from dissensus.votes.roles import PATHS, TEXTS, has_role, leading_item, names_items, plain
from dissensus.votes.tables import FileTable

ROW_NUMBERS = ("", "Unnamed: 0", "__index_level_0__")  # how pandas, R and spreadsheets call them
MANY_ROWS = 10


def item_of_matrix(table: FileTable, given: str | None) -> str | None:
    """The item column of a table with one row per item: the first, if it is one; else the only one of different ids.

    Row numbers without a name are the items only where no other column holds ids.
    """
    leading = leading_item(table, given)
    if leading is None:
        return _only_ids(table)
    if given is not None or leading not in ROW_NUMBERS or len(table.names) < 2 or not _is_whole(table, leading):
        return leading
    rest = table.without([leading])
    beside = leading_item(rest, None) or _only_ids(rest)
    is_id = beside is not None and plain(beside) not in TEXTS and holds_ids(rest, beside)
    return beside if is_id else leading


def ids_behind(table: FileTable) -> str | None:
    """The ids of a matrix whose first column holds none: the only other column that is named as items and holds ids."""
    named = [name for name in table.names[1:] if has_role(name, "item") or names_items(name) or plain(name) in PATHS]
    ids = [name for name in named if holds_ids(table, name)]
    return ids[0] if len(ids) == 1 else None


def row_numbers(table: FileTable, item: str | None) -> str | None:
    """The first column, if it just numbers the rows, without a name, beside the items."""
    first = table.names[0]
    numbers = item is not None and first != item and first in ROW_NUMBERS and _is_whole(table, first)
    return first if numbers and _differ(table, first) else None


def holds_ids(table: FileTable, name: str) -> bool:
    """Whether the cells of a column that is named as one of items are ids: all differ, and none is a fraction.

    A class or a feature may have such a name, too (`question`, `index`): few numbers that differ do not tell.
    """
    (values,) = table.numbers([name])
    if not _differ(table, name) or values is None:
        return _differ(table, name)
    told = names_items(name) or plain(name).endswith("id") or len(values) > MANY_ROWS
    return told and _is_whole(table, name)


def _only_ids(table: FileTable) -> str | None:
    named = [name for name in table.names if name.lower() in ("id", "uid", "uuid") or names_items(name)]
    named = named or [name for name in table.names if plain(name) in PATHS | TEXTS]
    ids = [name for name in named if _differ(table, name)]
    return ids[0] if len(ids) == 1 else None


def _differ(table: FileTable, name: str) -> bool:
    """Whether every row has its own name in this column."""
    (column,) = table.columns([name])
    if not nameable(column.type):
        return False
    codes, names = table.encoded(name)
    return len(names) == len(codes)


def _is_whole(table: FileTable, name: str) -> bool:
    (values,) = table.numbers([name])
    return values is not None and bool(np.isfinite(values).all() and (values % 1 == 0).all())

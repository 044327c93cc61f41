"""What the cells of a long table say, where the names of its columns do not: which column holds the labels, and whether a
row stands for more than one vote."""

from __future__ import annotations

import numpy as np

from dissensus.errors import InputError
from dissensus.votes.cells import nameable
from dissensus.votes.roles import column_error, is_aggregate, listed
from dissensus.votes.tables import FileTable
from dissensus.votes.votes import Ints

MOST_CLASSES = 50
FEW_ROWS = 10
MANY_SHARED = 20  # items on which everybody agrees
WHOLES = (1.0, 100.0)  # what shares of an item add up to


def label_candidates(table: FileTable, item: str, annotator: str) -> list[str]:
    """The columns that can be labels: few values, which differ between people on one item, and between items of a person.

    A text or a source differs only between items, an age or a country only between people.
    """
    (items, item_names), (people, person_names) = table.encoded(item), table.encoded(annotator)
    if min(len(item_names), len(person_names)) < 2 or (items < 0).any() or (people < 0).any():
        return []
    found = []
    for name in table.names:
        if name in (item, annotator) or is_aggregate(name):
            continue
        (column,) = table.columns([name])
        if not nameable(column.type):
            continue
        values, names = table.encoded(name)
        few = 1 < len(names) <= min(MOST_CLASSES, max(2, len(values) // 4))
        if few and _differs(values, items) and _differs(values, people):
            found.append(name)
    return found


def label_describes_item(table: FileTable, item: str, label: str) -> bool:
    """Whether a column says something about the items rather than what people said of them: it is the same for everybody,
    and of many kinds or on many items."""
    (items, item_names), (values, names) = table.encoded(item), table.encoded(label)
    if (items < 0).any() or _differs(values, items):
        return False
    shared = int((np.bincount(items) > 1).sum())
    return shared >= MANY_SHARED or (shared > 0 and 2 * len(names) > len(item_names))


def _differs(values: Ints, groups: Ints) -> bool:
    """Whether values differ inside a group."""
    known = values >= 0
    values, groups = values[known], groups[known]
    one = np.zeros(groups.max(initial=-1) + 1, dtype=values.dtype)
    one[groups] = values
    return bool((one[groups] != values).any())


def refuse_rows_of_several(table: FileTable, item: str, label: str, others: tuple[str, ...]) -> str | None:
    """Refuse a table without annotators in which no item has a label twice, beside a number that may say how often.

    So do votes never look, unless there are very many classes. What looks so without a number is put into words.
    """
    if (table_rows := len(table.columns([label])[0])) < FEW_ROWS:
        return None
    (items, item_names), (labels, names) = table.encoded(item), table.encoded(label)
    several = len(item_names) < table_rows and bool((items >= 0).all()) and bool((labels >= 0).all())
    if not several or len(np.unique(items * len(names) + labels)) < table_rows:
        return None
    for name in others:
        (values,) = table.numbers([name])
        if values is None or not np.isfinite(values).all() or (values < 0).any():
            continue
        sums = np.bincount(items, values)
        if any(np.allclose(sums, whole, rtol=0.02) for whole in WHOLES):
            raise _row_of_several(table, f"{name!r} adds up to {sums[0]:.3g} for every item: shares are no votes", name)
        if (values % 1 == 0).all():
            raise _row_of_several(table, f"does {name!r} say how many votes a row stands for?", name)
    return "no item has the same label twice: a row seems to stand for several votes (--count names their number)"


def _row_of_several(table: FileTable, what: str, name: str) -> InputError:
    hint = f"Pass --count {name} if it holds numbers of votes; --ignore {name} counts every row once"
    return column_error(table, f"no item has the same label twice; {what}", hint)


def unknown_label_column(table: FileTable, candidates: list[str]) -> InputError:
    """The error where no column is known to hold the labels: it names those that can."""
    if candidates:
        what = f"no column is called label, and any of {listed(candidates)} can be it"
        return column_error(table, what, f"Pass --labels {candidates[0]}, or another")
    hint = "Pass --labels with its name, or --format transposed if every row is a person and every other column an item"
    return column_error(table, "no column is known to hold the label", hint)

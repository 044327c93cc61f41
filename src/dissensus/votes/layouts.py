"""Which layout a table has, and which column holds what: decided by what the user says, by names, then by content.

Nothing is parsed into votes here, and nothing is said: what was decided, and what looks odd, is in the `Layout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dissensus.errors import InputError
from dissensus.votes.cells import nameable
from dissensus.votes.decisions import Layout, Wanted
from dissensus.votes.joined_cells import SEPARATORS, joined_by, separator_of
from dissensus.votes.label_evidence import (
    label_candidates,
    label_describes_item,
    refuse_rows_of_several,
    unknown_label_column,
)
from dissensus.votes.list_cells import holds_lists, holds_objects
from dissensus.votes.matrix_layouts import (
    listed_as_classes,
    matrix_layout,
    numbered_people,
    numbered_votes,
    sharing_labels,
    with_aggregates,
)
from dissensus.votes.roles import (
    TEXTS,
    column_error,
    find,
    has_role,
    holds_votes,
    listed,
    looks_like_person,
    names_items,
    names_people,
    plain,
)
from dissensus.votes.tables import FileTable
from dissensus.votes.ticked_rows import tick_columns


def find_layout(table: FileTable, wanted: Wanted) -> Layout:
    """The layout of a table; refused where the evidence is thin."""
    told_long = wanted.labels is not None or wanted.annotators is not None or wanted.count is not None
    head = table.head()
    lists = [name for name in table.names if name in head and holds_lists(head[name])]
    if wanted.format in ("wide", "counts") and (objects := [name for name in lists if holds_objects(head[name])]):
        layout = _lists(table, wanted, objects)
        if layout is not None:
            return with_aggregates(layout, table)
    if wanted.format == "transposed":
        return _transposed(table, wanted)
    if wanted.format in ("wide", "counts") or wanted.columns:
        if told_long:
            hint = "Drop --format and --columns, or drop --labels, --annotators and --count"
            raise InputError("only a long table has label and annotator columns", where=str(table.path), hint=hint)
        return matrix_layout(table, wanted)
    if wanted.format is None and not told_long and _counts_by_list(table):
        return Layout("counts", table.names[0], columns=table.names[1:])
    people = [name for name in table.names if looks_like_person(name) and name not in lists]
    if wanted.format is None and not told_long and len(people) > 1:
        return with_aggregates(numbered_people(table, wanted, people, lists), table)
    if wanted.format is None and lists and (layout := _lists(table, wanted, lists)) is not None:
        return with_aggregates(layout, table)
    if wanted.format is None and not told_long and (layout := numbered_votes(table, wanted, lists)) is not None:
        return with_aggregates(layout, table)
    if wanted.format is None and wanted.items is None and not told_long and _has_rows_of_people(table):
        return _transposed(table, wanted)
    if wanted.format == "long" or told_long or find(table, "label") is not None or find(table, "annotator") is not None:
        return _long(table, wanted)
    return matrix_layout(table, wanted)


def _counts_by_list(table: FileTable) -> bool:
    """Whether all columns after the first are listed as classes and hold numbers, as in the tables we write."""
    columns = table.names[1:]
    return listed_as_classes(columns, table) and all(values is not None for values in table.numbers(columns))


def _lists(table: FileTable, wanted: Wanted, lists: Sequence[str]) -> Layout | None:
    """A table whose cells hold several votes each; None where lists are beside the point."""
    if wanted.labels is not None:
        if wanted.labels not in lists:
            return None
        label = wanted.labels
    else:
        scalars = [name for name in table.names if name not in lists]
        if wanted.annotators not in (None, *lists) or any(has_role(name, "annotator") for name in scalars):
            return None
        named = [name for name in lists if has_role(name, "label")]
        others = [name for name in lists if not names_people(name)]
        named = named or [name for name in others if holds_votes(name)]
        single = next((name for name in scalars if has_role(name, "label")), None)
        if others and not named and single is not None:
            what = f"{listed(others)} holds lists and {single!r} one label per row: which one holds the votes?"
            raise column_error(table, what, f"Pass --labels {single}, or --labels {others[0]}")
        if len(named or others) != 1:
            if not others:
                return None
            what = f"several columns hold lists: {listed(named or others)}"
            raise column_error(table, what, "Pass --labels with the one that holds the votes")
        label = (named or others)[0]
    people = [name for name in lists if names_people(name) and name != label]
    annotator = wanted.annotators or (people[0] if len(people) == 1 else None)
    return Layout("lists", find(table.without([label]), "item", wanted.items), label, annotator)


def _long(table: FileTable, wanted: Wanted) -> Layout:
    item, label = find(table, "item", wanted.items), find(table, "label", wanted.labels)
    annotator = find(table, "annotator", wanted.annotators)
    if item is None or (wanted.items is None and annotator is None and plain(item) in TEXTS):  # a text is a poor id
        hint = "Pass --items with its name"
        if annotator is not None and wanted.items is None and wanted.labels is None:
            hint += ", or --format transposed if every row is a person and every other column an item"
        raise column_error(table, "no column is known to hold the item", hint)
    warnings: tuple[str, ...] = ()
    if label is None:
        candidates = [] if annotator is None else label_candidates(table, item, annotator)
        ticked = tick_columns(table, candidates, (item, annotator), drop_empty=wanted.drop_empty)
        if ticked:
            note = f"every row is a vote for the one class of {listed(ticked)} that has its 1"
            return Layout("ticks", item, annotator=annotator, columns=ticked, notes=(note,))
        if len(candidates) != 1:
            raise unknown_label_column(table, candidates)
        label = candidates[0]
        warnings = (
            f"{label!r} was taken for the label: no other column differs between people and between items "
            "(--labels names another)",
        )
    count = wanted.count if wanted.count is None else find(table, "count", wanted.count)
    chosen = [name for name in (item, label, annotator, count) if name is not None]
    if len(set(chosen)) < len(chosen):
        what = "one column cannot be two of item, label, annotator and count"
        raise column_error(table, what, "Pass --items, --labels, --annotators, --count")
    table.columns(chosen)  # in one pass
    if wanted.labels is None and annotator is not None and label_describes_item(table, item, label):
        others = [name for name in label_candidates(table, item, annotator) if name != label]
        if others:
            what = f"everybody has the same {label!r} on an item, as if it described the item"
            raise column_error(table, what, f"Pass --labels with the column of labels: {listed(others)}, or {label}")
    layout = Layout("long", item, label, annotator, count, warnings=warnings)
    if wanted.format is None and wanted.classes is None and (joined := _joined(layout, table)) is not None:
        return joined
    return layout if count is not None or annotator is not None else _with_count(layout, table)


def _joined(layout: Layout, table: FileTable) -> Layout | None:
    """The layout of a table with one row per item, where a cell holds several votes joined by a mark; None where not."""
    assert layout.item is not None
    assert layout.label is not None
    if table.classes is not None or layout.count is not None:
        return None
    roles = [layout.label, layout.item, *([] if layout.annotator is None else [layout.annotator])]
    columns = dict(zip(roles, table.columns(roles), strict=True))
    if not all(nameable(column.type) for column in columns.values()):
        return None
    labels, names = table.encoded(layout.label)
    if not any(mark in name for name in names[:100] for mark in SEPARATORS):
        return None
    if len(table.encoded(layout.item)[1]) < len(labels):
        return None
    people = None if layout.annotator is None else [str(cell or "") for cell in columns[layout.annotator].to_pylist()]
    filled = np.flatnonzero(labels >= 0)
    separator = separator_of(
        [names[code] for code in labels[filled]], None if people is None else [people[row] for row in filled]
    )
    if separator is None:
        return None
    return replace(layout, kind="lists", separator=separator, notes=(*layout.notes, joined_by(separator, layout.label)))


def _has_rows_of_people(table: FileTable) -> bool:
    """Whether every row is a person and the other columns are items: no column is called item or label, no person comes
    twice, and columns share labels."""
    if sum(map(names_items, table.names)) > 1 or any(has_role(name, "label") for name in table.names):
        return False
    if find(table, "item") is not None or (who := find(table, "annotator")) is None:
        return False
    others = [name for name in table.names if name != who]
    people, *columns = table.columns([who, *others])
    if len(others) < 3 or not all(nameable(column.type) for column in (people, *columns)):
        return False
    codes, names = table.encoded(who)
    sharing = sharing_labels(columns, table)
    return len(names) == len(codes) and sum(sharing) > max(2, 0.5 * len(others))


def _transposed(table: FileTable, wanted: Wanted) -> Layout:
    """A table with one row per annotator and one column per item."""
    who = find(table, "annotator", wanted.annotators) or table.names[0]
    others = tuple(name for name in table.names if name != who)
    columns = wanted.columns
    if not columns:
        cells = {
            name: column for name, column in zip(others, table.columns(others), strict=True) if nameable(column.type)
        }
        shared = sharing_labels(list(cells.values()), table)
        columns = tuple(name for name, shares in zip(cells, shared, strict=True) if shares)
    if len(columns) < 2:
        raise column_error(table, "no two columns share a label", "Pass --columns with the columns that are items")
    note = "one row per annotator and one column per item (--format wide reads one row per item)"
    return Layout("wide", who, columns=columns, notes=(note,), transposed=True)


def _with_count(layout: Layout, table: FileTable) -> Layout:
    """A table of item, label and count, if it is one: whole numbers above 0, and no item has a label twice."""
    named = [name for name in layout.ignored(table) if has_role(name, "count")]
    if len(named) != 1:
        assert layout.item is not None
        assert layout.label is not None
        odd = refuse_rows_of_several(table, layout.item, layout.label, layout.ignored(table))
        return layout if odd is None else replace(layout, warnings=(*layout.warnings, odd))
    count = named[0]
    (values,) = table.numbers([count])
    if values is None or not np.isfinite(values).all() or (values < 0).any() or (values != np.floor(values)).any():
        return layout
    assert layout.item is not None
    assert layout.label is not None
    (items, _), (labels, names) = table.encoded(layout.item), table.encoded(layout.label)
    if len(np.unique(items * (len(names) + 1) + labels)) < len(items):
        raise column_error(
            table,
            f"cannot tell whether {count!r} says how many votes a row stands for: an item has the same label in two rows",
            f"Pass --count {count} if it does, or --ignore {count}",
        )
    note = f"{count!r} says how many votes a row stands for (--ignore {count} counts every row once)"
    return Layout("long", layout.item, layout.label, count=count, notes=(note,))

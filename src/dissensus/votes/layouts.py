"""Which layout a table has, and which column holds what: decided by what the user says, by names, then by content.

Nothing is parsed into votes here, and nothing is said: what was decided, and what looks odd, is in the `Layout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from dissensus.errors import InputError
from dissensus.votes.assembly import Duplicates
from dissensus.votes.cells import encode, gaps, nameable
from dissensus.votes.evidence import counts_or_ratings, counts_rows, row_sum
from dissensus.votes.list_cells import holds_lists
from dissensus.votes.names import positions
from dissensus.votes.roles import Role, column_error, find, has_role, leading_item, listed, looks_like_person
from dissensus.votes.tables import FileTable
from dissensus.votes.votes import Floats, Ints

Format = Literal["long", "counts", "wide"]
LayoutKind = Literal["long", "counts", "wide", "lists"]


@dataclass(frozen=True)
class Wanted:
    """What the user says about a file; None and () where it is left to the content."""

    format: Format | None = None
    items: str | None = None
    labels: str | None = None
    annotators: str | None = None
    count: str | None = None
    columns: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    classes: tuple[str, ...] | None = None
    drop_empty: bool = False
    duplicates: Duplicates = "error"

    def __post_init__(self) -> None:
        check_format(self.format)
        if self.duplicates not in get_args(Duplicates):
            raise InputError(f"duplicates {self.duplicates!r} is not one of {', '.join(get_args(Duplicates))}")


@dataclass(frozen=True)
class Layout:
    """What was decided: the column of each role.

    `columns` are the classes of a table of counts, or the annotators of a wide table.
    """

    kind: LayoutKind
    item: str | None = None
    label: str | None = None
    annotator: str | None = None
    count: str | None = None
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def ignored(self, table: FileTable) -> tuple[str, ...]:
        """The columns that are not used."""
        used = {self.item, self.label, self.annotator, self.count, *self.columns}
        return tuple(name for name in table.names if name not in used)


def check_format(layout: str | None) -> None:
    """Refuse a layout that does not exist."""
    if layout not in (None, *get_args(Format)):
        raise InputError(f"format {layout!r} is not one of {', '.join(get_args(Format))}")


def find_layout(table: FileTable, wanted: Wanted) -> Layout:
    """The layout of a table; refused where the evidence is thin."""
    told_long = wanted.labels is not None or wanted.annotators is not None or wanted.count is not None
    if wanted.format in ("wide", "counts") or wanted.columns:
        if told_long:
            hint = "Drop --format and --columns, or drop --labels, --annotators and --count"
            raise InputError("only a long table has label and annotator columns", where=str(table.path), hint=hint)
        return _matrix(table, wanted)
    if wanted.format is None and not told_long and _counts_by_list(table):
        return Layout("counts", table.names[0], columns=table.names[1:])
    head = table.head()
    lists = [name for name in table.names if name in head and holds_lists(head[name])]
    people = [name for name in table.names if looks_like_person(name) and name not in lists]
    if wanted.format is None and not told_long and len(people) > 1:
        return _with_aggregates(Layout("wide", leading_item(table, wanted.items), columns=tuple(people)), table)
    if wanted.format is None and lists and (layout := _lists(table, wanted, lists)) is not None:
        return _with_aggregates(layout, table)
    if wanted.format == "long" or told_long or find(table, "label") is not None or find(table, "annotator") is not None:
        return _long(table, wanted)
    return _matrix(table, wanted)


def _counts_by_list(table: FileTable) -> bool:
    """Whether all columns after the first are listed as classes and hold numbers, as in the tables we write."""
    columns = table.names[1:]
    return listed_as_classes(columns, table) and all(values is not None for values in table.numbers(columns))


def _with_aggregates(layout: Layout, table: FileTable) -> Layout:
    """The layout, with a warning about a column that holds one label per item beside everybody's."""
    single = [name for name in layout.ignored(table) if has_role(name, "label") or has_role(name, "gold")]
    if not single:
        return layout
    what = f"{single[0]!r} seems to be one label per item made from the votes: ignored (--labels {single[0]} reads it)"
    return Layout(**{**layout.__dict__, "warnings": (*layout.warnings, what)})


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
        others = [name for name in lists if not has_role(name, "annotator")]
        if len(named or others) != 1:
            if not others:
                return None
            what = f"several columns hold lists: {listed(named or others)}"
            raise column_error(table, what, "Pass --labels with the one that holds the votes")
        label = (named or others)[0]
    people = [name for name in lists if has_role(name, "annotator") and name != label]
    annotator = wanted.annotators or (people[0] if len(people) == 1 else None)
    return Layout("lists", find(table.without([label]), "item", wanted.items), label, annotator)


def _long(table: FileTable, wanted: Wanted) -> Layout:
    item, label = find(table, "item", wanted.items), find(table, "label", wanted.labels)
    if item is None:
        raise column_error(table, "no column is known to hold the item", "Pass --items with its name")
    if label is None:
        raise column_error(table, "no column is known to hold the label", "Pass --labels with its name")
    annotator = find(table, "annotator", wanted.annotators)
    count = wanted.count if wanted.count is None else find(table, "count", wanted.count)
    chosen = [name for name in (item, label, annotator, count) if name is not None]
    if len(set(chosen)) < len(chosen):
        what = "one column cannot be two of item, label, annotator and count"
        raise column_error(table, what, "Pass --items, --labels, --annotators, --count")
    layout = Layout("long", item, label, annotator, count)
    return layout if count is not None or annotator is not None else _with_count(layout, table)


def _with_count(layout: Layout, table: FileTable) -> Layout:
    """A table of item, label and count, if it is one: whole numbers above 0, and no item has a label twice."""
    named = [name for name in layout.ignored(table) if has_role(name, "count")]
    if len(named) != 1:
        return layout
    count = named[0]
    (values,) = table.numbers([count])
    if values is None or not np.isfinite(values).all() or (values < 0).any() or (values != np.floor(values)).any():
        return layout
    assert layout.item is not None
    assert layout.label is not None
    (items, _), (labels, names) = (
        encode(column, str(table.path)) for column in table.columns([layout.item, layout.label])
    )
    if len(np.unique(items * (len(names) + 1) + labels)) < len(items):
        raise column_error(
            table,
            f"cannot tell whether {count!r} says how many votes a row stands for: an item has the same label in two rows",
            f"Pass --count {count} if it does, or --ignore {count}",
        )
    note = f"{count!r} says how many votes a row stands for (--ignore {count} counts every row once)"
    return Layout("long", layout.item, layout.label, count=count, notes=(note,))


def _matrix(table: FileTable, wanted: Wanted) -> Layout:
    """A table with one row per item, and one column per class or annotator."""
    item = leading_item(table, wanted.items)
    if absent := [name for name in wanted.columns if name not in table.names]:
        raise column_error(table, f"there is no column {absent[0]!r}", "Pass --columns with some of these names")
    columns = wanted.columns or tuple(name for name in table.names if name != item)
    if wanted.format == "wide":
        if item is None:
            what = "no column is known to hold the items of this wide table"
            raise column_error(table, what, "Pass --items with its name")
        if not columns:
            raise column_error(table, "there is no column of votes", "Write one column per annotator")
        return Layout("wide", item, columns=columns)
    if not columns:
        raise column_error(table, "there is no column of numbers", "Write one column per class")
    if wanted.classes is not None and (wanted.format == "counts" or _names_classes(columns, wanted.classes)):
        return Layout("counts", item, columns=_selected(table, columns, wanted.classes))
    if wanted.format == "counts":
        return _without_sum(Layout("counts", item, columns=columns), table, told=bool(wanted.columns))
    return _by_content(table, item, columns, told=bool(wanted.columns))


def _names_classes(columns: Sequence[str], classes: Sequence[str]) -> bool:
    return any(index >= 0 for index in positions(columns, classes))


def _selected(table: FileTable, columns: Sequence[str], classes: Sequence[str]) -> tuple[str, ...]:
    """The columns of these classes, in their order; all columns where the file numbers them."""
    places = positions(classes, columns)
    if all(place < 0 for place in places) and len(columns) == len(classes) and table.headless:
        return tuple(columns)
    if absent := [name for name, place in zip(classes, places, strict=True) if place < 0]:
        raise column_error(table, f"there is no column for the class {absent[0]!r}", "Pass --classes with these names")
    return tuple(columns[place] for place in places)


def _by_content(table: FileTable, item: str | None, columns: tuple[str, ...], *, told: bool) -> Layout:
    cells = {name: cells for name, cells in zip(columns, table.columns(columns), strict=True) if nameable(cells.type)}
    parsed = dict(zip(cells, table.numbers(list(cells)), strict=True))
    numeric = {name: values for name, values in parsed.items() if values is not None}
    texts = {name: cells[name] for name, values in parsed.items() if values is None}
    if len(numeric) > 1 and all(_is_free_text(column) for column in texts.values()):
        if item is None and texts:
            hint = "Pass --items with its name, or --ignore for a column that is none"
            raise column_error(table, "no column is known to hold the items", hint)
        return _numeric(table, item, numeric, {name: cells[name] for name in numeric}, told=told)
    if item is not None and len(cells) > 1:
        sharing = _sharing_labels(list(cells.values()), table)
        people = tuple(name for name, shares in zip(cells, sharing, strict=True) if shares)
        others = [name for name in cells if name not in set(people)]
        if len(people) > 1 and all(_is_free_text(cells[name]) for name in others) and not (told and others):
            return Layout("wide", item, columns=people)
    if told:
        hint = "Pass --format wide or --format counts, and --items"
        raise column_error(table, "cannot tell what these columns hold", hint)
    raise column_error(
        table,
        "this is not a long table, a count matrix or a wide table",
        "Name the columns with --items, --labels and --annotators, or the layout with --format; "
        "if the first line is already data, add a header above it",
    )


def _numeric(
    table: FileTable, item: str | None, values: dict[str, Floats], cells: dict[str, pa.ChunkedArray], *, told: bool
) -> Layout:
    """Columns of numbers: counts of classes, or what people said. Refused where the evidence is thin."""
    columns = tuple(values)
    with_gaps = any(gaps(cells[name]).any() for name, column in values.items() if np.isnan(column).any())
    first = values[columns[0]]
    if item is None and not told and counts_rows(first):
        hint = f"Pass --items {columns[0]} if it holds the ids, or --columns with the classes"
        raise column_error(table, f"the column {columns[0]!r} numbers the rows", hint)
    settle = "Pass --format wide if every column is a person, or --format counts if every column is a class"
    if with_gaps:
        matrix = np.stack(list(values.values()), 1)
        sums = np.nansum(matrix, 1)
        if len(sums) > 3 and sums.min() == sums.max():
            what = f"empty cells beside numbers that sum to {sums[0]:g} in every row: counts, or what people said?"
            raise column_error(table, what, f"{settle} (then write 0 into the empty cells)")
        if item is None:
            raise column_error(table, "no column is known to hold the items of this wide table", "Pass --items")
        return Layout("wide", item, columns=columns)
    layout = _without_sum(Layout("counts", item, columns=columns), table, told=told)
    kind, reason = counts_or_ratings(np.stack([values[name] for name in layout.columns], 1))
    if kind is None:
        raise column_error(table, f"are these numbers counts of classes or what people said? {reason}", settle)
    if kind == "counts":
        return layout
    if item is None:
        raise column_error(table, "no column is known to hold the items of this wide table", "Pass --items")
    warning = f"the numbers were taken for what people said, because {reason} (--format counts reads them as counts)"
    return Layout("wide", item, columns=columns, warnings=(warning,))


def _without_sum(layout: Layout, table: FileTable, *, told: bool) -> Layout:
    """Counts without a column that is the sum of the others, which would count every vote twice."""
    if told or len(layout.columns) < 3 or listed_as_classes(layout.columns, table):
        return layout
    values = table.numbers(layout.columns)
    known = [column for column in values if column is not None]
    if len(known) < len(values):
        return layout
    total = row_sum(np.stack(known, 1), layout.columns)
    if total is None:
        return layout
    columns = tuple(name for name in layout.columns if name != total)
    warning = f"{total!r} is the sum of the other columns: it was not read as a class (--columns names the classes)"
    return Layout("counts", layout.item, columns=columns, warnings=(warning,))


def listed_as_classes(columns: Sequence[str], table: FileTable) -> bool:
    """Whether the file, or the one beside it, lists exactly these columns as its classes: then none is anything else."""
    return table.classes is not None and tuple(columns) == table.classes


def needs_listed_classes(counts: Ints, classes: Sequence[str]) -> bool:
    """Whether a table of these counts would be misread by its header alone: it needs a list of its classes beside it.

    A class may be called `label` or `worker`, as a column of a long table is, or be half of the votes on every item, as a
    column of totals is.
    """
    roles: tuple[Role, ...] = ("label", "annotator")
    odd = any(looks_like_person(name) or any(has_role(name, role) for role in roles) for name in classes)
    return odd or row_sum(counts.astype(float), classes) is not None


def _is_free_text(column: pa.ChunkedArray) -> bool:
    """Whether at least half of the cells differ: texts and addresses do, labels do not."""
    codes, names = encode(column, "")
    return 2 * len(names) >= len(codes) > 0


def _sharing_labels(columns: list[pa.ChunkedArray], table: FileTable) -> list[bool]:
    """Whether each column shares a label with another one: columns of annotators do, columns of texts do not."""
    codes, names = encode_together(columns, str(table.path))
    pairs = np.unique(np.arange(len(columns))[:, None] * (len(names) + 1) + codes + 1)
    column, label = np.divmod(pairs, len(names) + 1)
    column, label = column[label > 0], label[label > 0]
    shared = np.bincount(label, minlength=len(names) + 1)[label] > 1
    found = np.zeros(len(columns), bool)
    found[column[shared]] = True
    return [bool(shares) for shares in found]


def encode_together(columns: list[pa.ChunkedArray], where: str) -> tuple[Ints, tuple[str, ...]]:
    """Codes [columns, rows] into one list of names; types may differ (pandas makes a column with gaps float)."""
    encoded = [encode(column, where) for column in columns]
    names = tuple(dict.fromkeys(name for _, own in encoded for name in own))
    code_of = {name: index for index, name in enumerate(names)}
    return np.stack([np.array([*(code_of[name] for name in own), -1])[codes] for codes, own in encoded]), names

"""Tables with one row per item: wide tables, whose columns are people, and counts, whose columns are classes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from dissensus.errors import InputError
from dissensus.votes.cells import encode, gaps, nameable
from dissensus.votes.decisions import Layout, Wanted
from dissensus.votes.evidence import FEW_ROWS, counts_or_ratings, counts_rows, counts_with_gaps, not_a_class, row_sum
from dissensus.votes.item_columns import item_of_matrix, row_numbers
from dissensus.votes.names import positions
from dissensus.votes.roles import (
    TOTALS,
    Role,
    column_error,
    has_role,
    is_aggregate,
    listed,
    looks_like_person,
    looks_like_votes,
    names_items,
    plain,
)
from dissensus.votes.tables import FileTable
from dissensus.votes.votes import Floats, Ints

SUMS = {"grandtotal", "gesamt", "summe", "insgesamt", "somme", "suma"}
WRITTEN_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?\s*%|[+-]?[0-9]{1,3}(,[0-9]{3})+|0(,0+)?")


def with_aggregates(layout: Layout, table: FileTable) -> Layout:
    """The layout, with a warning about a column that holds one label per item beside everybody's."""
    roles: tuple[Role, ...] = ("label", "gold")
    single = [name for name in layout.ignored(table) if is_aggregate(name) or any(has_role(name, role) for role in roles)]
    if not single:
        return layout
    what = f"{single[0]!r} seems to be one label per item made from the votes: ignored (--labels {single[0]} reads it)"
    return replace(layout, warnings=(*layout.warnings, what))


def votes_by_number(table: FileTable, lists: Sequence[str]) -> tuple[str, ...]:
    """The columns `label1`, `label2` …"""
    return tuple(name for name in table.names if looks_like_votes(name) and name not in lists)


def numbered_people(table: FileTable, wanted: Wanted, people: Sequence[str], lists: Sequence[str]) -> Layout:
    """A table with columns `annotator_1`, `annotator_2` …; refused where they only say who cast `label_1`, `label_2` …"""
    numbered = [name for name in votes_by_number(table, lists) if name not in people]
    if len(numbered) == len(people):
        what = f"{listed(list(people), 3)} stand beside {listed(numbered, 3)}: which columns hold the votes?"
        hint = f"Pass --ignore {','.join(people)} to read the votes of unknown people in {numbered[0]} …"
        raise column_error(table, what, f"{hint}, or --ignore {','.join(numbered)}")
    return Layout("wide", item_of_matrix(table, wanted.items), columns=tuple(people))


def numbered_votes(table: FileTable, wanted: Wanted, lists: Sequence[str]) -> Layout | None:
    """A table with columns `label1`, `label2` … of which each holds one vote per item; None where there are none."""
    columns = votes_by_number(table, lists)
    if len(columns) < 2 or any(has_role(name, "annotator") for name in table.names):
        return None
    if all(values is not None for values in table.numbers(columns)):
        return replace(_by_content(table, item_of_matrix(table, wanted.items), columns, told=True), anonymous=True)
    filled = [column for column in table.columns(columns) if not gaps(column).all()]
    if len(filled) < 2 or not all(sharing_labels(filled, table)):
        return None
    return Layout("wide", item_of_matrix(table, wanted.items), columns=columns, anonymous=True)


def matrix_layout(table: FileTable, wanted: Wanted) -> Layout:
    """A table with one row per item, and one column per class or annotator."""
    item = item_of_matrix(table, wanted.items)
    if absent := [name for name in wanted.columns if name not in table.names]:
        raise column_error(table, f"there is no column {absent[0]!r}", "Pass --columns with some of these names")
    columns = wanted.columns or tuple(name for name in table.names if name not in (item, row_numbers(table, item)))
    if wanted.format == "wide":
        if item is None:
            what = "no column is known to hold the items of this wide table"
            raise column_error(table, what, "Pass --items with its name")
        if not columns:
            raise column_error(table, "there is no column of votes", "Write one column per annotator")
        return _with_suspect_people(Layout("wide", item, columns=columns), told=bool(wanted.columns))
    if not columns:
        raise column_error(table, "there is no column of numbers", "Write one column per class")
    if item is not None and wanted.format is None:
        _refuse_sum_of_rows(table, item, columns)
    if wanted.classes is not None and (wanted.format == "counts" or _names_classes(columns, wanted.classes)):
        return Layout("counts", item, columns=_selected(table, columns, wanted.classes))
    if wanted.format == "counts":
        return _without_sum(Layout("counts", item, columns=columns), table, told=bool(wanted.columns))
    return _by_content(table, item, columns, told=bool(wanted.columns))


def _refuse_sum_of_rows(table: FileTable, item: str, columns: Sequence[str]) -> None:
    """Refuse a last row that is called `Total` and is the sum of the others: it is no item, and all votes count twice."""
    ids, names = table.encoded(item)
    last = "" if len(ids) < FEW_ROWS or ids[-1] < 0 else names[ids[-1]]
    if plain(last) not in TOTALS | SUMS:
        return
    values = [column for column in table.numbers(columns) if column is not None]
    if values and all(2 * column[-1] == column.sum() for column in values):
        what, where = f"the last row, {last!r}, is the sum of all others and no item", table.where(len(ids) - 1)
        raise InputError(what, where=where, hint="Delete it, or pass --format counts to keep it")


def _with_suspect_people(layout: Layout, *, told: bool) -> Layout:
    """A wide table by the user's word, with a warning about a column whose name is no person's."""
    odd = [] if told else [name for name in layout.columns if is_aggregate(name)]
    said = tuple(f"{name!r} was read as the votes of a person (--ignore {name} leaves it out)" for name in odd[:1])
    return replace(layout, warnings=said)


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
    beside = {name for name, column in texts.items() if _is_free_text(column) or _is_winner(column, name, numeric)}
    if len(numeric) > 1 and beside == set(texts):
        if item is None and texts:
            hint = "Pass --items with its name, or --ignore for a column that is none"
            raise column_error(table, "no column is known to hold the items", hint)
        layout = _numeric(table, item, numeric, {name: cells[name] for name in numeric}, told=told)
        return layout if told else with_aggregates(layout, table)
    _refuse_written_numbers(table, texts)
    if item is not None and len(cells) > 1:
        made = [] if told else [name for name in cells if is_aggregate(name)]
        said = {name: column for name, column in cells.items() if name not in made}
        groups = dict(zip(said, label_groups(list(said.values()), table), strict=True)) if said else {}
        together = Counter(groups.values())
        people = tuple(name for name, group in groups.items() if together[group] > 1)
        others = [name for name in said if name not in set(people)]
        if len({groups[name] for name in people}) > 1 and not told:
            raise _several_questions(table, people, groups)
        if len(people) > 1 and all(_is_free_text(cells[name]) for name in others) and not (told and others):
            return _without_made(Layout("wide", item, columns=(*people, *made)))
        if len(people) > 1 and others and not told:
            hint = f"Pass --ignore {','.join(others)} if these hold no votes, or --columns with those that do"
            raise column_error(table, f"{listed(others)}: no other column has the same labels", hint)
    if item is None and not told and len(columns) > 2 and _leads(columns[0], texts, table):
        layout = _by_content(table, columns[0], columns[1:], told=told)
        what = f"{columns[0]!r} was taken for the items: its cells all differ (--items names another column)"
        return replace(layout, warnings=(*layout.warnings, what))
    if told:
        hint = "Pass --format wide or --format counts, and --items"
        raise column_error(table, "cannot tell what these columns hold", hint)
    if len(numeric) > 1:
        other = [name for name in texts if name not in beside]
        hint = (
            "If every row is one vote, pass --items, --annotators and --labels; if every row is one item, pass "
            f"--ignore {','.join(other)}, or --columns with the columns that hold votes"
        )
        raise column_error(table, f"numbers beside labels ({listed(other)}): which columns hold votes?", hint)
    if len(table.names) == 1 and len(table.names[0].split()) > 1:
        hint = "The cells seem to be separated by blanks: separate them by commas or tabs"
        raise column_error(table, "there is one column", hint)
    raise column_error(
        table,
        "this is not a long table, a count matrix or a wide table",
        "Name the columns with --items, --labels and --annotators, or the layout with --format; "
        "if the first line is already data, add a header above it",
    )


def _leads(first: str, texts: Mapping[str, pa.ChunkedArray], table: FileTable) -> bool:
    """Whether the first column is the only text whose cells all differ, in more than a few rows below a header."""
    rows, known = len(table.columns([first])[0]), {name: set(table.encoded(name)[1]) for name in texts}
    is_header = not any(name in labels for name, labels in known.items())
    return rows > FEW_ROWS and is_header and [name for name in texts if len(known[name]) == rows] == [first]


def _refuse_written_numbers(table: FileTable, texts: Mapping[str, pa.ChunkedArray]) -> None:
    """Refuse columns of `20%` or `1,000`, which are no labels; `3,4` may be two labels."""
    for name, column in texts.items():
        names = encode(column, str(table.path))[1]
        if names and all(map(WRITTEN_NUMBER.fullmatch, names)):
            what = f"the cells of {name!r} are numbers with a percent sign or a comma, as {names[0]!r}"
            hint = f"Write counts as plain numbers, or pass --ignore {name}; --format wide reads the cells as labels"
            raise column_error(table, what, hint)


def _several_questions(table: FileTable, people: Sequence[str], groups: Mapping[str, int]) -> InputError:
    kinds = [
        [name for name in people if groups[name] == group] for group in dict.fromkeys(groups[name] for name in people)
    ]
    first, second = sorted(kinds, key=lambda names: any(map(names_items, names)))[:2]
    what = f"two kinds of columns, which share no label: {listed(first, 3)}; and {listed(second, 3)}"
    hint = f"Pass --columns with those that hold the votes (--columns {','.join(first[:8])}), or --format wide for all"
    return column_error(table, what, hint)


def _is_winner(column: pa.ChunkedArray, name: str, counts: dict[str, Floats]) -> bool:
    """Whether a column beside counts holds what is made from them: the name of a class per item."""
    return is_aggregate(name) or set(encode(column, "")[1]) <= set(counts)


def _numeric(
    table: FileTable, item: str | None, values: dict[str, Floats], cells: dict[str, pa.ChunkedArray], *, told: bool
) -> Layout:
    """Columns of numbers: counts of classes, or what people said. Refused where the evidence is thin."""
    if not told:
        values = _without_means(values)
        if ids := [name for name in values if names_items(name)]:
            hint = f"Pass --items {ids[0]} if it names the items, or --ignore {ids[0]}"
            raise column_error(table, f"{ids[0]!r} is named as a column of ids, and no class or person", hint)
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
        if (len(sums) > 3 and sums.min() == sums.max()) or counts_with_gaps(matrix):
            what = (
                f"empty cells beside numbers that sum to {np.median(sums):g} in every row: counts, or what people said?"
            )
            raise column_error(table, what, f"{settle} (then write 0 into the empty cells; in pandas: .fillna(0))")
        return _wide_of_numbers(table, Layout("wide", item, columns=columns), told=told)
    layout = _without_sum(Layout("counts", item, columns=columns), table, told=told)
    matrix = np.stack([values[name] for name in layout.columns], 1)
    kind, reason = counts_or_ratings(matrix)
    if kind is None:
        raise column_error(table, f"are these numbers counts of classes or what people said? {reason}", settle)
    if kind == "counts":
        if not told and (foreign := not_a_class(matrix, layout.columns)) is not None:
            hint = f"Pass --ignore {foreign[0]}, or --columns with the classes"
            raise column_error(table, f"{foreign[0]!r} does not look like a class: {foreign[1]}", hint)
        return layout
    warning = f"the numbers were taken for what people said, because {reason} (--format counts reads them as counts)"
    made = tuple(f"{name!r} is the sum of the other columns: ignored" for name in columns if name not in layout.columns)
    return _wide_of_numbers(table, replace(layout, kind="wide", warnings=(*made, warning)), told=told)


def _wide_of_numbers(table: FileTable, layout: Layout, *, told: bool) -> Layout:
    if layout.item is None:
        raise column_error(table, "no column is known to hold the items of this wide table", "Pass --items")
    return layout if told else _without_made(layout)


def _without_means(values: dict[str, Floats]) -> dict[str, Floats]:
    """The columns without those of fractions that are named as what is made from votes: a mean, an agreement."""
    kept = {
        name: column
        for name, column in values.items()
        if not (is_aggregate(name) and (column[np.isfinite(column)] % 1 != 0).any())
    }
    return kept if len(kept) > 1 else values


def _without_made(layout: Layout) -> Layout:
    """A wide table without the columns whose names say that they are made from the votes, or are better than they."""
    people = tuple(name for name in layout.columns if not is_aggregate(name))
    made = [name for name in layout.columns if is_aggregate(name)]
    if not made or len(people) < 2:
        return layout
    what = (
        f"{listed(made)}: by its name no person, but the truth or made from the votes; ignored (--columns names people)"
    )
    return replace(layout, columns=people, warnings=(*layout.warnings, what))


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
    odd = any(
        looks_like_person(name) or names_items(name) or any(has_role(name, role) for role in roles) for name in classes
    )
    return odd or row_sum(counts.astype(float), classes) is not None


def _is_free_text(column: pa.ChunkedArray) -> bool:
    """Whether at least half of the cells differ: texts and addresses do, labels do not."""
    codes, names = encode(column, "")
    return 2 * len(names) >= len(codes) > 0


def sharing_labels(columns: list[pa.ChunkedArray], table: FileTable) -> list[bool]:
    """Whether each column shares a label with another one: columns of annotators do, columns of texts do not."""
    groups = label_groups(columns, table)
    return [groups.count(group) > 1 for group in groups]


def label_groups(columns: list[pa.ChunkedArray], table: FileTable) -> list[int]:
    """The group of each column. Columns that share a label, directly or through others, are one group."""
    codes, _ = encode_together(columns, str(table.path))
    group = list(range(len(columns)))
    first_with: dict[int, int] = {}
    for column, own in enumerate(codes):
        for label in np.unique(own[own >= 0]).tolist():
            other = group[first_with.setdefault(label, column)]
            if other != (mine := group[column]):
                group = [other if number == mine else number for number in group]
    return group


def encode_together(columns: list[pa.ChunkedArray], where: str) -> tuple[Ints, tuple[str, ...]]:
    """Codes [columns, rows] into one list of names; types may differ (pandas makes a column with gaps float)."""
    encoded = [encode(column, where) for column in columns]
    names = tuple(dict.fromkeys(name for _, own in encoded for name in own))
    code_of = {name: index for index, name in enumerate(names)}
    return np.stack([np.array([*(code_of[name] for name in own), -1])[codes] for codes, own in encoded]), names

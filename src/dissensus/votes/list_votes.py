"""Votes from tables with one row per item whose cells hold several votes: lists, objects, or labels joined by a mark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from dissensus.errors import InputError
from dissensus.votes.assembly import assemble
from dissensus.votes.cells import encode
from dissensus.votes.decisions import Layout, Wanted
from dissensus.votes.joined_cells import parts_of
from dissensus.votes.kept_votes import listed_classes, skipped_notes, without_items
from dissensus.votes.list_cells import Cell, empty, not_a_list, read_lists
from dissensus.votes.names import label_name
from dissensus.votes.object_cells import Meaning, meaning_of
from dissensus.votes.roles import Role, has_role, plain
from dissensus.votes.tables import FileTable
from dissensus.votes.votes import Votes, row_names

FEW_CLASSES = 20
MANY_LISTS = 10


def from_lists(table: FileTable, layout: Layout, wanted: Wanted) -> tuple[Votes, list[str]]:
    """The votes of such a table, and what is said about it."""
    assert layout.label is not None
    column = table.columns([layout.label])[0]
    cells, blank = _cells_of(column, layout, f"{table.path}, column {layout.label!r}"), empty(column)
    for row, (cell, is_blank) in enumerate(zip(cells, blank, strict=True)):
        if cell is None and not is_blank:
            raise not_a_list(str(column[row]), table.where(row))
    people = None
    if layout.annotator is not None:
        people = _cells_of(table.columns([layout.annotator])[0], layout, str(table.path))
    _refuse_lists_of_numbers(cells, layout.label, str(table.path))
    if wanted.format is None and wanted.labels is None:
        _refuse_records(cells, layout.label, str(table.path))
    if people is None and wanted.labels is None:
        _refuse_ticked_boxes(cells, layout.label, str(table.path))
    counted = _counts_classes(cells, layout, table, wanted)
    if layout.item is None:
        codes, names = np.arange(len(cells)), row_names(len(cells))
    else:
        codes, names = encode(table.columns([layout.item])[0], f"{table.path}, column {layout.item!r}")
        if (codes < 0).any():
            where = table.where(int(np.argmax(codes < 0)))
            raise InputError("the item is empty", where=where, hint=f"Fill in the column {layout.item!r}")
    found: list[tuple[int, str, str | None, int]] = []  # row, label, annotator, times
    marks, marked = {label_name(name) for name in wanted.missing}, 0
    for row, cell in enumerate(cells):
        votes = [] if cell is None else _votes_in(cell, None if people is None else people[row], counted, table, row)
        here = [vote for vote in votes if label_name(vote[0]) not in marks]
        marked += len(votes) - len(here)
        if not here and not wanted.drop_empty:
            what = f"item {names[codes[row]]!r} has no vote"
            hint = "Drop the row (--drop-empty does), or collect votes for it"
            raise InputError(what, where=table.where(row), hint=hint)
        found += [(row, *vote) for vote in here]
    if not found:
        raise InputError("no row has a vote", where=str(table.path), hint="Check --labels and --missing")
    distinct = len({label for _, label, *_ in found})
    if wanted.labels is None and distinct > max(FEW_CLASSES, len(found) / 2):
        what = f"{layout.label!r} has {distinct:,} different entries in {len(found):,}: these are hardly votes"
        raise InputError(what, where=str(table.path), hint=f"If they are classes, pass --labels {layout.label}")
    rows = np.array([row for row, *_ in found])
    item, kept_names = without_items(codes[rows], names)
    label_of = {label: code for code, label in enumerate(dict.fromkeys(label for _, label, *_ in found))}
    by_name = {person: code for code, person in enumerate(dict.fromkeys(person for *_, person, _ in found))}
    known = None not in by_name
    votes_read = assemble(
        item,
        kept_names,
        np.array([label_of[label] for _, label, *_ in found]),
        tuple(label_of),
        np.array([by_name[person] for *_, person, _ in found]) if known else None,
        tuple(person for person in by_name if person is not None) if known else None,
        listed_classes(table, wanted),
        wanted.duplicates,
        lambda vote: table.where(int(rows[vote])),
        times=np.array([times for *_, times in found]),
    )
    said = []
    if any(isinstance(cell, dict) for cell in cells):
        said = [f"the objects in {layout.label!r} map {'people to their labels' if known else 'classes to counts'}"]
    return votes_read, said + skipped_notes(0, marked, len(names) - len(kept_names))


def _refuse_lists_of_numbers(cells: list[Cell | None], label: str, where: str) -> None:
    """Refuse lists with one number per class, counts or shares, which are no lists of votes."""
    lists = [cell for cell in cells if cell]
    if len(lists) < 2 or not all(isinstance(cell, list) and len(cell) == len(lists[0]) > 1 for cell in lists):
        return
    numbers = [[value for value in cell if isinstance(value, (int, float))] for cell in lists]
    sums = [sum(values) for values in numbers if len(values) == len(lists[0])]
    if len(sums) < len(lists):
        return
    shares = all(abs(total - 1) < 0.02 for total in sums) and any(value % 1 != 0 for row in numbers for value in row)
    if shares or plain(label).endswith(("count", "counts", "counter", "distribution", "dist", "probs", "softlabel")):
        what = (
            f"{label!r} has one number per class in every row, {'shares' if shares else 'counts'}, and no list of votes"
        )
        raise InputError(what, where=where, hint='Write objects ({"cat": 2, "dog": 1}), or one column per class')


def _refuse_records(cells: list[Cell | None], label: str, where: str) -> None:
    """Refuse objects that are rows of a table, `{"worker": "w1", "label": "cat"}`, or one field, `{"seconds": 3}`."""
    names = dict.fromkeys(name for cell in cells if isinstance(cell, dict) for name in cell)
    roles: tuple[Role, ...] = ("label", "item", "annotator")
    of = {role: next((name for name in names if has_role(name, role)), None) for role in roles}
    if of["label"] is not None and (other := of["annotator"] or of["item"]) is not None:
        what = f"the objects in {label!r} look like rows of a table: they have {other!r} and {of['label']!r}"
        hint = f"Write them as the rows of the file; --labels {label} reads their fields as people or classes"
        raise InputError(what, where=where, hint=hint)
    if len(names) == 1 and len(cells) > 1 and not any(isinstance(cell, list) for cell in cells):
        what = f"every object in {label!r} has the one field {next(iter(names))!r}: that is no vote"
        raise InputError(what, where=where, hint="Pass --labels with another column, or --ignore this one")


def _refuse_ticked_boxes(cells: list[Cell | None], label: str, where: str) -> None:
    """Refuse lists of different lengths in which no label ever comes twice: several labels of one person look so."""
    several = [cell for cell in cells if isinstance(cell, list) and len(cell) > 1]
    lengths = {len(cell) for cell in cells if isinstance(cell, list)}
    if len(several) < MANY_LISTS or len(lengths) < 2 or any(len(set(cell)) < len(cell) for cell in several):
        return
    what = f"no cell of {label!r} has the same label twice: are these several labels of one person, and not votes?"
    raise InputError(what, where=where, hint=f"If every entry is one person's vote, pass --labels {label}")


def _cells_of(column: pa.ChunkedArray, layout: Layout, where: str) -> list[Cell | None]:
    """The votes in every cell of a column; None where it has none."""
    if layout.separator is None:
        return read_lists(column, where)
    return [None if cell in (None, "") else list(parts_of(str(cell), layout.separator)) for cell in column.to_pylist()]


def _counts_classes(cells: list[Cell | None], layout: Layout, table: FileTable, wanted: Wanted) -> bool:
    """Whether objects of whole numbers map classes to counts, and not people to classes; refused where it is unclear."""
    objects = [
        {name: value for name, value in cell.items() if value is not None} for cell in cells if isinstance(cell, dict)
    ]
    if wanted.format is not None or not objects or not all(map(_is_whole, objects)):
        return wanted.format != "wide"
    meaning: Meaning | None
    meaning, reason = meaning_of([{name: float(value) for name, value in cell.items()} for cell in objects])
    if meaning is None:
        what = f"do the objects in {layout.label!r} count classes, or say which class each person chose? {reason}"
        raise InputError(
            what,
            where=str(table.path),
            hint="Pass --format counts if they map classes to counts, or --format wide if they map people to classes",
        )
    return meaning == "counts"


def _is_whole(cell: Mapping[str, object]) -> bool:
    values = [value for value in cell.values() if value is not None]
    return all(isinstance(value, (int, float)) and not isinstance(value, bool) and value % 1 == 0 for value in values)


def _votes_in(
    cell: Cell, people: Cell | None, counted: bool, table: FileTable, row: int
) -> list[tuple[str, str | None, int]]:
    """(label, annotator, times) of every vote in a cell. A list names labels; an object maps labels to their counts
    (`counted`), or annotators to their labels."""
    if isinstance(cell, list):
        names: Sequence[object] = [None] * len(cell)
        if people is not None:
            if not isinstance(people, list) or len(people) != len(cell):
                what = "there are not as many annotators as votes"
                raise InputError(
                    what, where=table.where(row), hint="Write one annotator per vote, or --ignore the column"
                )
            names = people
        return [
            (_scalar_name(label), None if person is None else _scalar_name(person), 1)
            for label, person in zip(cell, names, strict=True)
            if _is_label(label)
        ]
    values = [value for value in cell.values() if value is not None]
    if _is_whole(cell) and counted:
        if any(isinstance(value, (int, float)) and not 0 <= value <= 1e15 for value in values):
            raise InputError("a count is negative or enormous", where=table.where(row), hint="Correct the cell")
        return [(label, None, int(times)) for label, times in cell.items() if times]
    if any(isinstance(value, float) and value % 1 != 0 for value in values):
        what = "an object maps labels to counts, and these are fractions"
        raise InputError(what, where=table.where(row), hint="Write how many people chose each label")
    return [(_scalar_name(label), person, 1) for person, label in cell.items() if _is_label(label)]


def _is_label(value: object) -> bool:
    return value is not None and value != "" and value == value  # NaN is not itself


def _scalar_name(value: object) -> str:
    return value if isinstance(value, str) else label_name(str(value))

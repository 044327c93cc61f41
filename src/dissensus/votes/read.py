"""Votes from files: long tables, count matrices, wide tables and lists of votes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from dissensus.errors import InputError
from dissensus.votes.assembly import Duplicates, assemble
from dissensus.votes.cells import encode
from dissensus.votes.exports import EXPORTS, read_export
from dissensus.votes.files import PathLike, kind_of
from dissensus.votes.layouts import Format, Layout, Wanted, encode_together, find_layout
from dissensus.votes.list_cells import Cell, empty, not_a_list, read_lists
from dissensus.votes.matrices import Matrix, array_matrix, refuse_lost_rows, table_matrix
from dissensus.votes.names import label_name
from dissensus.votes.read_as import ReadAs
from dissensus.votes.roles import column_error, looks_like_person
from dissensus.votes.suspicions import suspicions
from dissensus.votes.tables import FileTable, open_table
from dissensus.votes.votes import MOST_VOTES, Ints, Votes, row_names

TITLES = {
    "long": "long table",
    "wide": "wide table",
    "counts": "table of counts",
    "lists": "one list of votes per item",
}
Names = tuple[str, ...]


def read_votes(
    path: PathLike,
    *,
    format: Format | str | None = None,  # noqa: A002  (the name a caller expects)
    items: str | None = None,
    labels: str | None = None,
    annotators: str | None = None,
    count: str | None = None,
    columns: Sequence[str] = (),
    ignore: Sequence[str] = (),
    missing: Sequence[str] = (),
    classes: Sequence[str] | None = None,
    drop_empty: bool = False,
    duplicates: Duplicates = "error",
    item: str | None = None,
    label: str | None = None,
    annotator: str | None = None,
) -> Votes:
    """Votes from a long table (one row per vote), a count matrix, a wide table (items × annotators), or lists of votes.

    CSV (also separated by semicolons, tabs or bars), TSV, JSONL, JSON (a list of objects) and Parquet hold tables, text
    also compressed (.csv.gz); .npy and .npz hold count matrices. Exports of annotation platforms and files of published
    crowds are recognised by their content, or by their name in `votes.exports.EXPORTS` as `format` (docs/exports.md).
    `votes.read_as` says how the file was understood, and what looks odd about it. Unless `format` gives the layout of a
    table, the first of these rules that fits decides:

    1. At least two columns are called `annotator_1`, `rater2` …: a **wide** table of these columns.
    2. A column's cells are lists (`["cat", "dog"]`) or objects (`{"cat": 2}`), and none names an annotator per row:
       **lists** of votes, one per item.
    3. A column is called label, annotation, vote, answer, choice, rating … or annotator, worker, user, rater,
       completed_by …, or `labels` or `annotators` is given: a **long** table. The item column is called item, task,
       image, example … or, failing those, id, uid … or ends in `id`; the annotator column may be absent. A column called
       count, n_votes, n … beside item and label, without annotators, says how many votes a row stands for.
    4. All other columns but texts hold numbers: a **count** matrix with one column per class, or a **wide** table with
       one column per annotator where a cell is empty; otherwise arithmetic decides (`votes.evidence`), or it is refused.
    5. There is an item column, and at least two others share labels: a **wide** table. An empty cell is no vote.
    6. Anything else is refused, and the error lists the columns.

    "Other" means all but the item column: `items`, or the first column if it is called item, task, id … or nothing.

    `columns` names the classes of a count matrix or the annotators of a wide table; `ignore` names columns to leave out;
    labels in `missing` are no votes; `drop_empty` skips rows without a label. `item`, `label` and `annotator` are other
    names of `items`, `labels` and `annotators`.

    Names are read as written ("01" stays "01", "NA" is a name), except that labels 1.0 and 1 are `1`, and True is `true`
    (`votes.names`). Items come in order of first appearance. The classes are `classes`, or what the file says (Parquet
    metadata; `votes.csv.classes.json` beside `votes.csv`; the columns of a count matrix), or the labels that occur,
    sorted (as numbers if all are numbers). Of a count matrix, `classes` selects columns.

    A second vote by the same annotator on the same item is an error, unless `duplicates` says which to keep: the "first",
    the "last", or all of them ("keep").
    """
    export = format if format in EXPORTS else None
    if format not in (None, *get_args(Format), *EXPORTS):
        what = f"format {format!r} is not one of {', '.join(get_args(Format))}, nor an export ({', '.join(EXPORTS)})"
        raise InputError(what, where=str(path))
    wanted = Wanted(
        None if format in EXPORTS else format,  # type: ignore[arg-type]  # it refuses what it does not know
        _one_of(items, item, "items"),
        _one_of(labels, label, "labels"),
        _one_of(annotators, annotator, "annotators"),
        count,
        tuple(columns),
        tuple(ignore),
        tuple(missing),
        None if classes is None else tuple(classes),
        drop_empty,
        duplicates,
    )
    if (exported := _from_export(path, export, wanted)) is not None:
        return exported
    if kind_of(path) in ("npy", "npz"):
        if format not in (None, "counts"):
            raise InputError(f"NumPy files hold count matrices, not {format} tables", where=str(path))
        return _from_array(path, wanted)
    table = _listing_classes(open_table(path)).without(wanted.ignore)
    if not table.names:
        raise InputError("no column is left to read", where=str(path), hint="Ignore fewer columns")
    layout = find_layout(table, wanted)
    votes, notes = READERS[layout.kind](table, layout, wanted)
    read_as = ReadAs(
        TITLES[layout.kind],
        _roles(layout),
        (*layout.ignored(table), *wanted.ignore),
        (*table.notes, *layout.notes, *notes),
        layout.warnings,
        _unnamed(layout, table, wanted),
    )
    return votes.described(_with_suspicions(read_as, votes, table, wanted))


def _from_export(path: PathLike, export: str | None, wanted: Wanted) -> Votes | None:
    """The votes of a platform's export; None where the user describes a plain table, or no platform wrote the file."""
    if wanted.format is not None or ((wanted.columns or wanted.count is not None) and export is None):
        return None
    votes = read_export(
        path,
        name=export,
        items=wanted.items,
        labels=wanted.labels,
        annotators=wanted.annotators,
        classes=wanted.classes,
        missing=wanted.missing,
        ignore=wanted.ignore,
        duplicates=wanted.duplicates,
    )
    if votes is None or votes.read_as is None:
        return None
    return votes.described(_with_suspicions(votes.read_as, votes, None, wanted))


def _one_of(value: str | None, other: str | None, name: str) -> str | None:
    if value is not None and other not in (None, value):
        raise InputError(f"{name} is given twice: {value!r} and {other!r}")
    return value if value is not None else other


def _roles(layout: Layout) -> dict[str, str]:
    roles = {"item": layout.item, "annotator": layout.annotator, "label": layout.label, "count": layout.count}
    named = {role: column for role, column in roles.items() if column is not None}
    if layout.columns:
        shown = " ".join(layout.columns[:8]) + (f" … ({len(layout.columns)})" if len(layout.columns) > 8 else "")
        named["classes" if layout.kind == "counts" else "annotators"] = shown
    return named


def _unnamed(layout: Layout, table: FileTable, wanted: Wanted) -> tuple[str, ...]:
    unnamed = [] if layout.item is not None else ["items"]
    if layout.kind == "counts" and table.headless and wanted.classes is None:
        unnamed.append("classes")
    return tuple(unnamed)


def _with_suspicions(read_as: ReadAs, votes: Votes, table: FileTable | None, wanted: Wanted) -> ReadAs:
    described = votes.described(read_as)
    return replace(read_as, warnings=(*read_as.warnings, *suspicions(described, table, wanted)))


def classes_file(path: PathLike) -> Path:
    """The file beside a text table with the order of its classes, a JSON list, where that is not the sorted order."""
    return Path(f"{path}.classes.json")


def _order(table: FileTable, wanted: Wanted) -> Names | None:
    """The classes that the user, the file or the file beside it lists."""
    return wanted.classes if wanted.classes is not None else table.classes


def _listing_classes(table: FileTable) -> FileTable:
    """The table with the classes that the file beside it lists, where it lists none itself."""
    return table if table.classes is not None else replace(table, classes=_sidecar_classes(table.path))


def _is_missing(names: Names, wanted: Wanted) -> NDArray[np.bool_]:
    """[K]: whether a label means that there is no vote."""
    marks = {label_name(name) for name in wanted.missing}
    return np.array([name in wanted.missing or label_name(name) in marks for name in names], dtype=bool)


def _without_items(item: Ints, items: Names) -> tuple[Ints, Names]:
    """Codes and names without the items that no code names any more."""
    occurring = np.bincount(item, minlength=len(items)) > 0
    new = np.cumsum(occurring) - 1
    return new[item], tuple(name for name, occurs in zip(items, occurring, strict=True) if occurs)


def _skipped(dropped: int, marked: int, items: int) -> list[str]:
    """What was left out, in words."""
    parts = [f"{dropped:,} rows without a label were skipped"] * bool(dropped)
    parts += [f"{marked:,} cells that --missing names are no votes"] * bool(marked)
    parts += [f"{items:,} items have no vote and were left out"] * bool(items)
    return parts


def _from_long(table: FileTable, layout: Layout, wanted: Wanted) -> tuple[Votes, list[str]]:
    chosen = {"item": layout.item, "label": layout.label, "annotator": layout.annotator}
    roles = {role: column for role, column in chosen.items() if column is not None}
    encoded: dict[str, tuple[Ints, Names]] = {}
    for (role, name), column in zip(roles.items(), table.columns(list(roles.values())), strict=True):
        encoded[role] = encode(column, f"{table.path}, column {name!r}")
        refuse_lost_rows(table, name, encoded[role][1], encoded[role][0])
    label, labels = encoded["label"]
    silent, marked = label < 0, np.zeros(len(label), bool)
    if wanted.missing:
        marked = np.append(_is_missing(labels, wanted), False)[label]
    times = None if layout.count is None else _times(table, layout.count)
    no_vote = silent | marked if times is None else silent | marked | (times == 0)
    for role, (codes, _) in encoded.items():
        bad = (codes < 0) & ~marked & ~(silent & wanted.drop_empty)
        if bad.any():
            where, name = table.where(int(np.argmax(bad))), roles[role]
            hint = f"Fill in the column {name!r}, or drop the row"
            if role == "label":
                hint += " (--drop-empty does); --missing names labels that mean `no vote`"
            raise InputError(f"the {role} is empty", where=where, hint=hint)
    rows = np.flatnonzero(~no_vote)
    if not len(rows):
        raise InputError("no row has a label", where=str(table.path), hint="Check --labels and --missing")
    item, items = encoded["item"]
    people, annotators = encoded.get("annotator", (None, None))
    before = len(items)
    if len(rows) < len(label):
        item, items = _without_items(item[rows], items)
        label, people = label[rows], None if people is None else people[rows]
        times = None if times is None else times[rows]
        kept = np.unique(label)
        label, labels = np.searchsorted(kept, label), tuple(labels[code] for code in kept)
    votes = assemble(
        item,
        items,
        label,
        labels,
        people,
        annotators,
        _order(table, wanted),
        wanted.duplicates,
        lambda vote: table.where(int(rows[vote])),
        times=times,
    )
    return votes, _skipped(int((silent & ~marked).sum()), int(marked.sum()), before - len(items))


def _times(table: FileTable, count: str) -> Ints:
    (values,) = table.numbers([count])
    good = None if values is None else np.isfinite(values) & (values >= 0) & (values == np.floor(values))
    if values is None or good is None or not good.all():
        row = 0 if good is None else int(np.argmin(good))
        what = f"column {count!r} is not a whole number from 0 on"
        raise InputError(what, where=table.where(row), hint=f"Correct the cell, or pass --ignore {count}")
    if values.max() > 1e15:
        raise InputError(f"the counts add up to {values.sum():.3g} votes", where=str(table.path), hint="Check --count")
    return values.astype(np.int64)


def _from_wide(table: FileTable, layout: Layout, wanted: Wanted) -> tuple[Votes, list[str]]:
    if layout.item is None:
        what = "no column is known to hold the items of this wide table"
        raise column_error(table, what, "Pass --items with its name")
    item_column, *columns = table.columns([layout.item, *layout.columns])
    items, names = encode(item_column, f"{table.path}, column {layout.item!r}")
    if (empty_id := items < 0).any():
        where = table.where(int(np.argmax(empty_id)))
        raise InputError("the item is empty", where=where, hint=f"Fill in the column {layout.item!r}")
    refuse_lost_rows(table, layout.item, names, items)
    cells, labels = encode_together(columns, str(table.path))
    for column, name in zip(cells, layout.columns, strict=True):
        refuse_lost_rows(table, name, labels, column)
    marked = np.zeros(cells.shape, bool)
    if wanted.missing:
        marked = np.append(_is_missing(labels, wanted), False)[cells]
        cells = np.where(marked, -1, cells)
    silent = (cells < 0).all(0)
    if silent.any() and not wanted.drop_empty:
        first = int(np.argmax(silent))
        what = f"item {names[items[first]]!r} has no vote"
        hint = "Drop the row (--drop-empty does), or collect votes for it"
        raise InputError(what, where=table.where(first), hint=hint)
    row, person = np.nonzero(cells.T >= 0)
    if not len(row):
        raise InputError("no cell has a label", where=str(table.path), hint="Check --missing")
    label, before = cells.T[row, person], len(names)
    item, names = _without_items(items[row], names)
    kept = np.unique(label)
    votes = assemble(
        item,
        names,
        np.searchsorted(kept, label),
        tuple(labels[code] for code in kept),
        person,
        layout.columns,
        _order(table, wanted),
        wanted.duplicates,
        lambda vote: table.where(int(row[vote])),
    )
    return votes, _skipped(0, int(marked.sum()), before - len(names))


def _from_lists(table: FileTable, layout: Layout, wanted: Wanted) -> tuple[Votes, list[str]]:
    assert layout.label is not None
    column = table.columns([layout.label])[0]
    cells, blank = read_lists(column, f"{table.path}, column {layout.label!r}"), empty(column)
    for row, (cell, is_blank) in enumerate(zip(cells, blank, strict=True)):
        if cell is None and not is_blank:
            raise not_a_list(str(column[row]), table.where(row))
    people = None if layout.annotator is None else read_lists(table.columns([layout.annotator])[0], str(table.path))
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
        votes = [] if cell is None else list(_votes_in(cell, None if people is None else people[row], table, row))
        here = [vote for vote in votes if label_name(vote[0]) not in marks]
        marked += len(votes) - len(here)
        if not here and not wanted.drop_empty:
            what = f"item {names[codes[row]]!r} has no vote"
            hint = "Drop the row (--drop-empty does), or collect votes for it"
            raise InputError(what, where=table.where(row), hint=hint)
        found += [(row, *vote) for vote in here]
    if not found:
        raise InputError("no row has a vote", where=str(table.path), hint="Check --labels and --missing")
    rows = np.array([row for row, *_ in found])
    item, kept_names = _without_items(codes[rows], names)
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
        _order(table, wanted),
        wanted.duplicates,
        lambda vote: table.where(int(rows[vote])),
        times=np.array([times for *_, times in found]),
    )
    return votes_read, _skipped(0, marked, len(names) - len(kept_names))


def _votes_in(cell: Cell, people: Cell | None, table: FileTable, row: int) -> list[tuple[str, str | None, int]]:
    """(label, annotator, times) of every vote in a cell. A list names labels; an object maps labels to their counts, or
    annotators to their labels."""
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
    whole = all(
        isinstance(value, (int, float)) and not isinstance(value, bool) and value == value // 1 for value in values
    )
    if whole and not all(map(looks_like_person, cell)):
        if any(isinstance(value, (int, float)) and not 0 <= value <= 1e15 for value in values):
            raise InputError("a count is negative or enormous", where=table.where(row), hint="Correct the cell")
        return [(label, None, int(times)) for label, times in cell.items() if times]
    if any(isinstance(value, float) for value in values):
        what = "an object maps labels to counts, and these are fractions"
        raise InputError(what, where=table.where(row), hint="Write how many people chose each label")
    return [(_scalar_name(label), person, 1) for person, label in cell.items() if _is_label(label)]


def _is_label(value: object) -> bool:
    return value is not None and value != "" and value == value  # NaN is not itself


def _scalar_name(value: object) -> str:
    return value if isinstance(value, str) else label_name(str(value))


def _from_table_of_counts(table: FileTable, layout: Layout, wanted: Wanted) -> tuple[Votes, list[str]]:
    matrix = table_matrix(table, layout.item, layout.columns)
    if wanted.classes is not None:
        matrix = replace(matrix, classes=wanted.classes)
    return _from_counts(matrix, wanted)


def _from_counts(matrix: Matrix, wanted: Wanted) -> tuple[Votes, list[str]]:
    if wanted.missing:
        what = "--missing names labels, and a table of counts has numbers"
        raise InputError(what, where=str(matrix.path), hint="Drop --missing, or pass --format wide")
    counts = matrix.values
    fractions = counts.dtype.kind == "f"
    bad = (~np.isfinite(counts) | (counts < 0) | (counts != np.floor(counts))) if fractions else counts < 0
    if bad.any():
        row, column = (int(index) for index in np.argwhere(bad)[0])
        hint = "Write whole numbers from 0 on; if these are probabilities, pass --probs"
        if counts[row, column] == -1:
            hint += "; if every column is a person and -1 is no vote, pass --format wide --missing -1"
        raise InputError(
            f"{counts[row, column]:g} in column {matrix.column(column)} is not a count",
            where=matrix.where(row),
            hint=hint,
        )
    if (total := float(counts.sum(dtype=np.float64))) > MOST_VOTES:
        what, hint = f"the counts add up to {total:.3g} votes", "Check the numbers: these are more votes than people cast"
        raise InputError(what, where=str(matrix.path), hint=hint)
    silent = np.flatnonzero(~counts.any(1))
    if len(silent) and not wanted.drop_empty:
        what = f"this item has no vote ({len(silent)} of {len(counts)} have none)"
        hint = "Drop the row (--drop-empty does), or collect votes for it"
        raise InputError(what, where=matrix.where(int(silent[0])), hint=hint)
    ids = matrix.ids if matrix.ids is not None else row_names(len(counts))
    if len(silent):
        kept = np.flatnonzero(counts.any(1))
        counts, ids = counts[kept], tuple(ids[row] for row in kept)
    return Votes.from_counts(counts, classes=matrix.classes, items=ids), _skipped(0, 0, len(silent))


def _from_array(path: PathLike, wanted: Wanted) -> Votes:
    matrix = array_matrix(path)
    unnamed = ["items"] * (matrix.ids is None) + ["classes"] * (matrix.classes is None and wanted.classes is None)
    if wanted.classes is not None:
        matrix = matrix.with_classes(wanted.classes)
    votes, notes = _from_counts(matrix, wanted)
    read_as = ReadAs("count matrix", notes=(*matrix.notes, *notes), unnamed=tuple(unnamed))
    return votes.described(_with_suspicions(read_as, votes, None, wanted))


READERS = {"long": _from_long, "wide": _from_wide, "counts": _from_table_of_counts, "lists": _from_lists}


def _sidecar_classes(path: PathLike) -> Names | None:
    sidecar = classes_file(path)
    if not sidecar.is_file():
        return None
    try:
        classes = json.loads(sidecar.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        classes = None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=str(sidecar), hint="Check its permissions") from None
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise InputError("this is not a JSON list of class names", where=str(sidecar), hint="Correct or delete it")
    return tuple(classes)

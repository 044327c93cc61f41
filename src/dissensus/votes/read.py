"""Votes from files: long tables, count matrices, wide tables and lists of votes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from dissensus.errors import InputError
from dissensus.votes.assembly import Duplicates, assemble
from dissensus.votes.count_votes import from_array, from_table_of_counts
from dissensus.votes.decisions import Layout, ReadFormat, Wanted
from dissensus.votes.exports import EXPORTS, open_export, read_export
from dissensus.votes.exports.documents import Document, TableDocument
from dissensus.votes.files import PathLike, kind_of, reading_pipes_once
from dissensus.votes.frames import WHERE, frame_table, is_frame
from dissensus.votes.kept_votes import Names, is_missing, listed_classes, skipped_notes, without_items
from dissensus.votes.layouts import find_layout
from dissensus.votes.list_votes import from_lists
from dissensus.votes.matrices import refuse_lost_rows
from dissensus.votes.matrix_layouts import encode_together
from dissensus.votes.read_as import ReadAs
from dissensus.votes.roles import column_error
from dissensus.votes.suspicions import suspicions
from dissensus.votes.tables import FileTable, open_table
from dissensus.votes.ticked_rows import ticked_labels
from dissensus.votes.votes import Ints, Votes

TITLES = {
    "long": "long table",
    "wide": "wide table",
    "counts": "table of counts",
    "lists": "one list of votes per item",
    "ticks": "long table with one column per class",
}


def read_votes(
    path: PathLike | Any,
    *,
    format: ReadFormat | str | None = None,  # noqa: A002  (the name a caller expects)
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

    `path` is a file, a folder, or a data frame of pandas, whose index is a column if it has a name or holds text.

    CSV (also separated by semicolons, tabs or bars), TSV, JSONL, JSON (a list of objects) and Parquet hold tables, text
    also compressed (.csv.gz); .npy and .npz hold count matrices. Exports of annotation platforms and files of published
    crowds are recognised by their content, or by their name in `votes.exports.EXPORTS` as `format` (docs/exports.md).
    `votes.read_as` says how the file was understood, and what looks odd about it. Unless `format` gives the layout of a
    table, the first of these rules that fits decides:

    1. At least two columns are called `annotator_1`, `rater2` …: a **wide** table of these columns.
    2. A column's cells are lists (`["cat", "dog"]`) or objects (`{"cat": 2}`), and none names an annotator per row:
       **lists** of votes, one per item.
    3. At least two columns are called `label1`, `vote_2` …, without annotators: a **wide** table of unknown people.
    4. The first column is called annotator, worker … or Email address, nobody comes twice, and the other columns share
       labels: a wide table that is **transposed**, with one row per annotator.
    5. A column is called label, annotation, vote, answer, choice, rating … or annotator, worker, user, rater,
       completed_by …, or `labels` or `annotators` is given: a **long** table. The item column is called item, task,
       image, example … or, failing those, id, uid … or ends in `id`; the annotator column may be absent. A column called
       count, n_votes, n … beside item and label, without annotators, says how many votes a row stands for. Where no
       column can be the label, but several hold 0 and 1, every row exactly one 1, a row is a vote for that column.
    6. All other columns but texts hold numbers: a **count** matrix with one column per class, or a **wide** table with
       one column per annotator where a cell is empty; otherwise arithmetic decides (`votes.evidence`), or it is refused.
    7. There is an item column, and at least two others share labels: a **wide** table. An empty cell is no vote.
    8. Anything else is refused, and the error lists the columns.

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
    if format not in (None, *get_args(ReadFormat), *EXPORTS):
        what = f"format {format!r} is not one of {', '.join(get_args(ReadFormat))}, nor an export ({', '.join(EXPORTS)})"
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
    if is_frame(path):
        if export is not None:
            raise InputError("an export is read from its file", where=WHERE, hint="Pass its path", state="")
        votes = _read_table(frame_table(path), wanted)
        _check_unicode(votes, WHERE)
        return votes
    with reading_pipes_once():
        document = open_export(path, export) if _may_be_export(wanted, export) else None
        exported = _from_export(path, document, export, wanted)
        votes = _from_table(path, document, wanted) if exported is None else exported
    _check_unicode(votes, path)
    return votes


def _check_unicode(votes: Votes, path: PathLike) -> None:
    """Refuse half a surrogate pair, written as \\ud800 in JSON and Python: no file or terminal can show it."""
    for names in (votes.classes, votes.items, votes.annotators or ()):
        try:
            "".join(names).encode()
        except UnicodeEncodeError as error:
            broken = f"\\u{ord(error.object[error.start]):04x}"
            raise InputError(f"a name has half a letter ({broken})", where=str(path), hint="Correct the text") from None


def _from_table(path: PathLike, document: Document | None, wanted: Wanted) -> Votes:
    """The votes of a plain table or matrix; a table that was opened already, in search of an export, is read on."""
    if kind_of(path) in ("npy", "npz"):
        if wanted.format == "long":
            raise InputError("NumPy files hold matrices, and no long tables", where=str(path), hint="Write a CSV")
        array = from_array(path, wanted)
        assert array.read_as is not None
        return array.described(_with_suspicions(array.read_as, array, None, wanted))
    opened = document.table if isinstance(document, TableDocument) else open_table(path)
    return _read_table(_listing_classes(opened), wanted)


def _read_table(table: FileTable, wanted: Wanted) -> Votes:
    """The votes of a plain table."""
    table = table.without(wanted.ignore)
    if not table.names:
        raise InputError("no column is left to read", where=str(table.path), hint="Ignore fewer columns")
    layout = find_layout(table, wanted)
    votes, notes = READERS[layout.kind](table, layout, wanted)
    read_as = ReadAs(
        TITLES[layout.kind],
        _roles(layout),
        (*layout.ignored(table), *wanted.ignore),
        (*table.notes, *table.notes_on_numbers, *layout.notes, *notes),
        layout.warnings,
        _unnamed(layout, table, wanted),
    )
    return votes.described(_with_suspicions(read_as, votes, table, wanted))


def _may_be_export(wanted: Wanted, export: str | None) -> bool:
    """Whether the user does not describe a plain table."""
    if wanted.format not in (None, "transposed"):
        return False
    return export is not None or not (wanted.columns or wanted.count is not None)


def _from_export(path: PathLike, document: Document | None, export: str | None, wanted: Wanted) -> Votes | None:
    """The votes of a platform's export; None where no platform wrote the file."""
    if document is None and export is None:
        return None
    votes = read_export(
        path,
        name=export,
        document=document,
        items=wanted.items,
        labels=wanted.labels,
        annotators=wanted.annotators,
        classes=wanted.classes,
        missing=wanted.missing,
        ignore=wanted.ignore,
        duplicates=wanted.duplicates,
        transposed=wanted.format == "transposed",
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
    if layout.transposed:
        named = {"annotator": named["item"]}
    if layout.columns:
        shown = " ".join(layout.columns[:8]) + (f" … ({len(layout.columns)})" if len(layout.columns) > 8 else "")
        what = "items" if layout.transposed else "votes" if layout.anonymous else "annotators"
        named["classes" if layout.kind in ("counts", "ticks") else what] = shown
    return named


def _unnamed(layout: Layout, table: FileTable, wanted: Wanted) -> tuple[str, ...]:
    unnamed = [] if layout.item is not None or layout.transposed else ["items"]
    if layout.kind == "counts" and table.headless and wanted.classes is None:
        unnamed.append("classes")
    return tuple(unnamed)


def _with_suspicions(read_as: ReadAs, votes: Votes, table: FileTable | None, wanted: Wanted) -> ReadAs:
    described = votes.described(read_as)
    return replace(read_as, warnings=(*read_as.warnings, *suspicions(described, table, wanted)))


def classes_file(path: PathLike) -> Path:
    """The file beside a text table with the order of its classes, a JSON list, where that is not the sorted order."""
    return Path(f"{path}.classes.json")


def _listing_classes(table: FileTable) -> FileTable:
    """The table with the classes that the file beside it lists, where it lists none itself."""
    return table if table.classes is not None else replace(table, classes=_sidecar_classes(table.path))


def _from_long(table: FileTable, layout: Layout, wanted: Wanted) -> tuple[Votes, list[str]]:
    chosen = {"item": layout.item, "label": layout.label, "annotator": layout.annotator}
    roles = {role: column for role, column in chosen.items() if column is not None}
    encoded: dict[str, tuple[Ints, Names]] = {}
    for role, name in roles.items():
        encoded[role] = table.encoded(name)
        refuse_lost_rows(table, name, encoded[role][1], encoded[role][0])
    classes = listed_classes(table, wanted)
    if layout.kind == "ticks":
        encoded["label"] = (ticked_labels(table, layout.columns), layout.columns)
        classes = classes or tuple(name for name in layout.columns if not is_missing((name,), wanted).any())
    label, labels = encoded["label"]
    silent, marked = label < 0, np.zeros(len(label), bool)
    if wanted.missing:
        marked = np.append(is_missing(labels, wanted), False)[label]
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
        item, items = without_items(item[rows], items)
        label, people = label[rows], None if people is None else people[rows]
        times = None if times is None else times[rows]
        kept = np.unique(label)
        label, labels = np.searchsorted(kept, label), tuple(labels[code] for code in kept)
    table.forget_cells()
    votes = assemble(
        item,
        items,
        label,
        labels,
        people,
        annotators,
        classes,
        wanted.duplicates,
        lambda vote: table.where(int(rows[vote])),
        times=times,
    )
    return votes, skipped_notes(int((silent & ~marked).sum()), int(marked.sum()), before - len(items))


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
    who = "annotator" if layout.transposed else "item"
    _, *columns = table.columns([layout.item, *layout.columns])
    items, names = table.encoded(layout.item)
    if (empty_id := items < 0).any():
        where = table.where(int(np.argmax(empty_id)))
        raise InputError(f"the {who} is empty", where=where, hint=f"Fill in the column {layout.item!r}")
    refuse_lost_rows(table, layout.item, names, items)
    cells, labels = encode_together(columns, str(table.path))
    for column, name in zip(cells, layout.columns, strict=True):
        refuse_lost_rows(table, name, labels, column)
    marked = np.zeros(cells.shape, bool)
    if wanted.missing:
        marked = np.append(is_missing(labels, wanted), False)[cells]
        cells = np.where(marked, -1, cells)
    silent = (cells < 0).all(0)
    if silent.any() and not wanted.drop_empty and not layout.transposed:
        first = int(np.argmax(silent))
        what = f"item {names[items[first]]!r} has no vote"
        hint = "Drop the row (--drop-empty does), or collect votes for it"
        raise InputError(what, where=table.where(first), hint=hint)
    row, person = np.nonzero(cells.T >= 0)
    if not len(row):
        raise InputError("no cell has a label", where=str(table.path), hint="Check --missing")
    label = cells.T[row, person]
    people: tuple[Ints, Names] | None = None if layout.anonymous else (person, layout.columns)
    item, names = items[row], names
    if layout.transposed:
        people, (item, names) = (item, names), (person, layout.columns)
    before = len(names)
    item, names = without_items(item, names)
    kept = np.unique(label)
    votes = assemble(
        item,
        names,
        np.searchsorted(kept, label),
        tuple(labels[code] for code in kept),
        None if people is None else people[0],
        None if people is None else people[1],
        listed_classes(table, wanted),
        wanted.duplicates,
        lambda vote: table.where(int(row[vote])),
    )
    unknown = [f"who cast the votes is not known: {layout.columns[0]!r} numbers the votes of an item, and no people"]
    return votes, unknown * layout.anonymous + skipped_notes(0, int(marked.sum()), before - len(names))


READERS = {
    "long": _from_long,
    "ticks": _from_long,
    "wide": _from_wide,
    "counts": from_table_of_counts,
    "lists": from_lists,
}


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

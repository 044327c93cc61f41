"""Votes from files: long tables, count matrices and wide tables."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from dissensus.errors import InputError
from dissensus.votes.cells import encode, gaps, numbers
from dissensus.votes.files import PathLike, kind_of
from dissensus.votes.matrices import Matrix, array_matrix, table_matrix
from dissensus.votes.roles import column_error, find, leading_item, listed, looks_like_person
from dissensus.votes.tables import FileTable, open_table
from dissensus.votes.votes import Ints, Votes

Format = Literal["long", "counts", "wide"]
Duplicates = Literal["error", "first", "last", "keep"]


def read_votes(
    path: PathLike,
    *,
    format: Format | None = None,  # noqa: A002  (the name a caller expects)
    item: str | None = None,
    label: str | None = None,
    annotator: str | None = None,
    classes: Sequence[str] | None = None,
    duplicates: Duplicates = "error",
) -> Votes:
    """Votes from a long table (one row per vote), a count matrix, or a wide table (items × annotators).

    CSV, TSV, JSONL and Parquet hold tables; .npy and .npz hold count matrices. Unless `format` gives the layout of a
    table, the first of these rules that fits decides:

    1. A column is called label, annotation, vote, answer, choice, rating … or annotator, worker, user, rater,
       completed_by …, or `label` or `annotator` is given: a **long** table. The item column is called item, task, image,
       example … or, failing those, id, uid …; the annotator column may be absent.
    2. All other columns hold numbers without gaps and are not called `annotator_1`, `rater2` …: a **count** matrix, with
       one column per class.
    3. There is an item column and at least two others, each sharing a label with another or all called `annotator_1`,
       `rater2` …: a **wide** table, with one column per annotator. An empty cell is no vote.
    4. Anything else is refused, and the error lists the columns.

    "Other" means all but the item column: `item`, or the first column if it is called item, task, id … or nothing.

    Names are read exactly as written ("01" stays "01", "NA" is a name), items in order of first appearance. The classes
    are `classes`, or what the file says (Parquet metadata; `votes.csv.classes.json` beside `votes.csv`; the columns of a
    count matrix), or the labels that occur, sorted (as numbers if all are numbers).

    A second vote by the same annotator on the same item is an error, unless `duplicates` says which to keep: the "first",
    the "last", or all of them ("keep").
    """
    check_format(format)
    if duplicates not in get_args(Duplicates):
        raise InputError(f"duplicates {duplicates!r} is not one of {', '.join(get_args(Duplicates))}")
    if format in ("counts", "wide") and (label is not None or annotator is not None):
        raise InputError("only a long table has label and annotator columns", where=str(path), hint="Drop --format")
    if kind_of(path) in ("npy", "npz"):
        if format not in (None, "counts"):
            raise InputError(f"NumPy files hold count matrices, not {format} tables", where=str(path))
        return _from_counts(array_matrix(path), classes)
    table = open_table(path)
    layout = format or _sniff(table, item, label, annotator)
    if layout == "counts":
        return _from_counts(table_matrix(table, item), classes)
    order = tuple(classes) if classes is not None else table.classes or _sidecar_classes(path)
    if layout == "wide":
        return _from_wide(table, item, order, duplicates)
    return _from_long(table, item, label, annotator, order, duplicates)


def check_format(layout: str | None) -> None:
    """Refuse a layout that does not exist."""
    if layout not in (None, *get_args(Format)):
        raise InputError(f"format {layout!r} is not one of {', '.join(get_args(Format))}")


def classes_file(path: PathLike) -> Path:
    """The file beside a text table with the order of its classes, a JSON list, where that is not the sorted order."""
    return Path(f"{path}.classes.json")


def sorted_classes(names: Sequence[str]) -> tuple[str, ...]:
    """Names in the default order of classes: as numbers if all are numbers, else as text.

    >>> sorted_classes(["10", "9", "1"])
    ('1', '9', '10')
    """
    if all(re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", name) for name in names):
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    return tuple(sorted(names))


def _sniff(table: FileTable, item: str | None, label: str | None, annotator: str | None) -> Format:
    if find(table, "label", label) is not None or find(table, "annotator", annotator) is not None:
        return "long"
    leading = leading_item(table, item)
    others = [name for name in table.names if name != leading]
    columns = table.columns(others) if others else []
    people = bool(others) and all(map(looks_like_person, others))
    if columns and not people and all(numbers(column) is not None and not gaps(column).any() for column in columns):
        return "counts"
    if leading is not None and len(others) > 1 and (people or _share_labels(columns, table)):
        return "wide"
    raise column_error(
        table,
        "this is not a long table, a count matrix or a wide table",
        "Name the columns with --item, --label and --annotator, or the layout with --format; "
        "if the first line is already data, add a header above it",
    )


def _share_labels(columns: list[pa.ChunkedArray], table: FileTable) -> bool:
    """Whether every column shares a label with another one: columns of annotators do, columns of texts do not."""
    codes, names = _encode_together(columns, str(table.path))
    pairs = np.unique(np.arange(len(columns))[:, None] * (len(names) + 1) + codes + 1)
    column, label = np.divmod(pairs, len(names) + 1)
    column, label = column[label > 0], label[label > 0]
    shared = np.bincount(label, minlength=len(names) + 1)[label] > 1
    return len(np.unique(column[shared])) == len(columns)


def _encode_together(columns: list[pa.ChunkedArray], where: str) -> tuple[Ints, tuple[str, ...]]:
    """Codes [columns, rows] into one list of names; types may differ (pandas makes a column with gaps float)."""
    encoded = [encode(column, where) for column in columns]
    names = tuple(dict.fromkeys(name for _, own in encoded for name in own))
    code_of = {name: index for index, name in enumerate(names)}
    return np.stack([np.array([*(code_of[name] for name in own), -1])[codes] for codes, own in encoded]), names


def _from_long(
    table: FileTable,
    item: str | None,
    label: str | None,
    annotator: str | None,
    classes: tuple[str, ...] | None,
    duplicates: Duplicates,
) -> Votes:
    roles = {"item": find(table, "item", item), "label": find(table, "label", label)}
    for role, column in roles.items():
        if column is None:
            raise column_error(table, f"no column is known to hold the {role}", f"Pass --{role} with its name")
    roles["annotator"] = find(table, "annotator", annotator)
    chosen = {role: column for role, column in roles.items() if column is not None}
    if len(set(chosen.values())) < len(chosen):
        raise column_error(
            table, "one column cannot be two of item, label and annotator", "Pass --item, --label, --annotator"
        )
    encoded = {}
    for (role, name), column in zip(chosen.items(), table.columns(list(chosen.values())), strict=True):
        codes, names = encode(column, f"{table.path}, column {name!r}")
        if (empty := codes < 0).any():
            where = table.where(int(np.argmax(empty)))
            raise InputError(f"the {role} is empty", where=where, hint=f"Fill in the column {name!r}, or drop the row")
        encoded[role] = codes, names
    people, annotators = encoded.get("annotator", (None, None))
    return _votes(*encoded["item"], *encoded["label"], people, annotators, classes, duplicates, table.where)


def _from_wide(table: FileTable, item: str | None, classes: tuple[str, ...] | None, duplicates: Duplicates) -> Votes:
    leading = leading_item(table, item)
    if leading is None:
        raise column_error(table, "no column is known to hold the items of this wide table", "Pass --item with its name")
    annotators = tuple(name for name in table.names if name != leading)
    if not annotators:
        raise column_error(table, "there is no column of votes", "Write one column per annotator")
    item_column, *columns = table.columns([leading, *annotators])
    items, names = encode(item_column, f"{table.path}, column {leading!r}")
    if (empty := items < 0).any():
        where = table.where(int(np.argmax(empty)))
        raise InputError("the item is empty", where=where, hint=f"Fill in the column {leading!r}")
    cells, labels = _encode_together(columns, str(table.path))
    silent = (cells < 0).all(0)
    if silent.any():
        first = int(np.argmax(silent))
        what = f"item {names[items[first]]!r} has no vote"
        raise InputError(what, where=table.where(first), hint="Drop the row, or collect votes for it")
    row, person = np.nonzero(cells.T >= 0)
    return _votes(
        items[row],
        names,
        cells.T[row, person],
        labels,
        person,
        annotators,
        classes,
        duplicates,
        lambda vote: table.where(int(row[vote])),
    )


def _votes(
    item: Ints,
    items: tuple[str, ...],
    label: Ints,
    labels: tuple[str, ...],
    annotator: Ints | None,
    annotators: tuple[str, ...] | None,
    classes: tuple[str, ...] | None,
    duplicates: Duplicates,
    where: Callable[[int], str],
) -> Votes:
    """Votes from codes; `where` names the row of a vote in messages."""
    classes = classes if classes is not None else sorted_classes(labels)
    position = {name: index for index, name in enumerate(classes)}
    to_class = np.array([position.get(name, -1) for name in labels])
    if (to_class < 0).any():
        vote = int(np.argmax(to_class[label] < 0))
        raise unknown_label(labels[label[vote]], classes, where(vote))
    if annotator is not None and annotators is not None and duplicates != "keep":
        kept = _without_duplicates(item, items, annotator, annotators, duplicates, where)
        if kept is not None:
            item, label, annotator = item[kept], label[kept], annotator[kept]
    arrays = [item, to_class[label], *([] if annotator is None else [annotator])]
    for array in arrays:
        array.flags.writeable = False  # Votes takes frozen arrays without a copy
    return Votes(arrays[0], arrays[1], items, classes, arrays[2] if annotator is not None else None, annotators)


def _without_duplicates(
    item: Ints,
    items: tuple[str, ...],
    annotator: Ints,
    annotators: tuple[str, ...],
    duplicates: Duplicates,
    where: Callable[[int], str],
) -> Ints | None:
    """The votes to keep; None for all of them, which is known after one sort."""
    pair = item * len(annotators) + annotator
    ordered = np.sort(pair)
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    last_first = duplicates == "last"
    _, kept = np.unique(pair[::-1] if last_first else pair, return_index=True)
    kept = np.sort(len(pair) - 1 - kept if last_first else kept)
    if duplicates == "error":
        surplus = np.setdiff1d(np.arange(len(pair)), kept)
        again = int(surplus[0])
        before = int(np.argmax(pair == pair[again]))
        raise InputError(
            f"annotator {annotators[annotator[again]]!r} votes on item {items[item[again]]!r} for the second time "
            f"(first at {where(before)}; {len(surplus)} such rows in all)",
            where=where(again),
            hint="Correct the rows, or pass --duplicates first, last or keep",
        )
    return kept


def unknown_label(label: str, classes: tuple[str, ...], where: str) -> InputError:
    """The error for a label that is not a class; it names the nearest class."""
    near = difflib.get_close_matches(label, classes, n=1)
    guess = f"Did you mean {near[0]!r}? " if near else ""
    return InputError(
        f"label {label!r} is not one of the classes ({listed(classes)})",
        where=where,
        hint=f"{guess}Correct the row, or pass --classes to name the classes yourself",
    )


def _from_counts(matrix: Matrix, classes: Sequence[str] | None) -> Votes:
    counts = matrix.values
    bad = ~np.isfinite(counts) | (counts < 0) | (counts != np.floor(counts))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise InputError(
            f"{counts[row, column]:g} in column {matrix.column(column)} is not a count",
            where=matrix.where(int(row)),
            hint="Write whole numbers from 0 on; if these are probabilities, pass --probs",
        )
    silent = np.flatnonzero(counts.sum(1) == 0)
    if len(silent):
        what = f"this item has no vote ({len(silent)} of {len(counts)} have none)"
        raise InputError(what, where=matrix.where(int(silent[0])), hint="Drop the row, or collect votes for it")
    if classes is not None:
        counts = matrix.for_classes(classes)
    return Votes.from_counts(counts, classes=classes if classes is not None else matrix.classes, items=matrix.ids)


def _sidecar_classes(path: PathLike) -> tuple[str, ...] | None:
    sidecar = classes_file(path)
    if not sidecar.is_file():
        return None
    try:
        classes = json.loads(sidecar.read_text(encoding="utf-8"))
    except ValueError:
        classes = None
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise InputError("this is not a JSON list of class names", where=str(sidecar), hint="Correct or delete it")
    return tuple(classes)

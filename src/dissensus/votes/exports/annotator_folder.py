"""A folder with one table per annotator: the same columns in each, and the file named after the annotator.

What is left when everybody fills in a spreadsheet. Each file needs an item and a label column, found by name as in
any long table; a column that names annotators would contradict the file names and is refused.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from dissensus.errors import InputError
from dissensus.votes.cells import gaps
from dissensus.votes.exports.documents import Document, FolderDocument
from dissensus.votes.exports.reader import Asked, ExportReader, VoteRows, refuse_asked
from dissensus.votes.roles import find, listed
from dissensus.votes.tables import FileTable, open_table

TABLES = (".csv", ".tsv", ".tab", ".parquet", ".pq")


def _recognises(document: Document) -> bool:
    if not isinstance(document, FolderDocument) or len(_tables(document)) < 2:
        return False
    return all(file.suffix.lower() in TABLES for file in _tables(document))


def _tables(document: FolderDocument) -> list[Path]:
    """The files of a folder without a README and a licence."""
    return [file for file in document.files if file.stem.lower() not in ("readme", "license", "licence")]


def _read(document: FolderDocument, asked: Asked) -> VoteRows:
    refuse_asked(asked, "annotators", what="the annotators of a folder are its files", path=document.path)
    items: list[pa.Array] = []
    labels: list[pa.Array] = []
    people: list[str] = []
    places: list[tuple[FileTable, int]] = []
    skipped: Counter[str] = Counter()
    used: tuple[str, str] | None = None
    others: dict[str, None] = {}
    files = _tables(document)
    for file in files:
        table = open_table(file)
        chosen = _columns(table, asked)
        if used not in (None, chosen):
            what = f"the item and label columns are {listed(chosen)} here and {listed(used)} in the files before"
            raise InputError(what, where=str(file), hint="Give all files the same header")
        used = chosen
        others.update(dict.fromkeys(name for name in table.names if name not in chosen))
        item, label = (pa.chunked_array(column).cast(pa.string()).combine_chunks() for column in table.columns(chosen))
        rows = np.flatnonzero(~gaps(pa.chunked_array([label])))
        skipped["rows without a label"] += len(label) - len(rows)
        items.append(item.take(pa.array(rows)))
        labels.append(label.take(pa.array(rows)))
        people.extend([file.stem] * len(rows))
        places.extend((table, int(row)) for row in rows)
        if (empty := gaps(pa.chunked_array([items[-1]]))).any():
            where = table.where(int(rows[np.argmax(empty)]))
            raise InputError("the item is empty", where=where, hint=f"Fill in the column {chosen[0]!r}, or drop the row")
    if used is None:
        raise InputError("there is no table in the folder", where=str(document.path), hint="Write one CSV per annotator")
    repeated = [name for name, times in Counter(file.stem for file in files).items() if times > 1]
    if repeated:
        what = f"two files are called {repeated[0]!r}"
        raise InputError(what, where=str(document.path), hint="Name every file after another annotator")
    return VoteRows(
        "folder with one table per annotator",
        {"item": used[0], "annotator": "the file name", "label": used[1]},
        pa.concat_arrays(items),
        pa.concat_arrays(labels),
        pa.array(people, pa.string()),
        lambda vote: places[vote][0].where(places[vote][1]),
        ignored=tuple(others),
        skipped=skipped,
        notes=(f"{len(files)} files, each by one annotator",),
    )


def _columns(table: FileTable, asked: Asked) -> tuple[str, str]:
    person = find(table, "annotator")
    if person is not None:
        what = f"the column {person!r} names annotators, and so do the names of the files"
        raise InputError(what, where=str(table.path), hint="Join the files into one table")
    item, label = find(table, "item", asked.items), find(table, "label", asked.labels)
    if item is None or label is None or item == label:
        what = f"no column is known to hold the {'item' if item is None else 'label'} (there are: {listed(table.names)})"
        raise InputError(what, where=str(table.path), hint="Pass --items and --labels with the names of the columns")
    return item, label


ANNOTATOR_FOLDER = ExportReader("annotator-folder", "folder with one table per annotator", _recognises, _read)

"""Tables that crowdsourcing libraries work on: crowd-kit's long frame and cleanlab's wide frame.

crowd-kit takes a data frame with the columns `task`, `worker` (`performer` before version 1) and `label`. cleanlab
takes one with a row per example and a column per annotator, whose cells are classes 0, 1, 2 … or NaN; saved by
pandas, the first column is the unnamed index, and the classes beside a NaN are written as floats (1.0). Both are
ordinary long and wide tables: these readers only know the older names, and that 1.0 is class 1 there.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dissensus.errors import InputError
from dissensus.votes.cells import encode, gaps, numbers
from dissensus.votes.evidence import counts_with_gaps
from dissensus.votes.exports.documents import Document, TableDocument
from dissensus.votes.exports.reader import Asked, ExportReader, VoteRows, refuse_asked
from dissensus.votes.exports.table_votes import column_votes
from dissensus.votes.roles import RANKS, plain
from dissensus.votes.votes import Ints

INDEX = ("", "Unnamed: 0", "__index_level_0__")  # how pandas writes an index without a name
MOST_CLASSES = 10_000


def _is_crowd_kit(document: Document) -> bool:
    return isinstance(document, TableDocument) and {"task", "label"} <= set(document.names) and bool(_workers(document))


def _workers(document: TableDocument) -> list[str]:
    return [name for name in ("worker", "performer") if name in document.names]


def _recognises_crowd_kit(document: Document) -> bool:
    """Only by the older name: with `worker` it is a long table like any other, and `read_votes` reads it."""
    return _is_crowd_kit(document) and isinstance(document, TableDocument) and _workers(document) == ["performer"]


def _read_crowd_kit(document: TableDocument, asked: Asked) -> VoteRows:
    worker = asked.annotators or _workers(document)[0]
    columns = {"item": asked.items or "task", "annotator": worker, "label": asked.labels or "label"}
    return column_votes(document, "crowd-kit table", columns)


def _recognises_cleanlab(document: Document) -> bool:
    if not isinstance(document, TableDocument) or len(document.names) < 3 or document.names[0] not in INDEX:
        return False
    if any(plain(name) in rank for name in document.names[1:] for ranks in RANKS.values() for rank in ranks):
        return False  # a column called item, label, worker …: another kind of table
    columns = [_classes(column) for column in document.table.columns(document.names[1:])]
    people = [classes for classes in columns if classes is not None]
    if len(people) < len(columns):
        return False
    cells = np.stack(people, axis=1)
    # Without any gap it may as well be a table of counts.
    return bool((cells < 0).any()) and not counts_with_gaps(np.where(cells < 0, np.nan, cells))


def _classes(column: pa.ChunkedArray) -> Ints | None:
    """The class numbers of one annotator [N], -1 where there is none; None where the column is something else."""
    values = numbers(column)
    if values is None:
        return None
    missing = gaps(column)
    whole = np.isfinite(values) & (values >= 0) & (values < MOST_CLASSES) & (values == np.floor(values))
    classes: Ints = np.where(missing, -1.0, values).astype(np.int64) if (whole | missing).all() else np.empty(0, np.int64)
    looks_like_ids = not missing.any() and len(classes) > 10 and len(np.unique(classes)) == len(classes)
    return None if len(classes) < len(column) or looks_like_ids else classes


def _read_cleanlab(document: TableDocument, asked: Asked) -> VoteRows:
    what = "a cleanlab table has its items in the first column, and one column per annotator (or pass --format wide)"
    refuse_asked(asked, "items", "labels", "annotators", what=what, path=document.path)
    index, *people = document.names
    index_column, *columns = document.table.columns(document.names)
    items, names = encode(index_column, f"{document.path}, column {index!r}")
    if (items < 0).any():
        where = document.where(int(np.argmax(items < 0)))
        raise InputError("the item is empty", where=where, hint="Fill in the first column")
    cells = np.stack([classes for column in columns if (classes := _classes(column)) is not None], axis=1)
    row, person = np.nonzero(cells >= 0)
    return VoteRows(
        "cleanlab wide table",
        {"item": index or "the index", "annotator": f"{len(people)} columns", "label": "their cells"},
        pa.array(np.array(names, dtype=object)[items[row]], pa.string()),
        pa.array(cells[row, person].astype(str), pa.string()),
        pa.array(np.array(people, dtype=object)[person], pa.string()),
        lambda vote: document.where(int(row[vote])),
        skipped={"rows without a label": int((cells < 0).all(1).sum())},
    )


CROWD_KIT = ExportReader("crowd-kit", "crowd-kit table", _recognises_crowd_kit, _read_crowd_kit, accepts=_is_crowd_kit)
CLEANLAB = ExportReader("cleanlab", "cleanlab wide table", _recognises_cleanlab, _read_cleanlab)

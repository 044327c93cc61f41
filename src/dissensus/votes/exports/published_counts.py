"""Published tables of counts whose other columns would mislead: FER+ and the hate speech of Davidson et al.

FER+ (Barsoum et al. 2016): `fer2013new.csv` has `Usage`, `Image name` and the votes of ten taggers for ten classes;
an image that is no face has no name. Davidson et al. (2017): `labeled_data.csv` has an index, `count` (how many
people voted), their votes for `hate_speech`, `offensive_language` and `neither`, the majority as `class`, and
`tweet`. A reader of counts would take `count` and `class` for classes.
"""

from __future__ import annotations

import numpy as np

from dissensus.errors import InputError
from dissensus.votes.cells import encode, first_not_number, numbers
from dissensus.votes.exports.documents import Document, TableDocument
from dissensus.votes.exports.reader import Asked, CountRows, ExportReader, refuse_asked
from dissensus.votes.votes import Floats, Ints

EMOTIONS = (
    "neutral",
    "happiness",
    "surprise",
    "sadness",
    "anger",
    "disgust",
    "fear",
    "contempt",
    "unknown",
    "NF",
)
KNOWN = "the columns of this published table are known (--format counts reads it as any other table)"
SPEECH = ("hate_speech", "offensive_language", "neither")


def _recognises_ferplus(document: Document) -> bool:
    return isinstance(document, TableDocument) and {"Usage", "Image name", *EMOTIONS} <= set(document.names)


def _read_ferplus(document: TableDocument, asked: Asked) -> CountRows:
    refuse_asked(asked, "items", "labels", "annotators", what=KNOWN, path=document.path)
    counts = _counts(document, EMOTIONS)
    (column,) = document.table.columns(["Image name"])
    codes, names = encode(column, f"{document.path}, column 'Image name'")
    kept = (codes >= 0) & (counts.sum(1) > 0)
    skipped = {"images without a name (no face)": int((codes < 0).sum())}
    skipped["images without a vote"] = int(((codes >= 0) & ~kept).sum())
    return _rows(document, "FER+ table", "Image name", codes, names, counts, EMOTIONS, kept, skipped)


def _recognises_davidson(document: Document) -> bool:
    return isinstance(document, TableDocument) and {"count", *SPEECH, "class", "tweet"} <= set(document.names)


def _read_davidson(document: TableDocument, asked: Asked) -> CountRows:
    refuse_asked(asked, "items", "labels", "annotators", what=KNOWN, path=document.path)
    counts, total = _counts(document, SPEECH), _counts(document, ("count",))[:, 0]
    wrong = counts.sum(1) != total
    if wrong.any():
        row = int(np.argmax(wrong))
        what = f"`count` is {total[row]}, and the votes add up to {counts[row].sum()}"
        raise InputError(what, where=document.where(row), hint="Correct the row")
    index = document.names[0]
    if index in ("count", *SPEECH, "class", "tweet"):
        codes, names = np.arange(len(counts)), tuple(map(str, range(len(counts))))
    else:
        (column,) = document.table.columns([index])
        codes, names = encode(column, f"{document.path}, column {index!r}")
        if (codes < 0).any():
            where = document.where(int(np.argmax(codes < 0)))
            raise InputError("the index is empty", where=where, hint="Number the row")
    kept = counts.sum(1) > 0
    skipped = {"rows without a vote": int((~kept).sum())}
    return _rows(document, "Davidson hate speech table", index, codes, names, counts, SPEECH, kept, skipped)


def _counts(document: TableDocument, names: tuple[str, ...]) -> Ints:
    columns: list[Floats] = []
    for name, column in zip(names, document.table.columns(names), strict=True):
        values = numbers(column)
        if values is None:
            where = document.where(first_not_number(column))
            raise InputError(f"a cell of {name!r} is not a number", where=where, hint="Correct the row")
        columns.append(values)
    table = np.stack(columns, axis=1)
    bad = ~np.isfinite(table) | (table < 0) | (table != np.floor(table)) | (table > 2**31)
    if bad.any():
        row, column_index = np.argwhere(bad)[0]
        what = f"{table[row, column_index]:g} in column {names[column_index]!r} is not a count"
        raise InputError(what, where=document.where(int(row)), hint="Write whole numbers from 0 on")
    return table.astype(np.int64)


def _rows(
    document: TableDocument,
    layout: str,
    item: str,
    codes: Ints,
    names: tuple[str, ...],
    counts: Ints,
    classes: tuple[str, ...],
    kept: np.ndarray[tuple[int], np.dtype[np.bool_]],
    skipped: dict[str, int],
) -> CountRows:
    rows = np.flatnonzero(kept)
    if not len(rows):
        raise InputError("there is no vote in it", where=str(document.path), hint="Download the file again")
    if len(np.unique(codes[rows])) < len(rows):
        seen, times = np.unique(codes[rows], return_counts=True)
        twice = names[int(seen[np.argmax(times > 1)])]
        raise InputError(f"the item {twice!r} occurs twice", where=str(document.path), hint="Give every row its own id")
    used = {item, *classes, "count"}
    return CountRows(
        layout,
        {"item": item or "the index", "count": ", ".join(classes)},
        tuple(names[code] for code in codes[rows]),
        counts[rows],
        classes,
        lambda row: document.where(int(rows[row])),
        ignored=tuple(name for name in document.names if name not in used),
        skipped=skipped,
    )


FER_PLUS = ExportReader("ferplus", "FER+ table", _recognises_ferplus, _read_ferplus)
DAVIDSON = ExportReader("davidson", "Davidson hate speech table", _recognises_davidson, _read_davidson)

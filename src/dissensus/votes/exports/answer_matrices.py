"""Matrices of answers: one line per item, one number per annotator, and a number that means "no answer".

So the crowds of Rodrigues & Pereira (2018) are published: `answers.txt` of LabelMe has 1,000 lines of 59 numbers, -1
where an annotator did not see the image. The same matrix may be a CSV without a header or a tensor. Only -1 is taken
for "no answer" without asking: 0 may as well be the first class, so `--missing 0` has to say it. A matrix without any
-1 in a CSV is an ordinary table of counts, and no business of this reader.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from dissensus.errors import InputError
from dissensus.votes.exports.documents import Document, NumbersDocument, TensorDocument
from dissensus.votes.exports.reader import Asked, CountRows, ExportReader, VoteRows, refuse_asked
from dissensus.votes.files import row_of_array
from dissensus.votes.votes import Ints, row_names

COLUMNS = {"item": "the row", "annotator": "the column", "label": "the number"}


def _recognises(document: Document) -> bool:
    if not isinstance(document, NumbersDocument):
        return False
    if document.extension == ".txt":
        return True
    try:
        return b"-1" in document.content and bool((document.matrix == -1).any())
    except InputError:  # only its first line is one of a matrix: an ordinary table without a header
        return False


def _read(document: NumbersDocument, asked: Asked) -> VoteRows:
    return _votes(document.matrix, document.path, asked)


def _votes(matrix: Ints, path: Path, asked: Asked) -> VoteRows:
    refuse_asked(asked, "items", "labels", "annotators", what="a matrix of answers has no columns with names", path=path)
    missing = {int(name) for name in asked.missing if name.lstrip("-").isdecimal() and len(name) < 19}
    if not missing:
        if not (matrix == -1).any():
            raise InputError(
                "every cell is a number from 0 on, and 0 may be a class or no answer",
                where=str(path),
                hint="Pass --missing 0 if 0 is no answer, --missing -1 if every cell is one, or --format counts",
            )
        missing = {-1}
    answered = ~np.isin(matrix, list(missing))
    if (matrix[answered] < 0).any():
        first = int(np.argmax(((matrix < 0) & answered).any(1)))
        what = (
            f"{matrix[first][answered[first]].min()} is neither a class nor one of the numbers for no answer ({missing})"
        )
        raise InputError(what, where=row_of_array(path, first), hint="Pass --missing with all of them: --missing -1,-2")
    row, person = np.nonzero(answered)
    n, people = matrix.shape
    silent = int((~answered).all(0).sum())
    return VoteRows(
        "matrix of answers",
        COLUMNS,
        pa.array(np.array(row_names(n), dtype=object)[row], pa.string()),
        pa.array(matrix[row, person].astype(str), pa.string()),
        pa.array(np.array(row_names(people), dtype=object)[person], pa.string()),
        lambda vote: row_of_array(path, int(row[vote])),
        skipped={"rows without an answer": int((~answered).all(1).sum()), "annotators without an answer": silent},
        notes=(f"{', '.join(map(str, sorted(missing)))} means no answer",),
        unnamed=("items", "classes"),
    )


def _recognises_tensor(document: Document) -> bool:
    return isinstance(document, TensorDocument) and not isinstance(document.value, dict)


def _read_tensor(document: TensorDocument, asked: Asked) -> VoteRows | CountRows:
    path, matrix = document.path, document.value
    assert not isinstance(matrix, dict), "only such a document is recognised"
    if matrix.ndim != 2 or matrix.dtype.kind not in "iu" or not matrix.size:
        what = f"a tensor of shape {tuple(matrix.shape)} and type {matrix.dtype} is no matrix of whole numbers"
        raise InputError(
            what, where=str(path), hint="Save counts [items, classes], or answers [items, annotators] with -1"
        )
    refuse_asked(asked, "items", "labels", "annotators", what="a tensor has no columns with names", path=path)
    matrix = matrix.astype(np.int64)
    if (matrix < 0).any() or asked.missing:
        return _votes(matrix, path, asked)
    votes = matrix.sum(1)
    if (votes == 0).any():
        where = row_of_array(path, int(np.argmax(votes == 0)))
        raise InputError("this item has no vote", where=where, hint="Drop the row, or collect votes for it")
    n, k = matrix.shape
    where = str(path)
    return CountRows(
        "tensor of counts",
        {},
        row_names(n),
        matrix,
        row_names(k),
        lambda row: f"{where}, row {row}",
        unnamed=("items", "classes"),
    )


def _is_numbers(document: Document) -> bool:
    return isinstance(document, NumbersDocument)


ANSWER_MATRIX = ExportReader("answer-matrix", "matrix of answers", _recognises, _read, accepts=_is_numbers)
TORCH_MATRIX = ExportReader("torch", "torch tensor", _recognises_tensor, _read_tensor)

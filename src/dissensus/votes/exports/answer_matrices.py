"""Matrices of answers: one line per item, one number per annotator, and a number that means "no answer".

So the crowds of Rodrigues & Pereira (2018) are published: `answers.txt` of LabelMe has 1,000 lines of 59 numbers, -1
where an annotator did not see the image. The same matrix may be a CSV without a header or a tensor. Only -1 is taken
for "no answer" without asking: 0 may as well be the first class, so `--missing 0` has to say it. A matrix without any
-1 in a CSV is an ordinary table of counts, and no business of this reader.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dissensus.errors import InputError
from dissensus.votes.evidence import counts_or_ratings
from dissensus.votes.exports.documents import NO_NUMBER, Document, NumbersDocument, TensorDocument
from dissensus.votes.exports.reader import Asked, CountRows, ExportReader, VoteRows, refuse_asked
from dissensus.votes.files import PathLike, row_of_array
from dissensus.votes.votes import Ints, row_names

COLUMNS = {"item": "the row", "annotator": "the column", "label": "the number"}
TRANSPOSED = {"item": "the column", "annotator": "the row", "label": "the number"}
MANY_LINES = 10


def _recognises(document: Document) -> bool:
    if not isinstance(document, NumbersDocument):
        return False
    if document.extension == ".txt":
        return True
    try:
        marked = b"-1" in document.content or b"nan" in document.content.lower()
        return marked and bool(np.isin(document.matrix, (-1, NO_NUMBER)).any())
    except InputError:  # only its first line is one of a matrix: an ordinary table without a header
        return False


def _read(document: NumbersDocument, asked: Asked) -> VoteRows:
    if not asked.missing:
        _refuse_triples(document.matrix, document.path)
    return answers_in(document.matrix, document.path, asked)


def _refuse_triples(matrix: Ints, path: Path) -> None:
    """Refuse lines of three numbers that may be one vote each: no two lines have the same annotator and item."""
    n, k = matrix.shape
    if k != 3 or n < MANY_LINES:
        return
    pairs = ((0, 1), (0, 2), (1, 2))
    if any(len(np.unique(matrix[:, pair], axis=0)) == n for pair in pairs):
        raise InputError(
            "there are three numbers per line: one vote (item, annotator, label), or the answers of three people?",
            where=str(path),
            hint="If a line is one vote, write a CSV with the header item,annotator,label; otherwise pass --missing -1",
        )


def answers_in(matrix: Ints, path: Path, asked: Asked) -> VoteRows:
    """The votes in a matrix [items, annotators], or the other way round if `asked` says so; NO_NUMBER is no answer."""
    if asked.transposed:
        matrix = matrix.T
    refuse_asked(asked, "items", "labels", "annotators", what="a matrix of answers has no columns with names", path=path)
    missing = {int(name) for name in asked.missing if name.lstrip("-").isdecimal() and len(name) < 19}
    if (matrix == NO_NUMBER).any():
        missing.add(NO_NUMBER)
        missing |= {-1} if (matrix == -1).any() and not asked.missing else set()
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
    shown = ", ".join("nan" if mark == NO_NUMBER else str(mark) for mark in sorted(missing))
    silent = int((~answered).all(0).sum())
    return VoteRows(
        "matrix of answers",
        TRANSPOSED if asked.transposed else COLUMNS,
        pa.array(np.array(row_names(n), dtype=object)[row], pa.string()),
        pa.array(matrix[row, person].astype(str), pa.string()),
        pa.array(np.array(row_names(people), dtype=object)[person], pa.string()),
        lambda vote: row_of_array(path, int(row[vote])),
        skipped={"rows without an answer": int((~answered).all(1).sum()), "annotators without an answer": silent},
        notes=(f"{shown} means no answer",),
        unnamed=("items", "classes"),
    )


def _recognises_tensor(document: Document) -> bool:
    return isinstance(document, TensorDocument) and not isinstance(document.value, dict)


def _read_tensor(document: TensorDocument, asked: Asked) -> VoteRows | CountRows:
    path, found = document.path, document.value
    assert not isinstance(found, dict), "only such a document is recognised"
    matrix = whole_matrix(found)
    if matrix is None:
        what = f"a tensor of shape {tuple(found.shape)} and type {found.dtype} is no matrix of whole numbers"
        raise InputError(
            what, where=str(path), hint="Save counts [items, classes], or answers [items, annotators] with -1"
        )
    refuse_asked(asked, "items", "labels", "annotators", what="a tensor has no columns with names", path=path)
    if (matrix < 0).any() or asked.missing or asked.transposed:
        return answers_in(matrix, path, asked)
    refuse_ratings(matrix, path, "Pass --missing -1 if every column is a person; otherwise save the counts as .npy")
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


def whole_matrix(values: NDArray[Any]) -> Ints | None:
    """A matrix of whole numbers, also where they are floats, with NO_NUMBER for nan; None where it is something else."""
    if values.ndim != 2 or values.dtype.kind not in "iuf" or not values.size:
        return None
    if values.dtype.kind != "f":
        return values.astype(np.int64) if values.min() > -(2**53) and values.max() < 2**53 else None
    gaps = np.isnan(values)
    filled = np.where(gaps, 0, values)
    if not (np.isfinite(filled) & (filled == np.floor(filled)) & (np.abs(filled) < 2**53)).all():
        return None
    return np.where(gaps, NO_NUMBER, filled.astype(np.int64))


def refuse_ratings(matrix: Ints, path: PathLike, hint: str) -> None:
    """Refuse an array without names that looks like what people said, and not like counts of classes."""
    kind, reason = counts_or_ratings(matrix)
    if kind == "wide":
        raise InputError(f"these numbers look like what people said: {reason}", where=str(path), hint=hint)


def _is_numbers(document: Document) -> bool:
    return isinstance(document, NumbersDocument)


ANSWER_MATRIX = ExportReader("answer-matrix", "matrix of answers", _recognises, _read, accepts=_is_numbers)
TORCH_MATRIX = ExportReader("torch", "torch tensor", _recognises_tensor, _read_tensor)

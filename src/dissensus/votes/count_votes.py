"""Votes from matrices: counts [items, classes] in tables and arrays, and answers [items, annotators] in arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dissensus.errors import InputError
from dissensus.votes.decisions import Layout, Wanted
from dissensus.votes.evidence import FEW_ROWS, counts_or_ratings
from dissensus.votes.exports import read_answers
from dissensus.votes.exports.answer_matrices import whole_matrix
from dissensus.votes.exports.documents import NO_NUMBER
from dissensus.votes.files import PathLike
from dissensus.votes.kept_votes import skipped_notes
from dissensus.votes.matrices import Matrix, array_matrix, table_matrix
from dissensus.votes.read_as import ReadAs
from dissensus.votes.tables import FileTable
from dissensus.votes.votes import MOST_VOTES, Votes, row_names

RARE = 0.05
EITHER = "Pass --format wide if every column is a person, or --format counts if every column is a class"


def from_table_of_counts(table: FileTable, layout: Layout, wanted: Wanted) -> tuple[Votes, list[str]]:
    """The votes of a table of counts, and what was left out."""
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
        hint = "Write whole numbers from 0 on; if these are probabilities, pass --probs (score, fit, compare, plan)"
        if counts[row, column] == -1:
            hint += "; if every column is a person and -1 is no vote, pass --format wide --missing -1"
        elif np.isnan(counts[row, column]):
            hint = "If every column is a person and NaN is no vote, pass --format wide --missing NaN,nan"
        elif matrix.classes is not None and (counts % 1 == 0).all(0).sum() == counts.shape[1] - 1:
            hint += f"; if {matrix.column(column)} is no class, pass --ignore {matrix.classes[column]}"
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
    return Votes.from_counts(counts, classes=matrix.classes, items=ids), skipped_notes(0, 0, len(silent))


def from_array(path: PathLike, wanted: Wanted) -> Votes:
    """The votes of a NumPy file, which holds counts, or answers where -1 or the user says so."""
    matrix = array_matrix(path)
    if (answers := _answers(matrix, wanted)) is not None:
        return answers
    named = matrix.classes is not None or wanted.format is not None
    kind, reason = ("counts", "") if named else counts_or_ratings(matrix.values)
    if kind == "wide":
        what = f"these numbers look like what people said: {reason}"
        raise InputError(what, where=str(path), hint=EITHER)
    unnamed = ["items"] * (matrix.ids is None) + ["classes"] * (matrix.classes is None and wanted.classes is None)
    if wanted.classes is not None:
        matrix = matrix.with_classes(wanted.classes)
    votes, notes = _from_counts(matrix, wanted)
    clear = kind == "counts" or matrix.classes is not None
    doubt = () if clear else (f"{reason}: read as counts of classes (--format wide reads one column per person)",)
    read_as = ReadAs("count matrix", notes=(*matrix.notes, *notes), warnings=doubt, unnamed=tuple(unnamed))
    return votes.described(read_as)


def _answers(matrix: Matrix, wanted: Wanted) -> Votes | None:
    """The votes of an array with one column per annotator; None for counts. Numbers without names may be either."""
    whole = whole_matrix(matrix.values)
    told = wanted.format in ("wide", "transposed")
    if whole is None or wanted.format == "counts" or (matrix.classes is not None and not told):
        if told:
            what = "a matrix of answers has whole numbers"
            raise InputError(what, where=str(matrix.path), hint="Write fractions as text, in a CSV")
        return None
    marked = np.isin(whole, (-1, NO_NUMBER))
    if not told and (len(whole) < FEW_ROWS or marked.mean() < RARE):  # one -1 among many counts is damage
        return None
    if matrix.ids is not None or matrix.classes is not None:
        what = "a matrix of answers is read without the names of its rows and columns"
        raise InputError(what, where=str(matrix.path), hint="Write a wide table as CSV or Parquet")
    return read_answers(
        whole,
        matrix.path,
        classes=wanted.classes,
        missing=wanted.missing,
        duplicates=wanted.duplicates,
        transposed=wanted.format == "transposed",
    )

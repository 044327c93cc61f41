"""CrowdFlower, later Figure Eight and Appen: the full report of a job, one row per judgment.

From published full reports and the platform's guide. Columns that begin with `_` belong to the platform: `_unit_id`,
`_worker_id`, `_golden` (a test question), `_tainted` (by a worker whom the platform stopped trusting). Of the others,
some were uploaded with the unit and some are answers; an answer `X` has a known one beside it, `X_gold`, where the job
has test questions. The aggregated report has one row per unit and `X:confidence` instead of the judgments.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from dissensus.errors import InputError
from dissensus.votes.exports.documents import Document, TableDocument
from dissensus.votes.exports.reader import Asked, ExportReader, VoteRows, choose_question
from dissensus.votes.exports.table_votes import Mask, column_votes, equals, text_column

UNIT, WORKER, TAINTED = "_unit_id", "_worker_id", "_tainted"
TEST_QUESTION = ("_golden", "orig__golden")
GOLD, CONFIDENCE = "_gold", ":confidence"
FEW_ANSWERS = 20  # so many different answers are classes, however few judgments there are


def _recognises(document: Document) -> bool:
    if not isinstance(document, TableDocument) or UNIT not in document.names:
        return False
    return WORKER in document.names or any(name.endswith(CONFIDENCE) for name in document.names)


def _read(document: TableDocument, asked: Asked) -> VoteRows:
    if WORKER not in document.names and asked.annotators is None:
        what = "this is an aggregated report: it has one label per unit and not the judgments"
        raise InputError(what, where=str(document.path), hint="Download the full report of the job")
    questions = _questions(document, asked.labels)
    question = choose_question(
        {name: _not_single(document, name) for name in questions}, asked.labels, str(document.path)
    )
    columns = {"item": asked.items or UNIT, "annotator": asked.annotators or WORKER, "label": question}
    skip, notes = _skip(document, question)
    return column_votes(document, "CrowdFlower full report", columns, skip=skip, notes=notes)


def _questions(document: TableDocument, asked: str | None) -> list[str]:
    """The columns of answers: those with a known answer beside them, else those that differ within a unit."""
    own = [
        name
        for name in document.names
        if not name.startswith(("_", "orig__")) and not name.endswith((GOLD, f"{GOLD}_reason", CONFIDENCE))
    ]
    judged = [name for name in own if name + GOLD in document.names] or [
        name for name in own if _differs_within_units(document, name)
    ]
    answered = [name for name in judged if not equals(text_column(document, name), "").all()]
    return [*answered, asked] if asked in document.names and asked not in answered else answered


def _differs_within_units(document: TableDocument, name: str) -> bool:
    """Whether two judgments of one unit differ in a column: what was uploaded with the unit does not."""
    units, values = (_codes(document, column) for column in (UNIT, name))
    pairs = np.unique(units * (int(values.max(initial=0)) + 1) + values)
    return len(pairs) > len(np.unique(units))


def _codes(document: TableDocument, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(pc.dictionary_encode(text_column(document, name)).indices, dtype=np.int64)


def _not_single(document: TableDocument, name: str) -> str | None:
    answers = text_column(document, name)
    if pc.any(pc.match_substring(answers, "\n")).as_py():
        return "several choices, or a text of several lines"
    given = answers.filter(pc.not_equal(answers, ""))
    different = pc.count_distinct(given).as_py()
    return "a free text" if different > max(FEW_ANSWERS, len(given) / 2) else None


def _skip(document: TableDocument, question: str) -> tuple[dict[str, Mask], tuple[str, ...]]:
    """Rows that are no votes, and what to say of those that might not be."""
    skip: dict[str, Mask] = {}
    notes: tuple[str, ...] = ()
    marked = [equals(text_column(document, name), "true", "1") for name in TEST_QUESTION if name in document.names]
    known = ~equals(text_column(document, question + GOLD), "") if question + GOLD in document.names else None
    if marked:
        skip["judgments on test questions"] = np.logical_or.reduce(marked)
    elif known is not None and known.all():
        notes = (f"every unit has a known answer in {question + GOLD!r}: none is taken for a test question",)
    elif known is not None:
        skip["judgments on test questions"] = known
    if TAINTED in document.names:
        skip["tainted judgments"] = equals(text_column(document, TAINTED), "true", "1")
    return skip, notes


CROWDFLOWER = ExportReader("crowdflower", "a CrowdFlower report", _recognises, _read)

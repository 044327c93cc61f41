"""Toloka: the TSV of a pool's results, and the data frame that toloka-kit makes of it.

From Toloka's own client (`get_assignments_df`) and the code around crowd-kit. One row per answered task: `INPUT:…` is
what was shown, `OUTPUT:…` what was answered, `GOLDEN:…` the known answer of a control task, `HINT:…` the hint of a
training task; `ASSIGNMENT:worker_id`, `ASSIGNMENT:task_id` and `ASSIGNMENT:status` (SUBMITTED, APPROVED or ACCEPTED,
REJECTED, SKIPPED, EXPIRED, ACTIVE) belong to the assignment.
"""

from __future__ import annotations

import pyarrow.compute as pc

from dissensus.errors import InputError
from dissensus.votes.exports.documents import Document, TableDocument
from dissensus.votes.exports.reader import Asked, ExportReader, VoteRows, choose_question
from dissensus.votes.exports.table_votes import Mask, column_votes, equals, text_column
from dissensus.votes.roles import listed

WORKER, TASK, STATUS = "ASSIGNMENT:worker_id", "ASSIGNMENT:task_id", "ASSIGNMENT:status"
NOT_VOTES = ("rejected", "skipped", "expired", "active")


def _recognises(document: Document) -> bool:
    if not isinstance(document, TableDocument) or WORKER not in document.names:
        return False
    return any(name.startswith("OUTPUT:") for name in document.names)


def _read(document: TableDocument, asked: Asked) -> VoteRows:
    outputs = [name for name in document.names if name.startswith("OUTPUT:")]
    labels = f"OUTPUT:{asked.labels}" if f"OUTPUT:{asked.labels}" in outputs else asked.labels
    answered = [name for name in outputs if name == labels or not equals(text_column(document, name), "").all()]
    kinds = {name: _not_single(document, name) for name in answered}
    question = choose_question(kinds, labels, str(document.path), unit="output")
    columns = {"item": _item(document, asked.items), "annotator": asked.annotators or WORKER, "label": question}
    return column_votes(document, "Toloka table", columns, skip=_skip(document))


def _item(document: TableDocument, asked: str | None) -> str:
    inputs = [name for name in document.names if name.startswith("INPUT:")]
    if asked is not None:
        return f"INPUT:{asked}" if f"INPUT:{asked}" in inputs else asked
    if len(inputs) == 1:
        return inputs[0]
    if TASK in document.names:
        return TASK
    what = f"a task has {len(inputs)} inputs ({listed(inputs)}) and no {TASK}"
    raise InputError(what, where=str(document.path), hint="Pass --items with the input that names the item")


def _skip(document: TableDocument) -> dict[str, Mask]:
    skip: dict[str, Mask] = {}
    if STATUS in document.names:
        status = text_column(document, STATUS)
        skip = {f"{state} assignments": equals(status, state) for state in NOT_VOTES}
    for kind, reason in (("GOLDEN:", "answers to control tasks"), ("HINT:", "answers to training tasks")):
        filled = [~equals(text_column(document, name), "") for name in document.names if name.startswith(kind)]
        if filled:
            skip[reason] = filled[0] if len(filled) == 1 else sum(filled[1:], filled[0])
    return skip


def _not_single(document: TableDocument, name: str) -> str | None:
    first = pc.utf8_slice_codeunits(text_column(document, name), 0, 1)
    return "lists, areas or objects" if equals(first, "[", "{").any() else None


TOLOKA = ExportReader("toloka", "Toloka table", _recognises, _read)

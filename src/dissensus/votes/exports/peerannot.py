"""peerannot: `answers.json`, {task: {worker: class}}.

From peerannot's documentation: the keys are the tasks (0, 1, 2 …) and the workers, the values the class numbers. A
data frame that pandas wrote as JSON looks the same, {column: {row: value}}, and so does a table of people's
properties; so only whole numbers are recognised, and what could as well be columns is refused.
"""

from __future__ import annotations

from typing import Any

from dissensus.errors import InputError
from dissensus.votes.exports.documents import Document, JsonDocument, Place
from dissensus.votes.exports.reader import Asked, ExportReader, VoteList, VoteRows, needed, refuse_asked


def _recognises(document: Document) -> bool:
    tasks = document.value if isinstance(document, JsonDocument) else None
    if not isinstance(tasks, dict) or not tasks or not all(isinstance(answers, dict) for answers in tasks.values()):
        return False
    labels = [label for answers in tasks.values() for label in answers.values()]
    return bool(labels) and all(type(label) is int for label in labels)


def _read(document: JsonDocument, asked: Asked) -> VoteRows:
    what = "an answers.json has tasks and workers only"
    refuse_asked(asked, "items", "labels", "annotators", what=what, path=document.path)
    _refuse_columns(document.value, str(document.path))
    votes = VoteList()
    for index, (task, answers) in enumerate(document.value.items()):
        place = Place(document, index)
        if not answers:
            votes.skip("tasks without an answer")
        for worker, label in answers.items():
            item, person = needed(task, "task", place), needed(worker, "worker", place)
            if asked.transposed:
                item, person = person, item
            votes.add(item, needed(label, "label", place), person, place)
    columns = {"item": "task", "annotator": "worker", "label": "label"}
    if asked.transposed:
        columns = {"item": "the inner key", "annotator": "the outer key", "label": "label"}
    return votes.rows("peerannot answers", columns)


def _refuse_columns(tasks: dict[str, dict[str, Any]], path: str) -> None:
    """Refuse {column: {row: value}}: names outside, and inside the same row numbers 0, 1, 2 … every time."""
    rows = [list(answers) for answers in tasks.values()]
    numbered = rows[0] == [str(index) for index in range(len(rows[0]))] and all(names == rows[0] for names in rows)
    if numbered and len(rows[0]) > 1 and not all(task.lstrip("-").isdigit() for task in tasks):
        raise InputError(
            f"cannot tell tasks and workers from columns and rows ({', '.join(list(tasks)[:5])})",
            where=path,
            hint='Write one record per row (pandas: orient="records"), or give the tasks numbers as peerannot does',
        )


PEERANNOT = ExportReader("peerannot", "peerannot answers.json", _recognises, _read)

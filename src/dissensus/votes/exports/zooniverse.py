"""Zooniverse: the classification export of a project or workflow.

From the platform's export guide and from code that reads such files. One row per classification: `user_name`,
`subject_ids`, `workflow_id`, `gold_standard`, and `annotations`, a JSON list of `{"task": "T0", "task_label": …,
"value": …}`. The value of a question with one answer is the answer as text; several answers, drawings, surveys and
drop-down menus are lists; a combined task holds a list of tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from dissensus.errors import InputError
from dissensus.votes.exports.documents import Document, Place, Record, TableDocument, parse_json
from dissensus.votes.exports.reader import (
    Asked,
    ExportReader,
    VoteList,
    VoteRows,
    choose_question,
    name_of,
    needed,
)

USER, SUBJECT, WORKFLOW, ANSWERS = "user_name", "subject_ids", "workflow_id", "annotations"
AGAIN = "Export the classifications again"


class _Classification(NamedTuple):
    """A row of the table, and its answers by `WORKFLOW.TASK`: workflows use the same names of tasks."""

    place: Place
    record: Record
    answers: dict[str, Any]
    titles: dict[str, str]


def _recognises(document: Document) -> bool:
    return isinstance(document, TableDocument) and {USER, SUBJECT, WORKFLOW, ANSWERS} <= set(document.names)


def _read(document: TableDocument, asked: Asked) -> VoteRows:
    columns = {"item": asked.items or SUBJECT, "annotator": asked.annotators or USER}
    for role, name in columns.items():
        if name not in document.names:
            raise InputError(f"there is no column {name!r}", where=str(document.path), hint=f"Leave --{role}s away")
    votes = VoteList()
    rows: list[_Classification] = []
    for place, record in document.records():
        if str(record.get("gold_standard")).lower() == "true":
            votes.skip("gold-standard classifications")
        else:
            rows.append(_classification(place, record))
    titles = {name: title for row in reversed(rows) for name, title in row.titles.items()}
    tasks = {name: _not_single(name, rows) for name in dict.fromkeys(name for row in rows for name in row.answers)}
    task = choose_question(tasks, _whole(asked.labels, list(tasks)), str(document.path), unit="task")
    for place, record, answers, _ in rows:
        label = name_of(answers.get(task), f"answer to {task}", place)
        if label is None:
            votes.skip("classifications without an answer" if task in answers else "classifications without this task")
        else:
            item = needed(record[columns["item"]], f"item (column {columns['item']!r})", place)
            votes.add(item, label, name_of(record[columns["annotator"]], "user", place), place)
    return votes.rows(
        "Zooniverse classifications",
        columns | {"label": task},
        ignored=tuple(name for name in tasks if name != task),
        notes=(f"task {task} asks {titles[task]!r}",) if titles.get(task) else (),
    )


def _classification(place: Place, record: Record) -> _Classification:
    answers, titles = dict[str, Any](), dict[str, str]()
    for task in _tasks(parse_json(str(record[ANSWERS] or "[]"), str(place)), place):
        name = f"{needed(record[WORKFLOW], 'workflow', place)}.{needed(task['task'], 'name of a task', place)}"
        if name in answers:
            raise InputError(f"task {name} is answered twice", where=str(place), hint=AGAIN)
        answers[name] = task.get("value")
        titles[name] = str(task.get("task_label") or "")
    return _Classification(place, record, answers, titles)


def _tasks(tasks: Any, place: Place) -> Iterator[dict[str, Any]]:
    if not isinstance(tasks, list) or not all(isinstance(task, dict) and "task" in task for task in tasks):
        raise InputError(f"{ANSWERS} is not a list of tasks", where=str(place), hint=AGAIN)
    for task in tasks:
        parts = task.get("value")
        if isinstance(parts, list) and any(isinstance(part, dict) and "task" in part for part in parts):
            yield from _tasks(parts, place)  # of a combined task
        else:
            yield task


def _whole(asked: str | None, tasks: list[str]) -> str | None:
    """A task as the user may write it: `1234.T0`, or `T0` where one workflow has it."""
    found = [name for name in tasks if name.partition(".")[2] == asked]
    return found[0] if len(found) == 1 else asked


def _not_single(task: str, rows: list[_Classification]) -> str | None:
    values = [row.answers[task] for row in rows if task in row.answers]
    if any(isinstance(value, list) and all(isinstance(part, str) for part in value) and value for value in values):
        return "several choices"
    return "drawings, menus or surveys" if any(isinstance(value, (list, dict)) for value in values) else None


ZOONIVERSE = ExportReader("zooniverse", "Zooniverse classifications", _recognises, _read)

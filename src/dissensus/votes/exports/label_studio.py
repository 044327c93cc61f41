"""Label Studio: its JSON (tasks with annotations), and its JSON-MIN, CSV and TSV (one row per annotation).

From Label Studio's page on the task format and from the converter that its export button calls. In the JSON, a task
has `id`, `data`, `annotations` (`completions` in old versions), `predictions` and `drafts`; an annotation has
`completed_by` (an id, or an object with `email`), `was_cancelled`, and `result`: one entry per control tag, named by
`from_name`, whose `value` holds `choices`, `rating` or `selected`. JSON-MIN and CSV have one row per annotation, with
the fields of `data`, then `id`, one field per control tag, then `annotator`, `annotation_id`, `created_at`,
`updated_at`, `lead_time`; a choice is a string there, several choices are an object, regions are a list. Cancelled
annotations are left out of both.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import Any

from dissensus.errors import InputError
from dissensus.votes.exports.documents import (
    Document,
    JsonDocument,
    LinesDocument,
    Place,
    Record,
    TableDocument,
    head_of,
    parse_json,
)
from dissensus.votes.exports.reader import (
    Asked,
    ExportReader,
    VoteList,
    VoteRows,
    choose_question,
    field_of,
    name_of,
    needed,
    refuse_asked,
    required,
)

ALWAYS = ("annotator", "annotation_id", "created_at", "updated_at", "lead_time")
NEVER_LABELS = frozenset((*ALWAYS, "id", "agreement", "history"))
SINGLE = {"choices": "choices", "rating": "rating", "pairwise": "selected"}  # type of a result -> field of its value
NOT_SINGLE = {
    "labels": "spans of text",
    "hypertextlabels": "spans of text",
    "paragraphlabels": "spans of text",
    "timeserieslabels": "spans of time",
    "rectanglelabels": "boxes",
    "ellipselabels": "regions",
    "polygonlabels": "regions",
    "brushlabels": "regions",
    "keypointlabels": "points",
    "textarea": "free text",
    "ranker": "a ranking",
    "taxonomy": "paths in a taxonomy",
    "number": "a number",
    "datetime": "a date",
}


def _annotations(task: Record) -> Any:
    return task.get("annotations", task.get("completions"))


def _recognises_tasks(document: Document) -> bool:
    return any(map(_is_task, head_of(document)))


def _is_task(record: Record) -> bool:
    annotations = _annotations(record)
    has_data = isinstance(annotations, list) and isinstance(record.get("data"), dict)
    return has_data and all(isinstance(entry, dict) and "result" in entry for entry in annotations)


def _read_tasks(document: JsonDocument | LinesDocument, asked: Asked) -> VoteRows:
    refuse_asked(asked, "annotators", what="an annotation names its own annotator", path=document.path)
    votes = VoteList()
    entries: list[
        tuple[Place, str, str | None, dict[str, list[Record]]]
    ] = []  # place, item, annotator, results by question
    ground_truth = 0
    for place, task in document.records():
        votes.skip("predictions by models", len(_list(task.get("predictions"), "predictions", place)))
        votes.skip("drafts", len(_list(task.get("drafts"), "drafts", place)))
        annotations = _list(
            required(task, "completions" if "completions" in task else "annotations", place), "annotations", place
        )
        if not annotations:
            votes.skip("tasks without an annotation")
            continue
        item = needed(_item(task, asked.items, place), "item", place)
        for annotation in annotations:
            if not isinstance(annotation, dict):
                raise InputError("an annotation is not an object", where=str(place), hint="Export the file again")
            if annotation.get("was_cancelled") or annotation.get("skipped"):
                votes.skip("cancelled annotations")
                continue
            ground_truth += bool(annotation.get("ground_truth"))
            entries.append((place, item, _person(annotation.get("completed_by"), place), _by_question(annotation, place)))
    question = choose_question(_kinds(entries), asked.labels, str(document.path))
    for place, item, person, results in entries:
        label = None if question not in results else _choice(results[question][0], question, place)
        if label is None:
            votes.skip(f"annotations without an answer to {question!r}")
        else:
            votes.add(item, label, person, place)
    others = tuple(dict.fromkeys(name for *_, results in entries for name in results if name != question))
    marked = (
        (f"{ground_truth:,} annotations are marked as ground truth and count like the others",) if ground_truth else ()
    )
    columns = {"item": asked.items or "id", "annotator": "completed_by", "label": question}
    return votes.rows("Label Studio JSON", columns, ignored=others, notes=marked)


def _list(value: Any, what: str, place: Place) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise InputError(f"{what} is not a list", where=str(place), hint="Export the file again")
    return value


def _item(task: Record, asked: str | None, place: Place) -> Any:
    if asked is None:
        return task.get("id", task.get("inner_id"))
    value = field_of(task, asked)
    value = field_of(task["data"], asked) if value is None and isinstance(task.get("data"), dict) else value
    if value is None:
        hint = "Pass --items with `id` or a field of the task's data"
        raise InputError(f"the task has no field {asked!r}", where=str(place), hint=hint)
    return value


def _person(person: Any, place: Place) -> str | None:
    """Who annotated: an id, or an object with an address."""
    if isinstance(person, dict):
        person = person.get("email") or person.get("id")
    return name_of(person, "annotator", place)


def _by_question(annotation: Record, place: Place) -> dict[str, list[Record]]:
    results: dict[str, list[Record]] = defaultdict(list)
    for result in _list(required(annotation, "result", place), "result", place):
        if not isinstance(result, dict):
            raise InputError("a result is not an object", where=str(place), hint="Export the file again")
        if result.get("type") == "relation":  # between two regions; it answers no question
            continue
        name = needed(result.get("from_name"), "from_name of a result", place)
        results[name].append(result)
    return dict(results)


def _kinds(entries: list[tuple[Place, str, str | None, dict[str, list[Record]]]]) -> dict[str, str | None]:
    """Each question, with the reason why it is no single choice."""
    kinds: dict[str, str | None] = {}
    for *_, by_question in entries:
        for name, results in by_question.items():
            if kinds.get(name) is None:
                kinds[name] = _not_single(results)
    return kinds


def _not_single(results: list[Record]) -> str | None:
    kind, value = str(results[0].get("type")), results[0].get("value")
    if kind not in SINGLE:
        return NOT_SINGLE.get(kind, f"answers of type {kind!r}")
    if not isinstance(value, dict) or SINGLE[kind] not in value:
        return f"answers of type {kind!r} without a value"
    if set(value) - {SINGLE[kind]}:
        return "one choice per region"
    if len(results) > 1:
        return "several choices per task"
    if kind == "choices":
        choices = value["choices"]
        if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
            return "nested choices"
        if len(choices) > 1:
            return "several choices per task"
    return None


def _choice(result: Record, question: str, place: Place) -> str | None:
    answer = result["value"][SINGLE[result["type"]]]
    if isinstance(answer, list):
        answer = answer[0] if answer else None
    return name_of(answer, f"answer to {question!r}", place)


def _recognises_rows(document: Document) -> bool:
    return any(all(name in record for name in ALWAYS) for record in head_of(document, tables=True))


def _read_rows(document: JsonDocument | LinesDocument | TableDocument, asked: Asked) -> VoteRows:
    votes, answered = VoteList(), []
    for place, record in document.records():
        if required(record, "annotation_id", place) in (None, ""):
            votes.skip("tasks without an annotation")
        else:
            answered.append((place, record))
    question = choose_question(_questions(answered, asked, document), asked.labels, str(document.path))
    item_field, person_field = asked.items or "id", asked.annotators or "annotator"
    for place, record in answered:
        label, _ = _cell(record.get(question))
        if (label := name_of(label, f"answer to {question!r}", place)) is None:
            votes.skip(f"annotations without an answer to {question!r}")
            continue
        item = needed(field_of(record, item_field), f"item (field {item_field!r})", place)
        votes.add(item, label, _person(required(record, person_field, place), place), place)
    layout = "Label Studio CSV" if isinstance(document, TableDocument) else "Label Studio JSON-MIN"
    used = {item_field, person_field, question, *ALWAYS}
    others = tuple(dict.fromkeys(name for _, record in answered for name in record if name not in used))
    columns = {"item": item_field, "annotator": person_field, "label": question}
    return votes.rows(layout, columns, ignored=others)


def _questions(answered: list[tuple[Place, Record]], asked: Asked, document: Document) -> dict[str, str | None]:
    """The fields that can hold answers. JSON-MIN writes them after `id`, and the data of the task before it."""
    fields: dict[str, None] = {}
    for _, record in answered:
        names = list(record)
        if "id" in record and not isinstance(document, TableDocument):
            names = names[names.index("id") + 1 :]
        fields.update(dict.fromkeys(name for name in names if name not in NEVER_LABELS))
    kinds = {name: next((why for _, record in answered if (why := _cell(record.get(name))[1])), None) for name in fields}
    if asked.labels is None and len(kinds) > 1:
        answers = {name: reason for name, reason in kinds.items() if not _is_data(name, answered)}
        return answers or kinds
    return kinds


def _is_data(name: str, answered: list[tuple[Place, Record]]) -> bool:
    """Whether a field is clearly data of the task: the same in all annotations of a task, and mostly new in the next."""
    by_task: dict[str, set[str]] = defaultdict(set)
    for _, record in answered:
        by_task[str(record.get("id"))].add(str(record.get(name)))
    values = set().union(*by_task.values())
    return all(len(seen) == 1 for seen in by_task.values()) and len(values) > len(by_task) / 2


def _cell(value: Any) -> tuple[Any, str | None]:
    """An answer as JSON-MIN and CSV write it, and the reason why it is no single choice."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(InputError):
            value = parse_json(value, "")
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict) and len(value[0]) == 1:
        value = next((value[0][name] for name in ("rating", "selected") if name in value[0]), value)
    if isinstance(value, dict):
        return None, "several choices per task" if "choices" in value else "regions"
    return (None, "several answers per task, or regions") if isinstance(value, list) else (value, None)


def _recognises(document: Document) -> bool:
    return _recognises_tasks(document) or _recognises_rows(document)


def _read(document: JsonDocument | LinesDocument | TableDocument, asked: Asked) -> VoteRows:
    if not isinstance(document, TableDocument) and _recognises_tasks(document):
        return _read_tasks(document, asked)
    return _read_rows(document, asked)


LABEL_STUDIO = ExportReader("label-studio", "Label Studio JSON, JSON-MIN or CSV", _recognises, _read)

"""SageMaker Ground Truth: the answers of all workers, as they are handed to the function that merges them.

From the platform's developer guide. A JSON list of data objects: `datasetObjectId`, `dataObject` (`content` or `s3Uri`)
and `annotations`, each with a `workerId` and `annotationData.content`, which is JSON as text. What a form element wrote
stands there under its name: `{"crowd-classifier": {"label": "cat"}}`, or one true or false per radio button. The output
manifest of a job has one merged label per object instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dissensus.errors import InputError
from dissensus.votes.exports.documents import Document, JsonDocument, LinesDocument, Place, Record, head_of, parse_json
from dissensus.votes.exports.reader import (
    Asked,
    ExportReader,
    VoteList,
    VoteRows,
    choose_question,
    name_of,
    needed,
    not_single_choice,
    refuse_asked,
    required,
)

OBJECT, WORKER = "datasetObjectId", "workerId"
AGAIN = "Copy the file of annotations from the job's output again"
Answered = list[tuple[Place, str, str | None, dict[str, Any]]]  # place, item, worker, answers by name


def _recognises(document: Document) -> bool:
    head = head_of(document)
    return bool(head) and all(OBJECT in record and "annotations" in record for record in head)


def _read(document: JsonDocument | LinesDocument, asked: Asked) -> VoteRows:
    what = "the item of a Ground Truth file is its datasetObjectId, and the annotator its workerId"
    refuse_asked(asked, "items", "annotators", what=what, path=document.path)
    rows: Answered = []
    for place, record in document.records():
        item = needed(required(record, OBJECT, place), OBJECT, place)
        for entry in _entries(required(record, "annotations", place), place):
            rows.append((place, item, name_of(entry.get(WORKER), WORKER, place), _answers(entry, place)))
    names = dict.fromkeys(name for *_, answers in rows for name in answers)
    questions = {name: _not_single(name, rows) for name in names}
    question = choose_question(questions, asked.labels, str(document.path))
    votes = VoteList()
    for place, item, worker, answers in rows:
        label = _label(answers.get(question), question, place)
        if label is None:
            votes.skip("annotations without an answer")
        else:
            votes.add(item, label, worker, place)
    return votes.rows(
        "Ground Truth annotations",
        {"item": OBJECT, "annotator": WORKER, "label": question},
        classes=_options(answers.get(question) for *_, answers in rows),
        ignored=tuple(name for name in questions if name != question),
    )


def _entries(annotations: Any, place: Place) -> list[Record]:
    if not isinstance(annotations, list) or not all(isinstance(entry, dict) for entry in annotations):
        raise InputError("the annotations are not a list of objects", where=str(place), hint=AGAIN)
    return annotations


def _answers(entry: Record, place: Place) -> dict[str, Any]:
    """What a worker answered: text by `NAME` or `NAME.label`, ticks by `NAME`."""
    data = entry.get("annotationData")
    content = data.get("content") if isinstance(data, dict) else None
    if not isinstance(content, str):
        what = "an annotation holds no answer itself (annotationData.content)"
        raise InputError(what, where=str(place), hint="Put the files that annotationData.s3Uri names into content")
    form = parse_json(content, str(place))
    if not isinstance(form, dict):
        raise InputError("an answer is not a JSON object", where=str(place), hint=AGAIN)
    return dict(_flat(form))


def _flat(form: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in form.items():
        if isinstance(value, dict) and not _are_ticks(value):
            yield from ((f"{name}.{part}", answer) for part, answer in value.items())
        else:
            yield name, value


def _are_ticks(value: dict[str, Any]) -> bool:
    return bool(value) and all(isinstance(tick, bool) for tick in value.values())


def _not_single(name: str, rows: Answered) -> str | None:
    values = [answers[name] for *_, answers in rows if name in answers]
    if any(isinstance(value, list) and value and all(isinstance(part, str) for part in value) for value in values):
        return "several choices"
    whole = (isinstance(value, dict) and _are_ticks(value) for value in values)
    if any(isinstance(value, (list, dict)) for value in values) and not all(whole):
        return "lists, boxes or objects"
    return None


def _options(values: Iterable[Any]) -> tuple[str, ...] | None:
    """All radio buttons of a question, also those that nobody ticked; None where its answers are text."""
    return tuple(dict.fromkeys(option for value in values if isinstance(value, dict) for option in value)) or None


def _label(value: Any, question: str, place: Place) -> str | None:
    if not isinstance(value, dict):
        return name_of(value, f"answer to {question!r}", place)
    chosen = [label for label, tick in value.items() if tick]
    if len(chosen) > 1:
        raise not_single_choice(f"{len(chosen)} options of {question!r} are true: several choices", str(place))
    return needed(chosen[0], f"option of {question!r}", place) if chosen else None


SAGEMAKER = ExportReader("sagemaker", "Ground Truth annotations", _recognises, _read)

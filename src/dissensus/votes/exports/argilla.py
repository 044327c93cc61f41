"""Argilla 2: records with the responses of several users, nested or flattened.

From the code behind `rg.Dataset.records`. `to_json` writes a list of records with `id`, `fields`, `suggestions` and
`responses`: {question: [{"value", "user_id", "status"}]}; early versions leave `status` out. `to_datasets`, `to_list(
flatten=True)` and a data set on the Hugging Face Hub (Parquet, JSONL) have three list columns per question:
`label.responses`, `label.responses.users` and `label.responses.status`, beside `label.suggestion`. A status is
submitted, draft, discarded or pending; only submitted responses are votes. Suggestions come from models and are none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissensus.errors import InputError
from dissensus.votes.exports.documents import Document, JsonDocument, LinesDocument, Place, Record, TableDocument, head_of
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

FLAT, USERS, STATUS = ".responses", ".responses.users", ".responses.status"
Response = tuple[Any, Any, Any]  # value, user, status


def _flat_questions(record: Record) -> list[str]:
    names = [name.removesuffix(FLAT) for name in record if name.endswith(FLAT)]
    return [name for name in names if name and name + USERS in record]


def _recognises(document: Document) -> bool:
    return any(map(_is_argilla, head_of(document, tables=True)))


def _is_argilla(record: Record) -> bool:
    responses = record.get("responses")
    nested = isinstance(responses, dict) and "fields" in record and all(isinstance(x, list) for x in responses.values())
    return nested or bool(_flat_questions(record))


def _read(document: JsonDocument | LinesDocument | TableDocument, asked: Asked) -> VoteRows:
    flat = list(dict.fromkeys(name for record in document.head for name in _flat_questions(record)))
    refuse_asked(asked, "annotators", what="a response names its own user", path=document.path)
    votes = VoteList()
    answers: list[tuple[Place, str, str, Response]] = []
    kinds: dict[str, str | None] = {}
    statuses: set[str] = set()
    for place, record in document.records():
        by_question = dict(_flat_responses(record, flat, place) if flat else _nested_responses(record, place))
        if not any(by_question.values()):
            votes.skip("records without a response")
            continue
        item = needed(field_of(record, asked.items or "id"), f"item (field {asked.items or 'id'!r})", place)
        for question, responses in by_question.items():
            for response in responses:
                answers.append((place, item, question, response))
                if kinds.setdefault(question) is None:
                    kinds[question] = _not_single(response[0])
    question = choose_question(kinds, asked.labels, str(document.path))
    for place, item, asked_question, (value, user, status) in answers:
        if asked_question != question:
            continue
        state = name_of(status, "status", place) or "unknown"
        statuses.add(state)
        label = name_of(value, f"response to {question!r}", place)
        if state not in ("submitted", "unknown"):
            votes.skip(f"{state} responses")
        elif label is None:
            votes.skip("responses without a value")
        else:
            votes.add(item, label, name_of(user, "user", place), place)
    warnings = ("some responses have no status: they count as submitted",) if "unknown" in statuses else ()
    notes = ("only submitted responses count",) if statuses != {"unknown"} else ()
    columns = {"item": asked.items or "id", "annotator": "user_id", "label": question}
    if flat:
        columns |= {"annotator": question + USERS, "label": question + FLAT}
    others = tuple(name for name in kinds if name != question)
    return votes.rows("Argilla records", columns, ignored=others, notes=notes, warnings=warnings)


def _flat_responses(record: Record, questions: list[str], place: Place) -> Iterator[tuple[str, list[Response]]]:
    for question in questions:
        names = (question + FLAT, question + USERS)
        values, users = (_cells(required(record, name, place), name, place) for name in names)
        status = _cells(record.get(question + STATUS), question + STATUS, place) or [None] * len(values)
        if not len(values) == len(users) == len(status):
            what = f"{question!r} has {len(values)} responses, {len(users)} users and {len(status)} statuses"
            raise InputError(what, where=str(place), hint="Export the records again")
        yield question, list(zip(values, users, status, strict=True))


def _cells(value: Any, name: str, place: Place) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        hint = "Export the records as Parquet or JSONL: a CSV cannot hold lists"
        raise InputError(f"{name!r} is not a list", where=str(place), hint=hint)
    return value


def _nested_responses(record: Record, place: Place) -> Iterator[tuple[str, list[Response]]]:
    responses = required(record, "responses", place)
    if responses is None:
        return
    if not isinstance(responses, dict):
        raise InputError("responses is not an object", where=str(place), hint="Export the records again")
    for question, entries in responses.items():
        listed: list[Response] = []
        for entry in _cells(entries, question, place):
            if not isinstance(entry, dict) or "value" not in entry:
                raise InputError(f"a response to {question!r} has no value", where=str(place), hint="Export again")
            listed.append((entry["value"], entry.get("user_id"), entry.get("status")))
        yield question, listed


def _not_single(value: Any) -> str | None:
    if isinstance(value, list):
        parts = value[0] if value else None
        if isinstance(parts, dict):
            return "a ranking" if "rank" in parts else "spans of text"
        return "several labels per record"
    return "structured answers" if isinstance(value, dict) else None


ARGILLA = ExportReader("argilla", "Argilla records", _recognises, _read)

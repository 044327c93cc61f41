"""Prodigy: the JSONL that `prodigy db-out` writes, one answered task per line.

From Prodigy's page on annotation interfaces. A task has `_input_hash` (of the input), `_task_hash` (of the input and
the question), `answer` (accept, reject or ignore), and who answered: `_annotator_id`, or `_session_id` in old
versions. The choice interface adds `options` (each with an `id`) and `accept`, the ids that were chosen. A binary
task has a `label`: to accept it is a vote for the label, to reject it a vote against. `ignore` is no vote in either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dissensus.errors import InputError
from dissensus.votes.exports.documents import Document, JsonDocument, LinesDocument, Place, Record, head_of
from dissensus.votes.exports.reader import (
    Asked,
    ExportReader,
    VoteList,
    VoteRows,
    choose_question,
    field_of,
    name_of,
    needed,
    not_single_choice,
    required,
)

ANSWERS = ("accept", "reject", "ignore")
BY_TIME = re.compile(r"\d{4}-\d{2}-\d{2}_\d{2}-\d{2}-\d{2}")  # the name of a session that nobody named


def _recognises(document: Document) -> bool:
    return any("answer" in task and ("_input_hash" in task or "_task_hash" in task) for task in head_of(document))


def _read(document: JsonDocument | LinesDocument, asked: Asked) -> VoteRows:
    tasks = list(document.records())
    for place, task in tasks:
        if task.get("_view_id") == "review" or "versions" in task:
            raise InputError(
                "these are reviewed tasks: one answer per item, decided after the votes",
                where=str(place),
                hint="Export the data sets that were reviewed",
            )
    if any("accept" in task or "options" in task for _, task in tasks):
        return _read_choices(tasks, asked)
    return _read_binary(document, tasks, asked)


def _read_choices(tasks: list[tuple[Place, Record]], asked: Asked) -> VoteRows:
    if asked.labels not in (None, "accept"):
        hint = "Leave --labels away: a choice task has one question"
        raise InputError(f"there is no question {asked.labels!r}", where=str(tasks[0][0]), hint=hint)
    votes = VoteList()
    options: dict[str, None] = {}
    several_allowed = False
    for place, task in tasks:
        for option in _list(task.get("options"), "options", place):
            identity = option.get("id", option.get("text")) if isinstance(option, dict) else option
            options[needed(identity, "id of an option", place)] = None
        several_allowed |= isinstance(config := task.get("config"), dict) and config.get("choice_style") == "multiple"
        answer = _answer(task, place)
        chosen = _list(required(task, "accept", place) if answer == "accept" else task.get("accept"), "accept", place)
        if answer != "accept":
            votes.skip("ignored tasks" if answer == "ignore" else "rejected tasks (no option was right)")
        elif not chosen:
            votes.skip("accepted tasks without a choice")
        elif len(chosen) > 1:
            raise not_single_choice(f"{len(chosen)} options are accepted: several choices per task", str(place))
        else:
            votes.add(
                _item(task, asked, place), needed(chosen[0], "accepted option", place), _person(task, asked, place), place
            )
    unlisted = sorted(set(votes.labels) - set(options))
    columns = {"item": asked.items or _hash(tasks), "annotator": asked.annotators or "_annotator_id", "label": "accept"}
    warnings = _session_warnings(votes)
    if several_allowed:
        warnings += ("the interface allowed several choices; everybody made one",)
    classes = (*options, *unlisted) if options else None
    return votes.rows("Prodigy choices", columns, classes=classes, warnings=warnings)


def _read_binary(document: JsonDocument | LinesDocument, tasks: list[tuple[Place, Record]], asked: Asked) -> VoteRows:
    votes = VoteList()
    kinds: dict[str, str | None] = {}
    for place, task in tasks:
        if (label := name_of(task.get("label"), "label", place)) is not None:
            kinds[label] = None
        elif task.get("spans") or task.get("relations") or "tokens" in task:
            raise not_single_choice("these are spans or relations, not choices", str(place))
    question = choose_question(kinds, asked.labels, str(document.path), unit="label")
    against = f"not {question}"
    if against in kinds:
        raise InputError(f"both {question!r} and {against!r} are labels", where=str(document.path), hint="Rename one")
    for place, task in tasks:
        answer, label = _answer(task, place), needed(task.get("label"), "label", place)
        if label != question:
            votes.skip(f"tasks about another label than {question!r}")
        elif task.get("spans"):
            raise not_single_choice("this task is about a span of text, not about the whole item", str(place))
        elif answer == "ignore":
            votes.skip("ignored tasks")
        else:
            vote = question if answer == "accept" else against
            votes.add(_item(task, asked, place), vote, _person(task, asked, place), place)
    columns = {"item": asked.items or _hash(tasks), "annotator": asked.annotators or "_annotator_id", "label": "answer"}
    note = f"a rejected {question!r} counts as a vote for {against!r}"
    return votes.rows(
        "Prodigy binary", columns, classes=(question, against), notes=(note,), warnings=_session_warnings(votes)
    )


def _answer(task: Mapping[str, Any], place: Place) -> str:
    answer = task.get("answer")
    if answer not in ANSWERS:
        what = f"the answer is {answer!r}, not one of {', '.join(ANSWERS)}"
        raise InputError(what, where=str(place), hint="Export the data set again with `prodigy db-out`")
    return str(answer)


def _hash(tasks: list[tuple[Place, Record]]) -> str:
    return "_input_hash" if all("_input_hash" in task for _, task in tasks) else "_task_hash"


def _item(task: Record, asked: Asked, place: Place) -> str:
    if asked.items is not None:
        return needed(field_of(task, asked.items), f"item (field {asked.items!r})", place)
    return needed(task.get("_input_hash", task.get("_task_hash")), "item (_input_hash)", place)


def _person(task: Record, asked: Asked, place: Place) -> str | None:
    if asked.annotators is not None:
        return needed(field_of(task, asked.annotators), f"annotator (field {asked.annotators!r})", place)
    return name_of(task.get("_annotator_id", task.get("_session_id")), "annotator", place)


def _session_warnings(votes: VoteList) -> tuple[str, ...]:
    if any(person is not None and BY_TIME.search(person) for person in votes.annotators):
        return ("some annotators are sessions named by their time: one person may have several",)
    return ()


def _list(value: Any, what: str, place: Place) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise InputError(f"{what} is not a list", where=str(place), hint="Export the data set again")
    return value


PRODIGY = ExportReader("prodigy", "Prodigy JSONL", _recognises, _read)

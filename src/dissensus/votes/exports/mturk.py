"""Amazon Mechanical Turk: the batch results CSV of the requester site.

From the requester guide and from code that reads such files. One row per assignment: `HITId`, `WorkerId`,
`AssignmentStatus` (Submitted, Approved, Rejected), `Input.…` as uploaded, `Answer.…` as answered, and the columns
`Approve` and `Reject` in which a requester notes a decision. A classifier of Crowd HTML writes
`Answer.category.label`; a group of radio buttons or check boxes writes one column of true and false per option
(`Answer.topic.sport`), or `Answer.sport` or `Answer.sport.on` where each has a name of its own; newer
batches have one column `Answer.taskAnswers` with all of it as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
    not_single_choice,
)
from dissensus.votes.roles import listed

ANSWER, JSON_ANSWERS = "Answer.", "Answer.taskAnswers"
COUNTED = (None, "Submitted", "Approved")
TICKS = (("true", "false"), ("1", "0"), ("on", "off"), ("yes", "no"))
FEW_ROWS = 4  # in which exactly one tick may be chance
Answers = dict[str, Any]  # by name, as "category.label"
Options = dict[str, str]  # the label that a tick under each name of an answer stands for


def _recognises(document: Document) -> bool:
    if not isinstance(document, TableDocument) or _worker_field(document) is None:
        return False
    has_task = "HITId" in document.names or any(name.startswith("Input.") for name in document.names)
    return has_task and any(name.startswith(ANSWER) for name in document.names)


def _read(document: TableDocument, asked: Asked) -> VoteRows:
    votes = VoteList()
    item_field = _item_field(document, asked.items)
    worker_field = asked.annotators or _worker_field(document)
    if worker_field is None or worker_field not in document.names:
        raise InputError(f"there is no column {worker_field!r}", where=str(document.path), hint="Leave --annotators away")
    rows: list[tuple[Place, Record, Answers]] = []
    for place, record in document.records():
        if record.get("AssignmentStatus") not in COUNTED or record.get("Reject") is not None:
            votes.skip("rejected assignments")
        else:
            rows.append((place, record, dict(_answers(record, place))))
    questions = _questions(rows)
    question = choose_question(
        {name: _not_single(name, options, rows) for name, options in questions.items()},
        _short(asked.labels, questions),
        str(document.path),
    )
    for place, record, answers in rows:
        label = _label(question, questions[question], answers, place)
        if label is None:
            votes.skip("assignments without an answer")
        else:
            item = needed(record[item_field], f"item (column {item_field!r})", place)
            votes.add(item, label, name_of(record[worker_field], "worker", place), place)
    columns = {"item": item_field, "annotator": worker_field, "label": ANSWER + question}
    others = tuple(ANSWER + name for name in questions if name != question)
    classes = tuple(questions[question].values()) or None
    ticks = questions[question]
    said = (f"every answer has exactly one tick in {listed(tuple(ticks))}: read as one question",) if ticks else ()
    return votes.rows("MTurk results", columns, ignored=others, classes=classes, notes=said)


def _worker_field(document: TableDocument) -> str | None:
    """`WorkerId`; published files also write `WorkerID`."""
    return next((name for name in document.names if name.lower() == "workerid"), None)


def _item_field(document: TableDocument, asked: str | None) -> str:
    inputs = [name for name in document.names if name.startswith("Input.")]
    if asked is not None:
        chosen = f"Input.{asked}" if f"Input.{asked}" in inputs else asked
        if chosen not in document.names:
            raise InputError(f"there is no column {asked!r}", where=str(document.path), hint="Pass --items Input.…")
        return chosen
    if "HITId" in document.names:
        return "HITId"
    if len(inputs) == 1 or "Input.id" in inputs:
        return "Input.id" if "Input.id" in inputs else inputs[0]
    what = f"there is no HITId, and there are {len(inputs)} inputs ({', '.join(inputs[:8])})"
    raise InputError(what, where=str(document.path), hint="Pass --items with the input that names the item")


def _answers(record: Record, place: Place) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if name == JSON_ANSWERS:
            if value is not None:
                yield from _json_answers(str(value), place)
        elif name.startswith(ANSWER):
            yield name.removeprefix(ANSWER), value


def _json_answers(text: str, place: Place) -> Iterator[tuple[str, Any]]:
    forms = parse_json(text, str(place))
    if not isinstance(forms, list) or len(forms) != 1 or not isinstance(forms[0], dict):
        raise InputError(f"{JSON_ANSWERS} is not a list of one form", where=str(place), hint="Download the results again")
    for name, value in forms[0].items():
        if isinstance(value, dict):
            yield from ((f"{name}.{part}", answer) for part, answer in value.items())
        else:
            yield name, value


def _questions(rows: list[tuple[Place, Record, Answers]]) -> dict[str, Options]:
    """Each question with its options, where there is one true or false per option; {} where the answer is a text.

    Options share the name of their question: `topic.sport`, `topic.music.rock`. Ticks that share none are one question
    where every row has exactly one.
    """
    values: dict[str, set[str]] = {}
    for _, _, answers in rows:
        for name, value in answers.items():
            values.setdefault(name, set()).add(str(value).lower())
    by_row = [answers for _, _, answers in rows]
    found: dict[str, Options] = {}
    left = [name for name, seen in values.items() if any(seen <= {*pair, "none"} for pair in TICKS) and seen != {"none"}]
    for cut in (str.partition, str.rpartition):
        for head in dict.fromkeys(cut(name, ".")[0] for name in left if "." in name):
            group = [name for name in values if cut(name, ".")[0] == head and cut(name, ".")[2]]
            group = [name for name in group if name in left or values[name] == {"none"}]
            boxes = cut is str.rpartition and all(values[name] <= {"true", "false", "none"} for name in group)
            if len(group) > 1 and (boxes or _one_each(group, by_row)):
                found[head] = {name: name.removeprefix(f"{head}.") for name in group}
                left = [name for name in left if name not in group]
    for alone in ([name for name in left if "." not in name], [name for name in left if "." in name]):
        if len(alone) > 1 and _one_each(alone, by_row):
            ends = {name.rpartition(".")[2] for name in alone}
            options = {name: name.rpartition(".")[0] or name if len(ends) == 1 else name for name in alone}
            found["+".join(options.values())] = options
    ticks = {name for options in found.values() for name in options}
    return found | {name: {} for name, seen in values.items() if name not in ticks and seen != {"none"}}


def _one_each(names: list[str], rows: list[Answers]) -> bool:
    """Whether every row has exactly one tick under these names, if it says anything under them: not by chance."""
    ticks = [sum(_ticked(answers.get(name)) for name in names) for answers in rows if any(map(answers.get, names))]
    return len(ticks) >= FEW_ROWS and set(ticks) == {1}


def _ticked(value: Any) -> bool:
    return str(value).lower() in {yes for yes, _ in TICKS}


def _short(asked: str | None, questions: dict[str, Options]) -> str | None:
    """A question as the user may write it: `Answer.category.label`, `category.label` or `category`."""
    if asked is None:
        return None
    name = asked.removeprefix(ANSWER)
    return f"{name}.label" if name not in questions and f"{name}.label" in questions else name


def _not_single(name: str, options: Options, rows: list[tuple[Place, Record, Answers]]) -> str | None:
    values = [answers.get(name) for _, _, answers in rows] if not options else []
    if any(isinstance(value, (list, dict)) or str(value).lstrip()[:1] in ("[", "{") for value in values):
        return "lists, regions or objects"
    single = {str(value) for value in values if value is not None and "|" not in str(value)}
    joined = [str(value).split("|") for value in values if value is not None and "|" in str(value)]
    return "several choices, joined by |" if any(set(parts) & single for parts in joined) else None


def _label(question: str, options: Options, answers: Answers, place: Place) -> str | None:
    if not options:
        return name_of(answers.get(question), f"answer to {question!r}", place)
    chosen = [label for name, label in options.items() if _ticked(answers.get(name))]
    if len(chosen) > 1:
        raise not_single_choice(f"{len(chosen)} options of {question!r} are true: several choices", str(place))
    return chosen[0] if chosen else None


MTURK = ExportReader("mturk", "MTurk results", _recognises, _read)

"""doccano: the JSONL of a classification project, from one file or from a folder with one file per user.

From doccano's export code and its tests. A line has `id`, `text` (or `filename`), `label`, a list (`cats` in an
intent project, `labels` in old versions), and `Comments`. A project whose members annotate apart is exported as an
archive with `USERNAME.jsonl` per member: unpack it and name the folder. A project that shares annotations is exported
as one `all.jsonl` in which the labels of everybody are merged: who voted how is lost, so a list of several labels is
refused. Very old versions list `annotations` with `label` and `user`. A span is [start, end, name].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dissensus.errors import InputError
from dissensus.votes.exports.documents import (
    Document,
    FolderDocument,
    JsonDocument,
    LinesDocument,
    Place,
    Record,
    head_of,
    open_document,
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
    not_single_choice,
    refuse_asked,
    required,
)

LABELS = ("label", "labels", "cats")
USERS = ("user", "annotator", "username")
MARKS = ("Comments", "comments", "annotation_approver", *USERS)  # a plain list of votes has none of them
Entry = tuple[Place, Record, str | None]  # a line and who annotated it


def _is_doccano(record: Record, *, in_folder: bool = False) -> bool:
    if not any(name in record for name in ("text", "data", "filename", "id")):
        return False
    if isinstance(annotations := record.get("annotations"), list):
        return bool(annotations) and all(
            isinstance(entry, dict) and {"label", "user"} <= set(entry) for entry in annotations
        )
    has_list = any(isinstance(record.get(name), list) for name in LABELS)
    return has_list and (in_folder or any(name in record for name in MARKS))


def _files(folder: FolderDocument) -> list[LinesDocument | JsonDocument]:
    """The JSONL files of a folder; [] where it holds anything else."""
    if not folder.files or any(file.suffix.lower() not in (".jsonl", ".json") for file in folder.files):
        return []
    opened = [open_document(file) for file in folder.files]
    files = [file for file in opened if isinstance(file, (LinesDocument, JsonDocument))]
    return files if len(files) == len(opened) else []


def _recognises(document: Document) -> bool:
    if isinstance(document, FolderDocument):
        files = _files(document)
        return bool(files) and all(any(_is_doccano(record, in_folder=True) for record in file.head) for file in files)
    return any(map(_is_doccano, head_of(document)))


def _read(document: FolderDocument | JsonDocument | LinesDocument, asked: Asked) -> VoteRows:
    votes = VoteList()
    entries = list(_entries(document, asked))
    fields = [name for name in LABELS if any(name in record for _, record, _ in entries)]
    question = choose_question(dict.fromkeys(fields or ["annotations"]), asked.labels, str(document.path), unit="field")
    item_field = asked.items or ("id" if any("id" in record for _, record, _ in entries) else "text")
    if isinstance(document, FolderDocument) and item_field == "id":
        _check_ids(entries)
    for place, record, person in entries:
        item = needed(field_of(record, item_field), f"item (field {item_field!r})", place)
        found = list(_labels(record, question, person, place))
        if not found:
            votes.skip("examples without a label")
        for label, voter in found:
            votes.add(item, label, voter, place)
    others = dict.fromkeys(name for _, record, _ in entries for name in record if name not in (item_field, question))
    who = "file" if isinstance(document, FolderDocument) else next((name for name in USERS if name in others), "user")
    columns = {"item": item_field, "annotator": asked.annotators or who, "label": question}
    ignored = tuple(name for name in others if name != columns["annotator"])
    return votes.rows("doccano JSONL", columns, ignored=ignored)


def _entries(document: FolderDocument | JsonDocument | LinesDocument, asked: Asked) -> Iterator[Entry]:
    if isinstance(document, FolderDocument):
        refuse_asked(asked, "annotators", what="the annotators of a folder are its files", path=document.path)
        for file in _files(document):
            for place, record in file.records():
                yield place, record, file.path.stem
        return
    for place, record in document.records():
        if asked.annotators is not None:
            yield place, record, needed(field_of(record, asked.annotators), f"annotator ({asked.annotators!r})", place)
        else:
            named = (name_of(record.get(field), "annotator", place) for field in USERS)
            yield place, record, next((name for name in named if name is not None), None)


def _check_ids(entries: list[Entry]) -> None:
    """Refuse an id that stands for another text in another file."""
    texts: dict[str, str] = {}
    for place, record, _ in entries:
        name, text = needed(required(record, "id", place), "id", place), str(record.get("text"))
        if texts.setdefault(name, text) != text:
            hint = "Pass --items text to match the examples by their text"
            raise InputError(f"the id {name} has another text in another file", where=str(place), hint=hint)


def _labels(record: Record, question: str, person: str | None, place: Place) -> Iterator[tuple[str, str | None]]:
    value = required(record, question, place)
    if question == "annotations":
        yield from _old_labels(value, place)
        return
    if value is None or value == "":
        return
    entries = value if isinstance(value, list) else [value]
    if any(isinstance(entry, (list, dict)) for entry in entries):
        raise not_single_choice(f"{question!r} holds spans or regions", str(place))
    if len(entries) > 1:
        what = f"{question!r} holds {len(entries)} labels: several choices, or the labels of several people merged"
        hint = "Export a single-choice project whose members annotate apart: that gives one file per member"
        raise InputError(what, where=str(place), hint=hint)
    for entry in entries:
        yield needed(entry, "label", place), person


def _old_labels(annotations: Any, place: Place) -> Iterator[tuple[str, str | None]]:
    if not isinstance(annotations, list) or not all(isinstance(entry, dict) for entry in annotations):
        raise InputError("annotations is not a list of objects", where=str(place), hint="Export the project again")
    voters = [needed(required(entry, "user", place), "user", place) for entry in annotations]
    if any("start_offset" in entry or "points" in entry for entry in annotations):
        raise not_single_choice("the annotations are spans", str(place))
    if len(set(voters)) < len(voters):
        raise not_single_choice("somebody gave several labels to one example: several choices", str(place))
    for entry, voter in zip(annotations, voters, strict=True):
        yield needed(entry.get("label"), "label", place), voter


DOCCANO = ExportReader("doccano", "doccano JSONL", _recognises, _read)

"""Votes inside records: JSON in which every item carries a list of what people said.

No platform's format, but the one that many published crowds and programs write: HateXplain's
`{"1_gab": {"annotators": [{"label": "normal", "annotator_id": 1}]}}`, the data-centric image benchmarks'
`[{"user_id": "a", "annotations": [{"image_path": "1.png", "class_label": "cat"}]}]` (a record per person), DynaSent's
`{"text_id": "r1", "label_distribution": {"positive": ["w1", "w2"], "negative": []}}`, or simply
`{"img1": ["cat", "dog"]}` and `{"img1": {"ann": "cat", "bob": "dog"}}`. What has places in a text or an image (spans,
boxes) is none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import pyarrow as pa

from dissensus.errors import InputError
from dissensus.votes.exports.documents import Document, JsonDocument, LinesDocument, Place, Record, TableDocument
from dissensus.votes.exports.reader import (
    Asked,
    ExportReader,
    VoteList,
    VoteRows,
    choose_question,
    field_of,
    name_of,
    needed,
)
from dissensus.votes.roles import RANKS, holds_votes, listed, names_items, names_people, plain

PLACES = {"start", "end", "startoffset", "endoffset", "points", "bbox", "x", "y", "width", "height", "polygon", "result"}
OTHERS = {"_input_hash", "_task_hash", "annotation_approver"}  # fields of platforms that have their own reader
COUNTED = {"submitted", "completed", "approved", "accepted", "finished", "done", "valid"}
CANCELLED = ("was_cancelled", "cancelled", "skipped", "rejected")
HEAD = 20
MANY_ENTRIES = 20


class Shape(NamedTuple):
    """Where the votes of a record are: a list of objects in `field`, or an object of lists in it (class -> people)."""

    field: str
    by_class: bool


def _records(document: Document) -> Iterator[tuple[Place, str | None, Record]]:
    """Each record with its place, and with its key where the document is an object of records."""
    if isinstance(document, JsonDocument) and isinstance(document.value, dict):
        for index, (key, record) in enumerate(document.value.items()):
            if isinstance(record, dict):
                yield Place(document, index), key, _with_entries(record)
    elif _is_list_of_records(document):
        for place, record in document.records():
            yield place, None, _with_entries(record)


def _is_list_of_records(document: Document) -> TypeGuard[JsonDocument | LinesDocument | TableDocument]:
    """Whether a document is a list of objects, or a Parquet file with such lists in its cells."""
    if isinstance(document, TableDocument):
        return any(map(_holds_records, document.table.head().values()))
    return isinstance(document, (JsonDocument, LinesDocument)) and not _is_plain(document)


def _holds_records(column: pa.ChunkedArray) -> bool:
    """Whether the cells of a column of Parquet are lists of objects, or objects of lists."""
    kind = column.type
    if pa.types.is_struct(kind):
        return any(_is_list(field.type) for field in kind)
    return _is_list(kind) and pa.types.is_struct(kind.value_type)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_plain(document: JsonDocument | LinesDocument) -> bool:
    """Whether a document is no list of objects."""
    return isinstance(document, JsonDocument) and (
        not isinstance(document.value, list) or not all(isinstance(record, dict) for record in document.value)
    )


def _head(document: Document) -> list[Record]:
    if isinstance(document, LinesDocument):
        return [_with_entries(record) for record in document.head]
    return [record for _, (_, _, record) in zip(range(HEAD), _records(document), strict=False)]


def _shape(records: list[Record]) -> Shape | None:
    """Where the votes are, if every record that has any has them in the same field."""
    shapes: dict[Shape, None] = {}
    for record in records:
        if OTHERS & set(record):
            return None
        for name, value in record.items():
            if isinstance(value, list) and value and all(map(_is_vote, value)) and not _is_doccano(name, value):
                shapes[Shape(name, False)] = None
            elif isinstance(value, dict) and len(value) > 1 and _is_by_class(name, value):
                shapes[Shape(name, True)] = None
    return next(iter(shapes)) if len(shapes) == 1 else None


def _with_entries(record: Record) -> Record:
    """A record in which votes by column, as Hugging Face writes a list of objects, are a list of objects:
    `{"label": ["cat", "dog"], "worker": ["w1", "w2"]}`."""
    return {name: _entries(value) if _is_by_column(value) else value for name, value in record.items()}


def _is_by_column(value: Any) -> bool:
    if not isinstance(value, dict) or not all(isinstance(cells, list) for cells in value.values()):
        return False
    named = any(plain(name) in RANKS["label"][0] for name in value) and any(map(names_people, value))
    return named and len({len(cells) for cells in value.values()}) == 1


def _entries(columns: Mapping[str, list[Any]]) -> list[Record]:
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def _is_vote(entry: Any) -> bool:
    return isinstance(entry, dict) and not ({plain(name) for name in entry} & PLACES) and bool(_label_fields(entry))


def _is_doccano(name: str, entries: list[Any]) -> bool:
    return name == "annotations" and all({"label", "user"} <= set(entry) for entry in entries)


def _is_by_class(name: str, value: Mapping[str, Any]) -> bool:
    named = holds_votes(name) or plain(name).endswith("distribution")
    columns = any(plain(key) in RANKS["label"][0] or names_people(key) for key in value)
    return (
        named
        and not columns
        and all(isinstance(people, list) and all(isinstance(who, str) for who in people) for people in value.values())
    )


def _label_fields(entry: Record) -> list[str]:
    """The fields of a vote that can hold its label: of the first rank, else of the second, else by their last word."""
    for rank in RANKS["label"]:
        if fields := [name for name in entry if plain(name) in rank]:
            return fields
    return [name for name in entry if holds_votes(name)]


def _recognises(document: Document) -> bool:
    if _keyed(document) is not None:
        return True
    return _shape(_head(document)) is not None


def _read(document: JsonDocument | LinesDocument, asked: Asked) -> VoteRows:
    if (read_keyed := _keyed(document)) is not None:
        return read_keyed(asked)
    records = list(_records(document))
    shape = _shape([record for _, _, record in records])
    if shape is None:
        raise InputError("not every record has its votes in the same field", where=str(document.path), hint="Correct it")
    return _read_by_class(records, shape, asked) if shape.by_class else _read_lists(document, records, shape, asked)


def _read_lists(
    document: JsonDocument | LinesDocument, records: list[tuple[Place, str | None, Record]], shape: Shape, asked: Asked
) -> VoteRows:
    votes = VoteList()
    entries: list[tuple[Place, str | None, Record, Record]] = []
    for place, key, record in records:
        found = record.get(shape.field) or []
        if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
            raise InputError(f"{shape.field!r} is not a list of objects", where=str(place), hint="Correct the record")
        if not found:
            votes.skip("records without a vote")
        entries += [(place, key, record, entry) for entry in found]
    fields = dict.fromkeys(name for *_, entry in entries for name in _label_fields(entry))
    kinds = {name: _not_single(name, entries) for name in fields}
    if asked.labels is not None and any(asked.labels in entry for *_, entry in entries):
        kinds.setdefault(asked.labels, _not_single(asked.labels, entries))
    question = choose_question(kinds, asked.labels, str(document.path), unit="field")
    pairs = [({name: record[name] for name in record if name != shape.field}, entry) for *_, record, entry in entries]
    who, item_field = asked.annotators or _field(pairs, names_people), asked.items or _field(pairs, _names_an_item)
    for role, name in (("annotators", asked.annotators), ("items", asked.items)):
        if name is not None and all(_value(record, entry, name) is None for record, entry in pairs):
            what = f"no record has a field {name!r}"
            raise InputError(what, where=str(document.path), hint=f"Pass --{role} with a field of the records or votes")
    by_key = asked.items is None and records[0][1] is not None
    if not by_key and item_field is None:
        what = f"no field of a record is known to hold the item ({', '.join(list(records[0][2])[:8])})"
        raise InputError(what, where=str(document.path), hint="Pass --items with its name")
    for place, key, record, entry in entries:
        reason, label = _no_vote(entry), name_of(_single(entry.get(question)), f"field {question!r}", place)
        if reason is not None or label is None:
            votes.skip(reason or f"entries without {question!r}")
            continue
        item = key if by_key else _value(record, entry, item_field)
        person = None if who is None else name_of(_value(record, entry, who), "annotator", place)
        votes.add(needed(item, f"item (field {item_field!r})", place), label, person, place)
    columns = {
        "item": "the key" if by_key else str(item_field),
        "annotator": str(who),
        "label": f"{shape.field}.{question}",
    }
    used = {shape.field, item_field, who}
    others = dict.fromkeys(name for _, _, record in records for name in record if name not in used)
    others |= dict.fromkeys(
        f"{shape.field}.{name}" for *_, entry in entries for name in entry if name not in (question, *used)
    )
    return votes.rows("records with lists of votes", columns, ignored=tuple(others))


def _read_by_class(records: list[tuple[Place, str | None, Record]], shape: Shape, asked: Asked) -> VoteRows:
    votes = VoteList()
    item_field = asked.items or _field([(record, {}) for _, _, record in records], _names_an_item)
    classes: dict[str, None] = {}
    for place, key, record in records:
        item = key if key is not None and asked.items is None else field_of(record, item_field or "")
        by_class = record.get(shape.field)
        if not isinstance(by_class, dict) or not all(isinstance(people, list) for people in by_class.values()):
            raise InputError(
                f"{shape.field!r} does not map classes to lists", where=str(place), hint="Correct the record"
            )
        classes.update(dict.fromkeys(by_class))
        cast = [(label, person) for label, people in by_class.items() for person in people]
        if not cast:
            votes.skip("records without a vote")
        for label, person in cast:
            votes.add(needed(item, "item", place), label, name_of(person, "annotator", place), place)
    _refuse_columns([record[shape.field] for _, _, record in records], shape.field, str(records[0][0].document.path))
    columns = {"item": item_field or "the key", "annotator": shape.field, "label": f"the keys of {shape.field}"}
    others = dict.fromkeys(name for _, _, record in records for name in record if name not in (item_field, shape.field))
    return votes.rows("records with people by class", columns, classes=tuple(sorted(classes)), ignored=tuple(others))


def _refuse_columns(objects: list[Mapping[str, list[Any]]], field: str, where: str) -> None:
    """Refuse lists that may be the columns of a table: people come again, and nobody is ever under two keys."""
    lists: dict[str, list[str]] = {}
    for by_class in objects:
        for key, people in by_class.items():
            lists.setdefault(key, []).extend(map(str, people))
    people_by_key = [set(people) for people in lists.values()]
    entries, everybody = sum(map(len, lists.values())), set[str]().union(*people_by_key)
    if entries >= MANY_ENTRIES and entries >= 3 * len(everybody) and sum(map(len, people_by_key)) == len(everybody):
        what = (
            f"{field!r} has lists under {listed(list(lists), 4)}, and nobody is under two: people by class, or columns?"
        )
        hint = 'Write a list of objects per item: [{"annotator": "ann", "label": "cat"}]'
        raise InputError(what, where=where, hint=hint)


def _names_an_item(name: str) -> bool:
    return plain(name) in RANKS["item"][0] | RANKS["item"][1] or names_items(name) or plain(name) in ("imagepath", "path")


def _field(pairs: Sequence[tuple[Record, Record]], fits: Callable[[str], bool]) -> str | None:
    """The first field whose name fits, of the record or else of a vote in it."""
    outer = dict.fromkeys(name for record, _ in pairs for name in record if fits(name))
    inner = dict.fromkeys(name for _, entry in pairs for name in entry if fits(name))
    return next(iter([*outer, *inner]), None)


def _value(record: Record, entry: Record, name: str | None) -> Any:
    if name is None:
        return None
    return field_of(entry, name) if name in entry and name not in record else field_of(record, name)


def _not_single(question: str, entries: list[tuple[Place, str | None, Record, Record]]) -> str | None:
    values = [entry.get(question) for *_, entry in entries]
    if any(isinstance(value, dict) for value in values):
        return "objects"
    return "several labels per vote" if any(isinstance(value, list) and len(value) > 1 for value in values) else None


def _single(value: Any) -> Any:
    return (value[0] if value else None) if isinstance(value, list) else value


def _no_vote(entry: Record) -> str | None:
    """Why an entry is no vote; None where it is one."""
    if any(entry.get(name) is True for name in CANCELLED):
        return "cancelled entries"
    status = entry.get("status")
    return f"{status} entries" if isinstance(status, str) and status.lower() not in COUNTED else None


def _keyed(document: Document) -> Callable[[Asked], VoteRows] | None:
    """How to read {item: [labels]} or {item: {annotator: label}}; None where a document is neither.

    Labels come again, so there are fewer of them than votes; and no key names a column of a table.
    """
    value = document.value if isinstance(document, JsonDocument) else None
    if not isinstance(value, dict) or len(value) < 2 or any(_is_column(key) for key in value):
        return None
    entries = list(value.values())
    if all(isinstance(entry, list) for entry in entries):
        labels = [label for entry in entries for label in entry]
        if max(map(len, entries)) > len(entries) and len(set(map(len, entries))) == 1:
            return None  # few keys with lists of one length: columns of a table
    elif all(isinstance(entry, dict) and not any(map(_is_column, entry)) for entry in entries):
        labels = [label for entry in entries for label in entry.values()]
        if not all(isinstance(label, str) for label in labels):
            return None  # numbers are peerannot's
    else:
        return None
    plain_labels = all(isinstance(label, (str, int)) for label in labels)
    if not labels or not plain_labels or len(set(labels)) > len(labels) / 2:
        return None
    assert isinstance(document, JsonDocument)
    keyed = document

    def read(asked: Asked) -> VoteRows:
        if given := [f"--{role}" for role in ("items", "labels", "annotators") if getattr(asked, role) is not None]:
            what = "an object of votes by item has no fields with names"
            raise InputError(what, where=str(keyed.path), hint=f"Leave {' and '.join(given)} away")
        votes = VoteList()
        for index, (item, entry) in enumerate(value.items()):
            place = Place(keyed, index)
            if not entry:
                votes.skip("items without a vote")
            for person, label in entry.items() if isinstance(entry, dict) else ((None, label) for label in entry):
                votes.add(needed(item, "item", place), needed(label, "label", place), person, place)
        columns = {"item": "the key", "annotator": "the inner key", "label": "the value"}
        return votes.rows("votes by item", columns)

    return read


def _is_column(name: str) -> bool:
    """Whether a key names a column of a table, and no item or person."""
    ranks = [rank for role in ("item", "label", "annotator") for rank in RANKS[role]]
    return any(plain(name) in rank for rank in ranks) or plain(name) in ("text", "data", "version")


NESTED = ExportReader("nested", "records with votes inside", _recognises, _read)

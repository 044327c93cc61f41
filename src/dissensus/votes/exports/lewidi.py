"""LeWiDi: the JSON of the shared tasks on learning with disagreements, 2023 and 2025.

From the read-me files beside the data. An object maps item ids to entries with `annotators` ("Ann1,Ann2"),
`annotations`, `number of annotations`, `soft_label` and, in 2023, `hard_label`. In 2023 `annotations` is a list
joined by commas, in the order of `annotators`; in 2025 it maps annotators to labels. An annotator of VariErrNLI may
give several labels ("entailment, neutral"): that is not a single choice. Test entries have no annotations.
`soft_label` is not read: in ConvAbuse it is of the severities made binary.
"""

from __future__ import annotations

from typing import Any

from dissensus.errors import InputError
from dissensus.votes.exports.documents import Document, JsonDocument, Place, Record
from dissensus.votes.exports.reader import (
    Asked,
    ExportReader,
    VoteList,
    VoteRows,
    name_of,
    needed,
    not_single_choice,
    refuse_asked,
    required,
)

NUMBER = "number of annotations"


def _recognises(document: Document) -> bool:
    entries = document.value if isinstance(document, JsonDocument) else None
    if not isinstance(entries, dict) or not entries:
        return False
    first = next(iter(entries.values()))
    return isinstance(first, dict) and {"annotations", "annotators", "soft_label"} <= set(first)


def _read(document: JsonDocument, asked: Asked) -> VoteRows:
    what = "an entry of LeWiDi has one id and one list of annotations"
    refuse_asked(asked, "items", "labels", "annotators", what=what, path=document.path)
    votes = VoteList()
    classes: dict[str, None] = {}
    miscounted = 0
    for index, (item, entry) in enumerate(document.value.items()):
        place = Place(document, index)
        if not isinstance(entry, dict):
            raise InputError(f"entry {item!r} is not an object", where=str(place), hint="Download the file again")
        given = _annotations(item, entry, place)
        if not given:
            votes.skip("entries without annotations")
        for person, label in given:
            votes.add(needed(item, "id", place), label, person, place)
        classes.update(dict.fromkeys(_listed_classes(entry)))
        miscounted += bool(given) and NUMBER in entry and str(entry[NUMBER]) != str(len(given))
    edition = "2025" if any(isinstance(entry.get("annotations"), dict) for entry in document.value.values()) else "2023"
    columns = {"item": "the key", "annotator": "annotators", "label": "annotations"}
    others = dict.fromkeys(name for entry in document.value.values() for name in entry)
    listed = tuple(classes) if set(votes.labels) <= set(classes) and edition == "2025" else None
    warnings = (f"in {miscounted:,} entries `{NUMBER}` is another number than there are",) if miscounted else ()
    ignored = tuple(name for name in others if name not in ("annotators", "annotations", NUMBER))
    return votes.rows(f"LeWiDi {edition} JSON", columns, classes=listed, ignored=ignored, warnings=warnings)


def _annotations(item: str, entry: Record, place: Place) -> list[tuple[str, str]]:
    labels = required(entry, "annotations", place)
    if isinstance(labels, dict):
        given = [(person, name_of(label, "label", place)) for person, label in labels.items()]
        several = next((label for _, label in given if label is not None and "," in label), None)
        if several is not None:
            raise not_single_choice(f"an annotation of {item!r} is {several!r}: several choices", str(place))
        return [(person, label) for person, label in given if label is not None]
    people = _split(entry.get("annotators"), "annotators", place)
    values = _split(labels, "annotations", place)
    if len(people) != len(values) and values:
        what = f"entry {item!r} has {len(values)} annotations by {len(people)} annotators"
        raise InputError(what, where=str(place), hint="Correct the entry")
    return list(zip(people, values, strict=True)) if values else []


def _split(value: Any, what: str, place: Place) -> list[str]:
    if value is None or value == "":
        return []
    if not isinstance(value, str):
        raise InputError(f"{what} is not a list joined by commas", where=str(place), hint="Download the file again")
    parts = [part.strip() for part in value.split(",")]
    return [needed(part, what, place) for part in parts]


def _listed_classes(entry: Record) -> list[str]:
    """The classes that `soft_label` lists, where it is one distribution: {"1": 0.8, "2": 0.2}."""
    shares = entry.get("soft_label")
    if not isinstance(shares, dict) or not all(isinstance(share, (int, float)) for share in shares.values()):
        return []
    return [str(name) for name in shares]


LEWIDI = ExportReader("lewidi", "LeWiDi JSON", _recognises, _read)

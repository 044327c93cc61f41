"""The seam between a platform's file and `Votes`: what a reader is, what it is asked, and what it gives back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dissensus.errors import InputError
from dissensus.votes.exports.documents import Document, Place, Record
from dissensus.votes.roles import listed
from dissensus.votes.trials import Cleaning
from dissensus.votes.votes import Ints


class Asked(NamedTuple):
    """What the user says about a file: the field of the items, the question whose answers are the labels, who answered,
    which labels mean that there is no vote, how trials with attention checks are cleaned, and whether a matrix has its
    annotators in the rows."""

    items: str | None = None
    labels: str | None = None
    annotators: str | None = None
    missing: tuple[str, ...] = ()
    cleaning: Cleaning | None = None
    transposed: bool = False


@dataclass(frozen=True)
class VoteRows:
    """What a reader found: one entry per vote.

    `columns`, `ignored` and `unnamed` are those of `ReadAs`. `skipped` counts what was no vote, by what it was; `where`
    puts the place of a vote into words. `classes` are those that the export lists, in its order, if it lists any.
    """

    layout: str
    columns: Mapping[str, str]
    items: pa.Array
    labels: pa.Array
    annotators: pa.Array | None
    where: Callable[[int], str]
    classes: tuple[str, ...] | None = None
    ignored: tuple[str, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()


@dataclass(frozen=True)
class CountRows:
    """What a reader found: how many people chose each class [N, K]; who they were is not known."""

    layout: str
    columns: Mapping[str, str]
    items: tuple[str, ...]
    counts: Ints
    classes: tuple[str, ...]
    where: Callable[[int], str]
    ignored: tuple[str, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExportReader:
    """One platform or published layout.

    `recognises` looks at a document and says whether the platform wrote it. No two readers recognise the same document,
    and none recognises an ordinary table of votes whose meaning it would change. `read` refuses what is not
    single-choice (several choices, spans, free text, rankings) and what is ambiguous, with an InputError that says what
    there is.
    """

    name: str
    title: str
    recognises: Callable[[Document], bool]
    read: Callable[[Any, Asked], VoteRows | CountRows]
    accepts: Callable[[Document], bool] | None = None  # what it also reads where the user names it; None: nothing more


class VoteList:
    """Votes as a reader finds them one by one, and what it skips."""

    def __init__(self) -> None:
        self.items: list[str] = []
        self.labels: list[str] = []
        self.annotators: list[str | None] = []
        self.places: list[Place] = []
        self.skipped: Counter[str] = Counter()

    def add(self, item: str, label: str, annotator: str | None, place: Place) -> None:
        """One vote."""
        self.items.append(item)
        self.labels.append(label)
        self.annotators.append(annotator)
        self.places.append(place)

    def skip(self, reason: str, times: int = 1) -> None:
        """Something that is no vote: "cancelled annotations"."""
        self.skipped[reason] += times

    def rows(
        self,
        layout: str,
        columns: Mapping[str, str],
        *,
        classes: tuple[str, ...] | None = None,
        ignored: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
    ) -> VoteRows:
        """All of them. Annotators are kept only where every vote names one; otherwise a warning says how many do not."""
        unnamed = self.annotators.count(None)
        people = None if unnamed else pa.array(self.annotators, pa.string())
        if unnamed and unnamed < len(self.annotators):
            warnings = (
                *warnings,
                f"{unnamed:,} of {len(self.annotators):,} votes do not say who cast them: annotators are not used",
            )
        named = {role: column for role, column in columns.items() if role != "annotator" or people is not None}
        return VoteRows(
            layout,
            named,
            pa.array(self.items, pa.string()),
            pa.array(self.labels, pa.string()),
            people,
            lambda vote: str(self.places[vote]),
            classes,
            ignored,
            dict(self.skipped),
            notes,
            warnings,
        )


def refuse_asked(asked: Asked, *roles: str, what: str, path: Path) -> None:
    """Refuse fields that the user names for these roles, where the layout has only its own."""
    if given := [f"--{role}" for role in roles if getattr(asked, role) is not None]:
        raise InputError(what, where=str(path), hint=f"Leave {' and '.join(given)} away")


def name_of(value: Any, what: str, where: Place | str) -> str | None:
    """A JSON value as a name; None where there is none (null, ""). Whole floats are named as integers: 1.0 is 1.

    >>> name_of(1.0, "label", ""), name_of("01", "label", ""), name_of(True, "label", ""), name_of(None, "label", "")
    ('1', '01', 'true', None)
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= mark <= "\udfff" for mark in value):
            raise InputError(f"the {what} {value!r} is not a name", where=str(where), hint="Correct the text")
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and np.isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    raise InputError(f"the {what} is {_short(value)}, not a name", where=str(where), hint="Export the file again")


def needed(value: Any, what: str, where: Place | str) -> str:
    """A name that must be there."""
    name = name_of(value, what, where)
    if name is None:
        raise InputError(f"the {what} is missing", where=str(where), hint="Export the file again, or drop the record")
    return name


def required(record: Record, name: str, place: Place) -> Any:
    """A field that the platform always writes; it may be empty."""
    if name not in record:
        raise InputError(f"the field {name!r} is missing", where=str(place), hint="Export the file again")
    return record[name]


def field_of(record: Record, path: str) -> Any:
    """A field by its name, or by names joined by dots: `meta.id`; None where it is not."""
    if path in record:
        return record[path]
    value: Any = record
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return value


def choose_question(questions: Mapping[str, str | None], asked: str | None, where: str, unit: str = "question") -> str:
    """The question whose answers are the labels: the one asked for, or the only one with a single choice.

    `questions` maps each to the reason why its answers are no single choice, or to None where they are.
    """
    if asked is not None:
        if asked not in questions:
            what = f"there is no {unit} {asked!r} (there are: {listed(list(questions)) or 'none'})"
            raise InputError(what, where=where, hint="Pass --labels with one of these names")
        if (reason := questions[asked]) is not None:
            raise not_single_choice(f"the {unit} {asked!r} asks for {reason}", where)
        return asked
    single = [name for name, reason in questions.items() if reason is None]
    if len(single) == 1:
        return single[0]
    if single:
        what = f"there are several {unit}s: {listed(single)}"
        raise InputError(
            what, where=where, hint=f"Pass --labels with the {unit} to read, for example --labels {single[0]}"
        )
    if not questions:
        raise InputError(f"there is no {unit} with an answer", where=where, hint="Export the file after it was annotated")
    reasons = "; ".join(f"{name!r} asks for {reason}" for name, reason in list(questions.items())[:5])
    raise not_single_choice(f"no {unit} has a single choice ({reasons})", where)


def not_single_choice(what: str, where: str) -> InputError:
    """The refusal of answers that are not one class per person and item."""
    return InputError(
        what, where=where, hint="Votes are one class per person and item: export a question with a single choice"
    )


def _short(value: Any) -> str:
    kind = "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else type(value).__name__
    return f"{kind} ({str(value)[:40]}…)" if len(str(value)) > 40 else f"{kind} ({value})"

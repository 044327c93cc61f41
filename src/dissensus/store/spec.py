"""Spec and Run: what to compute, as plain JSON whose hash is its name, and the result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypedDict, cast, get_args

from dissensus.errors import InputError
from dissensus.store.json_types import LARGEST, misfit

NUMERICS = 1  # raised by every change of ours that alters a result: old runs then no longer count as done
FORMAT = 1  # of the JSON of a run; records that do not name it have format 1

RunKind = Literal["train", "measure", "relate", "select"]
Json = dict[str, Any]


class UnknownFormatError(InputError):
    """A record in a form that this version does not know, such as one of a newer version. It is left as it is."""

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(
            what,
            where=where,
            hint="Read it with the version of dissensus that wrote it, or use another folder",
            state="Nothing was changed.",
        )


@dataclass(frozen=True)
class Spec:
    """What to compute, with every default written out. `inputs` are the ids of the runs it needs: `{"teacher": ["3f…"]}`.

    Two specs with the same content are the same run; its id is the hash of the content.
    """

    kind: RunKind
    settings: Json
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    numerics: int = NUMERICS

    def to_json(self) -> Json:
        """Plain JSON; `from_json` gives the same spec back."""
        inputs = {name: list(ids) for name, ids in self.inputs.items()}
        return {"kind": self.kind, "numerics": self.numerics, "inputs": inputs, "settings": self.settings}

    @classmethod
    def from_json(cls, document: Json, where: str = "spec") -> Spec:
        """The inverse of `to_json`. `where` is named in the error that a document of another form raises."""
        if not isinstance(document, dict):
            raise UnknownFormatError("the spec is no mapping", where)
        _check_keys(document, {"kind", "numerics", "inputs", "settings"}, "the spec", where)
        if not isinstance(document["kind"], str) or document["kind"] not in get_args(RunKind):
            raise UnknownFormatError(f"{document['kind']!r} is not a kind of run ({', '.join(get_args(RunKind))})", where)
        if problem := misfit(document, _SpecJson):
            raise UnknownFormatError(f"the spec is in an unknown form ({problem})", where)
        inputs = {name: tuple(ids) for name, ids in document["inputs"].items()}
        kind = cast(RunKind, document["kind"])
        spec = cls(kind, document["settings"], inputs, document["numerics"])
        try:
            spec.id  # noqa: B018 - what cannot be hashed is no spec
        except (ValueError, TypeError, RecursionError) as problem:
            raise UnknownFormatError(f"the spec is in an unknown form ({problem})", where) from None
        return spec

    @cached_property
    def id(self) -> str:
        """16 hexadecimal digits of the hash of the content, which nobody may change afterwards."""
        return hashlib.sha256(canonical(self.to_json()).encode()).hexdigest()[:16]

    @property
    def needs(self) -> tuple[str, ...]:
        """The ids of all runs this one waits for."""
        return tuple(sorted({run for ids in self.inputs.values() for run in ids}))


@dataclass(frozen=True)
class Run:
    """The result of a spec.

    `scores[checkpoint][calibration][metric]`, for example `scores["last"]["raw"]["soft_nll"]`; `curve` has one list per
    column, with one entry per epoch; `facts` are findings that are not scores (ties, temperatures, sizes). `provenance`
    says where and with what it was computed; it is not part of the spec.
    """

    spec: Spec
    scores: Json
    curve: dict[str, list[float | None]]
    facts: Json
    provenance: Json

    @property
    def id(self) -> str:
        """The id of its spec."""
        return self.spec.id

    def to_json(self) -> Json:
        """Plain JSON; `from_json` gives the same run back."""
        return {
            "format": FORMAT,
            "id": self.id,
            "spec": self.spec.to_json(),
            "scores": self.scores,
            "curve": self.curve,
            "facts": self.facts,
            "provenance": self.provenance,
        }

    @classmethod
    def from_json(cls, document: Json, where: str = "record") -> Run:
        """The inverse of `to_json`. `where` is named in the error that a document of another form raises."""
        form = document.get("format", 1) if isinstance(document, dict) else None
        if form != FORMAT:
            raise UnknownFormatError(f"the record has format {form}, and this version reads format {FORMAT}", where)
        parts = ("scores", "curve", "facts", "provenance")
        _check_keys(document.keys() - {"format", "summary"}, {"id", "spec", *parts}, "the record", where)
        spec = Spec.from_json(document["spec"], where)
        if problem := misfit(document, _RunJson) or _misfit_of_scores(document["scores"]):
            raise UnknownFormatError(f"the record is in an unknown form ({problem})", where)
        if document["id"] != spec.id:
            problem = f"the record is named {document['id']}, and the spec inside is that of {spec.id}"
            raise InputError(problem, where=where, hint="It was edited; use the record that was written", state="")
        return cls(spec, **{name: document[name] for name in parts})


class _SpecJson(TypedDict):
    """A spec on disk. Who builds a recipe or a measure of the settings checks them."""

    kind: str
    numerics: int
    inputs: dict[str, list[str]]
    settings: Json


class _Rescored(TypedDict):
    added: list[str]
    changed: list[str]


class _Facts(TypedDict, total=False):
    """Facts that reports and measures read; each kind of run has some of them, and others of its own."""

    classes: list[str]
    gold: str
    voted: bool
    ties: int | None
    parameters: int
    training_flops: int | None
    epochs: int
    best_epoch: int | None
    notes: list[str]
    temperatures: dict[str, dict[str, list[float]]]
    chosen: Json
    estimates: Json
    rescored: _Rescored
    winner: str


class _Provenance(TypedDict, total=False):
    seconds: float
    threads: int
    device: str


class _RunJson(TypedDict):
    """A record on disk."""

    id: str
    scores: Json
    curve: dict[str, list[float | None]]
    facts: _Facts
    provenance: _Provenance


def _misfit_of_scores(scores: Json) -> str:
    """A score is a number, or None where it is infinite or undefined; those of checkpoints are by calibration and metric.

    By hand, because a report reads thousands: `misfit` is asked only where something is odd.
    """
    for name, content in scores.items():
        parts = content.values() if isinstance(content, dict) else [{name: content}]
        for part in parts:
            if not isinstance(part, dict):
                return misfit(part, dict, f"scores[{name!r}]")
            odd = {key: value for key, value in part.items() if type(value) is not float or not abs(value) <= LARGEST}
            if problem := misfit(odd, _Scores, f"scores[{name!r}]") or misfit(
                {key: value for key, value in odd.items() if key != "gold"}, dict[str, float | None], f"scores[{name!r}]"
            ):
                return problem
    return ""


class _Scores(TypedDict, total=False):
    """The one entry of scores that is no number: against which labels they were judged."""

    gold: str


def _check_keys(keys: Iterable[str], expected: set[str], document: str, where: str) -> None:
    unknown, missing = sorted(set(keys) - expected), sorted(expected - set(keys))
    if unknown or missing:
        parts = [f"unknown {', '.join(unknown)}"] * bool(unknown) + [f"missing {', '.join(missing)}"] * bool(missing)
        raise UnknownFormatError(f"{document} is in an unknown form ({'; '.join(parts)})", where)


def canonical(document: Any) -> str:
    """JSON with sorted keys and no spaces: equal content, equal text. NaN and infinity are refused."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)

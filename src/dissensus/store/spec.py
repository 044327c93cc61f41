"""Spec and Run: what was asked, as plain JSON whose hash is its name, and what came of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

NUMERICS = 1  # raised by every change of ours that alters a result: old runs then no longer count as done

Kind = Literal["train", "measure", "relate", "select"]
Json = dict[str, Any]


@dataclass(frozen=True)
class Spec:
    """A question with every default written out. `inputs` names the runs it needs by id: `{"teacher": ["3f…"]}`.

    Two specs with the same content are the same run; its id is the hash of the content.
    """

    kind: Kind
    settings: Json
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    numerics: int = NUMERICS

    def to_json(self) -> Json:
        """Plain JSON; `from_json` gives the same spec back."""
        inputs = {name: list(ids) for name, ids in self.inputs.items()}
        return {"kind": self.kind, "numerics": self.numerics, "inputs": inputs, "settings": self.settings}

    @classmethod
    def from_json(cls, document: Json) -> Spec:
        """The inverse of `to_json`."""
        inputs = {name: tuple(ids) for name, ids in document["inputs"].items()}
        return cls(document["kind"], document["settings"], inputs, document["numerics"])

    @cached_property
    def id(self) -> str:
        """16 hexadecimal digits of the hash of the content, which nobody may change once it was asked for."""
        return hashlib.sha256(canonical(self.to_json()).encode()).hexdigest()[:16]

    @property
    def needs(self) -> tuple[str, ...]:
        """The ids of all runs this one waits for."""
        return tuple(sorted({run for ids in self.inputs.values() for run in ids}))


@dataclass(frozen=True)
class Run:
    """What came of a spec.

    `scores[checkpoint][calibration][metric]`, for example `scores["last"]["raw"]["soft_nll"]`; `curve` has one list a
    column, an entry an epoch; `facts` are findings that are not scores (ties, temperatures, sizes). `provenance` says
    where and with what it was computed; it is not part of the spec.
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
            "id": self.id,
            "spec": self.spec.to_json(),
            "scores": self.scores,
            "curve": self.curve,
            "facts": self.facts,
            "provenance": self.provenance,
        }

    @classmethod
    def from_json(cls, document: Json) -> Run:
        """The inverse of `to_json`."""
        parts = {name: document[name] for name in ("scores", "curve", "facts", "provenance")}
        return cls(Spec.from_json(document["spec"]), **parts)


def canonical(document: Any) -> str:
    """JSON with sorted keys and no spaces: equal content, equal text. NaN and infinity are refused."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)

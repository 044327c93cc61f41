"""Frozen dataclasses as plain JSON and back: how the members of an axis are written into a spec."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, cast

from dissensus.store.json_types import field_types, misfit
from dissensus.store.spec import UnknownFormatError

MAPPING = "mapping"  # the name under which a mapping is written


def encode(value: Any) -> Any:
    """A frozen dataclass as plain JSON: its name beside its fields.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Sampled:
    ...     every: int = 1
    >>> encode(Sampled(every=5))
    {'name': 'sampled', 'every': 5}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
        if "name" in fields:
            raise TypeError(f"{type(value).__name__} has a field `name`, which is what a spec calls the type itself")
        return {"name": name_of(type(value)), **fields}
    if isinstance(value, Mapping):  # as pairs, so that their order is kept
        return {"name": MAPPING, "entries": [[key, encode(part)] for key, part in value.items()]}
    if isinstance(value, (tuple, list)):
        return [encode(part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{value!r} cannot be written into a spec")


def decode(document: Any, members: Mapping[str, type]) -> Any:
    """The inverse of `encode`, by a table from names to dataclasses. Nested members are looked up in the same table.

    Every field is checked against its type: what is no such document is an UnknownFormatError that says where.
    """
    try:
        return _decoded(document, members)
    except RecursionError:
        raise UnknownFormatError("it is nested too deeply", where="spec") from None


def _decoded(document: Any, members: Mapping[str, type]) -> Any:
    if isinstance(document, list):
        return tuple(_decoded(part, members) for part in document)
    if not isinstance(document, dict):
        return document
    name = document.get("name")
    if name == MAPPING:
        return _mapping(document, members)
    if not isinstance(name, str) or name not in members:
        raise UnknownFormatError(f"{name!r} is not one of {', '.join(members)}", where="spec")
    return _member(members[name], {key: _decoded(part, members) for key, part in document.items() if key != "name"})


def _mapping(document: Mapping[str, Any], members: Mapping[str, type]) -> dict[str, Any]:
    entries = document.get("entries")
    if problem := misfit(entries, list[tuple[str, Any]], "a mapping"):
        raise UnknownFormatError(problem, where="spec")
    return {key: _decoded(part, members) for key, part in cast("list[tuple[str, Any]]", entries)}


def _member(cls: type, arguments: Mapping[str, Any]) -> Any:
    """A dataclass with these fields, each of its type."""
    name, fields = name_of(cls), {field.name: field for field in dataclasses.fields(cls)}
    if unknown := sorted(arguments.keys() - fields.keys()):
        raise UnknownFormatError(f"{name} has no setting {', '.join(unknown)}", where="spec")
    required = {
        field.name
        for field in fields.values()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    if absent := sorted(required - arguments.keys()):
        raise UnknownFormatError(f"{name} lacks the setting {', '.join(absent)}", where="spec")
    hints = field_types(cls)
    for key, value in arguments.items():
        if problem := misfit(value, hints[key], key):
            raise UnknownFormatError(f"{name}: {problem}", where="spec")
    return cls(**arguments)


def name_of(member: type) -> str:
    """The spec name of a dataclass: ClassMean is `class_mean`, AdamW is `adamw`; or its own `spec_name`."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", member.__name__).lower()
    return str(vars(member).get("spec_name", words))


def table(*members: type) -> dict[str, type]:
    """The members of one axis, by name: only here does a name become a constructor."""
    return {name_of(member): member for member in members}

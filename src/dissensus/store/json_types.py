"""JSON from disk, checked against the types it should have: a file is a typed value, or it is refused and says where."""

from __future__ import annotations

import collections.abc
import dataclasses
import json
import reprlib
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

LARGEST = 10**100
"""Numbers beyond this are none that we wrote, and overflow where they are squared."""


def parse_json(content: bytes | str) -> Any:
    """Parse JSON. What Python accepts beside JSON (NaN, Infinity), other bytes than UTF-8 and endless nesting are a
    ValueError, like everything else that is wrong."""
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        document = json.loads(text, parse_constant=_refuse_constant)
        if "\\ud" in text.lower():  # half of a letter, which could not be written again, is a ValueError
            json.dumps(document, ensure_ascii=False).encode()
        return document
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def misfit(value: object, expected: Any, path: str = "") -> str:
    """What is wrong with a value of this type, in words, with the path to it; empty where it fits.

    A number fits if it is finite and not absurdly large, and a text if it can be written as UTF-8. A type variable stands
    for a run id. Of other classes, such as dataclasses, it looks at the class alone: who made them has checked their
    fields.

    >>> misfit({"a": [1.0, None]}, dict[str, list[float]])
    "['a'][1] is None, not a number"
    """
    if expected is Any:
        return ""
    if isinstance(expected, TypeVar):
        return misfit(value, str, path)
    origin, arguments = get_origin(expected), get_args(expected)
    if origin in (Union, types.UnionType):
        return _misfit_of_union(value, arguments, path)
    if origin is Literal:
        scalar = value is None or isinstance(value, (str, int, float))
        return "" if scalar and value in arguments else _problem(value, f"one of {', '.join(map(str, arguments))}", path)
    if origin in (dict, Mapping, collections.abc.Mapping) or expected in (dict, Mapping):
        return _misfit_of_mapping(value, arguments, path)
    if origin in (list, tuple, collections.abc.Sequence) or expected in (list, tuple):
        return _misfit_of_sequence(value, origin or expected, arguments, path)
    if typing.is_typeddict(expected):
        return _misfit_of_typed_dict(value, expected, path)
    return _misfit_of_class(value, origin or expected, path)


def field_types(cls: type) -> Mapping[str, Any]:
    """The types of a class's fields, looked up once: thousands of records have the same."""
    if cls not in _FIELD_TYPES:
        _FIELD_TYPES[cls] = typing.get_type_hints(cls)
    return _FIELD_TYPES[cls]


_FIELD_TYPES: dict[type, Mapping[str, Any]] = {}


def _misfit_of_class(value: object, cls: Any, path: str) -> str:
    if cls in (None, type(None)):
        return "" if value is None else _problem(value, "None", path)
    if cls in (int, float):
        return "" if _is_number(value, cls) else _problem(value, "a whole number" if cls is int else "a number", path)
    if cls is str:
        return _misfit_of_text(value, path)
    if isinstance(cls, type) and getattr(cls, "_is_protocol", False):  # a member of an axis, as its table gave it
        return "" if dataclasses.is_dataclass(value) else _problem(value, f"a {cls.__name__}", path)
    if isinstance(value, cls):
        return ""
    return _problem(value, f"a {cls.__name__}", path)


def _is_number(value: object, cls: type) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= LARGEST and (cls is float or isinstance(value, int))


def _misfit_of_text(value: object, path: str) -> str:
    if not isinstance(value, str):
        return _problem(value, "text", path)
    try:
        value.encode()
    except UnicodeEncodeError:
        return _problem(value, "text in Unicode", path)
    return ""


def _misfit_of_union(value: object, members: tuple[Any, ...], path: str) -> str:
    problems = [misfit(value, member, path) for member in members]
    if not all(problems):
        return ""
    inside = [problem for problem in problems if not problem.startswith(f"{path or 'the content'} is ")]
    return inside[0] if inside else _problem(value, "what belongs there", path)


def _misfit_of_mapping(value: object, arguments: tuple[Any, ...], path: str) -> str:
    if not isinstance(value, Mapping):
        return _problem(value, "a mapping", path)
    key_type, part_type = arguments or (Any, Any)
    for key, part in value.items():
        if problem := misfit(key, key_type, f"{path}, key {key!r}") or misfit(part, part_type, f"{path}[{key!r}]"):
            return problem
    return ""


def _misfit_of_sequence(value: object, origin: Any, arguments: tuple[Any, ...], path: str) -> str:
    if not isinstance(value, (list, tuple)):
        return _problem(value, "a list", path)
    if not arguments or (arguments[0] in _NUMBERS and _are_numbers(value)):
        return ""
    repeated = origin is not tuple or arguments[1:] == (...,)
    if not repeated and len(value) != len(arguments):
        return _problem(value, f"a list of {len(arguments)}", path)
    for index, part in enumerate(value):
        if problem := misfit(part, arguments[0] if repeated else arguments[index], f"{path}[{index}]"):
            return problem
    return ""


_NUMBERS = (float, float | None)


def _are_numbers(values: Sequence[object]) -> bool:
    """Whether these are floats of a size that we write: the common case, thousands at once."""
    return set(map(type, values)) == {float} and max(map(abs, values)) <= LARGEST  # type: ignore[arg-type]


def _misfit_of_typed_dict(value: object, expected: Any, path: str) -> str:
    """Keys beside the declared ones may have anything in them."""
    if not isinstance(value, dict):
        return _problem(value, "a mapping", path)
    if missing := sorted(expected.__required_keys__ - value.keys()):
        return f"{path or 'the content'} has no {', '.join(missing)}"
    for name, part_type in field_types(expected).items():
        if name in value and (problem := misfit(value[name], part_type, f"{path}[{name!r}]")):
            return problem
    return ""


def _problem(value: object, expected: str, path: str) -> str:
    return f"{path or 'the content'} is {reprlib.repr(value)}, not {expected}"

"""Tables in JSON: one object per line, or one list of objects. Parsed by Python's own parser, which cannot crash."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from dissensus.errors import InputError
from dissensus.votes.files import PathLike, check_utf8

HEAD = 100  # rows
INT64 = range(-(2**63), 2**63)
MANY_CELLS = 10**7  # of a table, empty ones included, that is always made
SPARSE_TIMES = 50  # beyond that, cells for each value that the objects have
LONGEST = 1 << 24  # characters of one row
ONE_PER_LINE = 'Write one JSON object per line: {"item": "a", "label": "cat"}'


class JsonRows:
    """The objects of a JSON or JSONL file as rows. Lists and objects become the bytes of their JSON text."""

    def __init__(self, path: PathLike, content: bytes) -> None:
        self.path = path
        check_utf8(content, path)
        text = content.removeprefix(b"\xef\xbb\xbf").decode()
        self._rows: list[dict[str, Any]]
        self._lines: list[int] | None
        self._rows, self._lines = _array(text, path) if text.lstrip().startswith("[") else _objects(text, path)
        if len(self._rows) == 1:
            _refuse_no_row(self._rows[0], str(path))
        names: dict[str, None] = {}
        last: tuple[str, ...] = ()
        for row in self._rows:
            if (keys := tuple(row)) != last:
                names.update(dict.fromkeys(keys))
                last = keys
        self.names = tuple(names)

    def read(self, chosen: list[str]) -> pa.Table:
        """These columns. Refused where nearly all of their cells are empty, and there are very many."""
        if (cells := len(chosen) * len(self._rows)) > max(MANY_CELLS, SPARSE_TIMES * sum(map(len, self._rows))):
            what = f"{len(chosen):,} columns of {len(self._rows):,} objects that have few of them make {cells:,} cells"
            hint = 'Write one object per count: {"item": "a", "label": "cat", "count": 2}'
            raise InputError(what, where=str(self.path), hint=hint)
        return self._table(chosen, self._rows)

    def head(self) -> pa.Table:
        """All columns of the first rows."""
        return self._table(list(self.names), self._rows[:HEAD])

    def line(self, row: int) -> int | None:
        """The line that a row begins on; None where a list has all rows on few lines."""
        return self._lines[row] if self._lines is not None else None

    def _table(self, chosen: list[str], rows: list[dict[str, Any]]) -> pa.Table:
        columns = [self._column(name, [row.get(name) for row in rows]) for name in chosen]
        return pa.Table.from_arrays(columns, names=[str(index) for index in range(len(chosen))])

    def _column(self, name: str, values: list[Any]) -> pa.Array:
        kinds = set(map(type, values)) - {type(None)}
        if kinds <= {str}:
            return self._array_of(values, pa.string())
        if kinds <= {int} and all(value is None or value in INT64 for value in values):
            return pa.array(values, pa.int64())
        if kinds <= {bool}:
            return pa.array(values, pa.bool_())
        if kinds <= {int, float} and float in kinds:
            if any(type(value) is int and abs(value) > 2**53 for value in values):
                what = f"{name!r} has numbers beyond 2^53 beside fractions"
                raise InputError(what, where=str(self.path), hint="Write such ids as strings")
            return pa.array(values, pa.float64())
        if kinds <= {int}:
            return pa.array([None if value is None else str(value) for value in values], pa.string())
        if kinds <= {list, dict}:
            texts = [None if value is None else json.dumps(value).encode() for value in values]
            return pa.array(texts, pa.binary())  # bytes, because these are no names
        first = next(value for value in values if value is not None)
        row = next(row for row, value in enumerate(values) if value is not None and _kind(value) != _kind(first))
        raise InputError(
            f"{name!r} is a {_kind(values[row])} here and a {_kind(first)} above",
            where=str(self.path) if self._lines is None else f"{self.path}:{self._lines[row]}",
            hint="Write the same type in every row; names are safest as strings",
        )

    def _array_of(self, values: list[str | None], kind: pa.DataType) -> pa.Array:
        try:
            return pa.array(values, kind)
        except (UnicodeEncodeError, pa.ArrowInvalid):  # half a surrogate pair, written as \\ud800
            raise InputError("a text in it is not Unicode", where=str(self.path), hint="Correct the text") from None


def parse_json(text: str, where: str) -> Any:
    """A JSON value; refused where it is broken, nested too deeply or too large, or names a key twice."""
    if len(text) > LONGEST:
        raise InputError(f"{len(text):,} characters in one row", where=where, hint=ONE_PER_LINE)
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise InputError("the JSON is nested too deeply", where=where, hint=ONE_PER_LINE) from None
    except ValueError as broken:
        raise InputError(f"not JSON ({broken})", where=where, hint=ONE_PER_LINE) from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError("a key occurs twice in an object")
    return row


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys)


def _objects(text: str, path: PathLike) -> tuple[list[dict[str, Any]], list[int]]:
    try:
        return _lines(text, path)
    except InputError:
        if (objects := _indented(text)) is None:
            raise
        return objects


def _indented(text: str) -> tuple[list[dict[str, Any]], list[int]] | None:
    """Objects that run over several lines, one after another; None where they are not that."""
    rows, numbers, start, line = [], [], 0, 1
    try:
        while (begin := len(text) - len(text[start:].lstrip())) < len(text):
            line += text.count("\n", start, begin)
            row, end = _DECODER.raw_decode(text, begin)
            if type(row) is not dict or "\n" not in text[begin:end]:
                return None
            rows.append(row)
            numbers.append(line)
            line += text.count("\n", begin, end)
            start = end
    except (ValueError, RecursionError):
        return None
    return rows, numbers


def _lines(text: str, path: PathLike) -> tuple[list[dict[str, Any]], list[int]]:
    rows, numbers = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if line and not line.isspace():
            row = parse_json(line, f"{path}:{number}")
            if type(row) is not dict:
                raise InputError("not a JSON object", where=f"{path}:{number}", hint=ONE_PER_LINE)
            rows.append(row)
            numbers.append(number)
    return rows, numbers


def _array(text: str, path: PathLike) -> tuple[list[dict[str, Any]], None]:
    try:
        rows = _DECODER.decode(text)
    except RecursionError:
        raise InputError("the JSON is nested too deeply", where=str(path), hint=ONE_PER_LINE) from None
    except ValueError as broken:
        line = getattr(broken, "lineno", 1)
        raise InputError(f"not JSON ({broken})", where=f"{path}:{line}", hint="Write a list of JSON objects") from None
    for index, row in enumerate(rows):
        if type(row) is not dict:
            what = f"entry {index} of the list is not a JSON object"
            raise InputError(what, where=f"{path}:1", hint="Write a list of objects, one per vote or item")
    return rows, None


def _refuse_no_row(value: dict[str, Any], path: str) -> None:
    """Refuse one object that is no row: it has the rows in a field, or the columns of a data frame."""
    fields = {
        name: field
        for name, field in value.items()
        if isinstance(field, list) and any(isinstance(x, dict) for x in field)
    }
    if fields:
        longest = max(fields, key=lambda name: len(fields[name]))
        what = f"this is one JSON object; its rows seem to be in the field {longest!r} ({len(fields[longest]):,})"
        raise InputError(what, where=path, hint="Write that list into a file of its own")
    columns = [field for field in value.values() if isinstance(field, (dict, list))]
    if len(columns) == len(value) > 1 and len({len(field) for field in columns}) == 1:
        what = f"this is one JSON object, with columns or items ({', '.join(list(value)[:5])}) instead of rows"
        raise InputError(what, where=path, hint='Write a list with one object per row (pandas: orient="records")')


def _kind(value: Any) -> str:
    kinds = {bool: "boolean", str: "string", int: "number", float: "number", list: "list", dict: "object"}
    return kinds[type(value)]

"""Cells that hold several votes: a list (`["cat", "dog", "cat"]`) or a table of counts (`{"cat": 2, "dog": 1}`)."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from dissensus.errors import InputError
from dissensus.votes.cells import refusing, storage

LONGEST = 1 << 20  # characters of a cell
TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<mark>[\[\]{}:,])|(?P<word>[^\s,\[\]{}:'"]+))""", re.DOTALL
)
WORDS = {"None": None, "null": None, "nan": None, "NaN": None, "True": True, "true": True, "False": False, "false": False}
Scalar = str | int | float | bool | None
Cell = list[Scalar] | dict[str, Scalar]


def holds_lists(head: pa.ChunkedArray) -> bool:
    """Whether the first cells of a column are lists or objects of plain values."""
    if _is_nested(head.type):
        return True
    if not any(is_kind(head.type) for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)):
        return False
    parsed = _all_parsed([cell for cell in head.to_pylist() if cell and cell.strip()])
    return None not in parsed and any(parsed)  # a class may be called {}


def holds_objects(head: pa.ChunkedArray) -> bool:
    """Whether the first cells of a column of lists and objects are objects."""
    cells = [cell for cell in read_lists(head, "") if cell]
    return bool(cells) and all(isinstance(cell, dict) for cell in cells)


def read_lists(column: pa.ChunkedArray, where: str) -> list[Cell | None]:
    """Every cell as a list or a dictionary of plain values; None where it is empty or is neither."""
    column = storage(column)
    with refusing(where, f"cells of type {column.type} cannot be read"):
        cells = column.to_pylist()
    if _is_nested(column.type):
        return [_checked(dict(cell) if _is_map(column.type) and cell is not None else cell) for cell in cells]
    filled = [index for index, cell in enumerate(cells) if cell and cell.strip()]
    parsed: list[Cell | None] = [None] * len(cells)
    for index, cell in zip(filled, _all_parsed([cells[index] for index in filled]), strict=True):
        parsed[index] = cell
    return parsed


def _all_parsed(cells: Sequence[str | bytes]) -> list[Cell | None]:
    """Every cell of text. Lists without commas, as NumPy prints them, are read only where no cell has a comma."""
    parsed = [_parsed(cell) for cell in cells]
    if None not in parsed:
        return parsed
    printed = [_parsed(cell, by_numpy=True) for cell in cells]
    return parsed if None in printed else printed


def empty(column: pa.ChunkedArray) -> list[bool]:
    """Whether each cell holds nothing at all."""
    return [cell is None or (isinstance(cell, (str, bytes)) and not cell.strip()) for cell in column.to_pylist()]


def _is_map(kind: pa.DataType) -> bool:
    return bool(pa.types.is_map(kind))


def _is_nested(kind: pa.DataType) -> bool:
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_struct, pa.types.is_map)
    return any(is_kind(kind) for is_kind in lists)


def _parsed(cell: str | bytes, *, by_numpy: bool = False) -> Cell | None:
    """A cell of text, as JSON or as Python prints it; None where it is neither a list nor an object of plain values."""
    text = (cell if isinstance(cell, str) else cell.decode("utf-8", errors="replace")).strip()
    if len(text) > LONGEST or (text[:1], text[-1:]) not in (("[", "]"), ("{", "}")):
        return None
    try:
        return _checked(json.loads(text))
    except RecursionError:
        return None
    except ValueError:
        return _as_printed(text, by_numpy=by_numpy)


def _checked(value: Any) -> Cell | None:
    plain = (str, int, float, bool, type(None))
    if isinstance(value, list) and all(isinstance(entry, plain) for entry in value):
        return value
    if isinstance(value, dict) and all(isinstance(entry, plain) for entry in value.values()):
        return {str(key): entry for key, entry in value.items()}
    return None


def _as_printed(text: str, *, by_numpy: bool) -> Cell | None:
    """What Python's `repr` writes, in one level; with blanks instead of commas where NumPy printed it."""
    marks, values, place = "", [], 0
    while place < len(text):
        token = TOKEN.match(text, place)
        if token is None or (by_numpy and marks.endswith("v") and not token["mark"] and not text[place].isspace()):
            return None
        place = token.end()
        if token["mark"]:
            marks += token["mark"]
        else:
            marks += "v"
            try:
                values.append(_scalar(token["text"], token["word"]))
            except (ValueError, SyntaxError):
                return None
    if re.fullmatch(r"\[v*\]" if by_numpy else r"\[(v(,v)*,?)?\]", marks):
        return values
    if re.fullmatch(r"\{(v:v(,v:v)*,?)?\}", marks):
        return {str(key): value for key, value in zip(values[::2], values[1::2], strict=True)}
    return None


def _scalar(text: str | None, word: str | None) -> Scalar:
    if text is not None:
        return str(ast.literal_eval(text))
    assert word is not None
    if word in WORDS:
        return WORDS[word]
    if re.fullmatch(r"[+-]?(0|[1-9][0-9]{0,17})", word):
        return int(word)
    if not re.fullmatch(r"[+-]?([1-9][0-9]*|0)\.[0-9]*(e[+-]?[0-9]{1,3})?", word):
        raise ValueError(word)  # neither JSON nor Python writes it so
    return float(word)


def not_a_list(cell: str, where: str) -> InputError:
    """The error for a cell among lists that is none."""
    shown = cell if len(cell) < 60 else cell[:60] + "…"
    return InputError(
        f"{shown!r} is not a list of votes or an object of counts", where=where, hint='Write ["cat", "dog"] or {"cat": 2}'
    )

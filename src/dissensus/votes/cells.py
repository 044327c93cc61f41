"""Columns of cells as NumPy arrays: names become codes, numbers become float64."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dissensus.errors import InputError
from dissensus.votes.votes import Floats, Ints

EXACT = 2.0**53  # beyond it a float no longer holds every whole number


def encode(column: pa.ChunkedArray, where: str) -> tuple[Ints, tuple[str, ...]]:
    """Codes [V] into the names, which come in order of first appearance; a missing cell is -1.

    Integers are named as Python writes them; floats that are whole, as integers (pandas makes floats of integers beside
    missing cells).
    """
    was_encoded = pa.types.is_dictionary(column.type)
    kind = column.type.value_type if was_encoded else column.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise InputError(f"cells of type {kind} are not names", where=where, hint="Name a column of strings or integers")
    encoded = (column if was_encoded else pc.dictionary_encode(column)).unify_dictionaries()
    names = _as_text(encoded.chunk(0).dictionary, where)
    indices = [pc.fill_null(chunk.indices.cast(pa.int64()), -1) for chunk in encoded.chunks]
    codes: Ints = np.concatenate([part.to_numpy(zero_copy_only=False) for part in indices])
    if was_encoded or None in names or "" in names or len(set(names)) < len(names):
        return _by_first_appearance(codes, names)
    return codes, tuple(name for name in names if name is not None)


def _by_first_appearance(codes: Ints, names: list[str | None]) -> tuple[Ints, tuple[str, ...]]:
    """The same for a dictionary from elsewhere, in which names may be repeated, unordered, unused or missing."""
    unique = {name: index for index, name in enumerate(dict.fromkeys(name for name in names if name))}
    same = np.array([unique.get(name, -1) if name else -1 for name in names] + [-1])  # the last one is for code -1
    codes = same[codes]
    first = np.full(len(unique) + 1, len(codes))
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # the last write wins, so the first appearance stays
    order = np.argsort(first[:-1], kind="stable")
    order = order[first[order] < len(codes)]
    rank = np.full(len(unique) + 1, -1)
    rank[order] = np.arange(len(order))
    listed = tuple(unique)
    return rank[codes], tuple(listed[index] for index in order)


def _as_text(values: pa.Array, where: str) -> list[str | None]:
    if pa.types.is_floating(values.type):
        whole = pc.cast(values, pa.float64()).to_pylist()
        if any(number is not None and EXACT <= abs(number) < float("inf") for number in whole):
            raise InputError("numbers beyond 2^53 are not exact as floats", where=where, hint="Write such ids as strings")
        return [_float_name(number) for number in whole]
    texts: list[str | None] = pc.cast(values, pa.string()).to_pylist()
    return texts


def _float_name(number: float | None) -> str | None:
    if number is None or number != number:
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def gaps(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """[V]: whether a cell is missing."""
    column = _decoded(column)
    missing = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    if _is_text(column.type):
        missing = pc.or_kleene(missing, pc.equal(column, ""))
    is_missing: NDArray[np.bool_] = pc.fill_null(missing, True).to_numpy()
    return is_missing


def numbers(column: pa.ChunkedArray) -> Floats | None:
    """[V] as float64, NaN where missing; None if any cell is not a number."""
    column = _decoded(column)
    if _is_text(column.type):
        column = pc.utf8_trim_whitespace(column)
        column = pc.if_else(pc.equal(column, ""), None, column)
    elif not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_null(column.type)):
        return None
    try:
        values: Floats = pc.cast(column, pa.float64(), safe=False).to_numpy()
    except pa.ArrowInvalid:
        return None
    return values


def first_not_number(column: pa.ChunkedArray) -> int:
    """The row of the first cell that is not a number, in a column that has one."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if numbers(column.slice(low, middle - low)) is None else (middle, high)
    return low


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

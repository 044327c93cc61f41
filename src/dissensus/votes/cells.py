"""Columns of cells as NumPy arrays: names become codes, numbers become float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dissensus.errors import InputError
from dissensus.votes.votes import Floats, Ints

BLANKS = " \t\r\n\v\f\u00a0\u2007\u2009\u202f"  # around a number; a control character in it is damage
EXACT = 2.0**53  # beyond it a float no longer holds every whole number
FOREIGN = (
    pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError, OverflowError, MemoryError,
    NotImplementedError,
)  # fmt: skip  # what pyarrow raises at a file that is damaged, or has a type that it cannot convert


@contextmanager
def refusing(where: str, what: str = "the file is damaged", hint: str = "Write or download it again") -> Iterator[None]:
    """Whatever pyarrow raises inside becomes an InputError. Only calls of pyarrow belong inside."""
    try:
        yield
    except InputError:
        raise
    except FOREIGN as error:
        reason = str(error).splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise InputError(f"{what} ({reason})", where=where, hint=hint) from None


def encode(column: pa.ChunkedArray, where: str) -> tuple[Ints, tuple[str, ...]]:
    """Codes [V] into the names, which come in order of first appearance; a missing cell is -1.

    Text is named as it is written, integers as Python writes them, floats and decimals that are whole as integers (pandas
    makes floats of integers beside missing cells), booleans `true` and `false`, dates and times as ISO 8601.
    """
    column = storage(column)
    was_encoded = pa.types.is_dictionary(column.type)
    kind = column.type.value_type if was_encoded else column.type
    if not nameable(kind):
        shown = "that are lists, objects or bytes" if pa.types.is_binary(kind) else f"of type {kind}"
        raise InputError(f"cells {shown} are not names", where=where, hint="Name a column of strings or integers")
    with refusing(where, f"cells of type {kind} cannot be read"):
        # all chunks that Arrow encodes share one dictionary; those of a file may each have their own
        encoded = column.unify_dictionaries() if was_encoded else pc.dictionary_encode(column)
        if encoded.num_chunks == 0:
            return np.empty(0, np.int64), ()
        names = _as_text(encoded.chunk(0).dictionary, where)
        indices = [pc.fill_null(chunk.indices.cast(pa.int64()), -1) for chunk in encoded.chunks]
        codes: Ints = np.concatenate([part.to_numpy(zero_copy_only=False) for part in indices])
    if len(codes) and codes.max() >= len(names):
        raise InputError("the file is damaged: a cell points beyond its dictionary", where=where, hint="Write it again")
    distinct = not was_encoded and (_is_text(kind) or pa.types.is_integer(kind))  # else two values may have one name
    if not distinct or None in names or "" in names:
        return _by_first_appearance(codes, names)
    return codes, tuple(name for name in names if name is not None)


def storage(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without the label of an extension type: a UUID as its text, anything else as what it is stored as."""
    if not isinstance(column.type, pa.BaseExtensionType):
        return column
    stored = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if column.type.extension_name == "arrow.uuid":
        texts = [None if value is None else _uuid(value) for value in stored.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    return stored


def _uuid(value: bytes) -> str:
    digits = value.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def nameable(kind: pa.DataType) -> bool:
    """Whether cells of this type can be names."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return kind.extension_name == "arrow.uuid" or nameable(kind.storage_type)
    if types.is_dictionary(kind):
        return nameable(kind.value_type)
    return bool(
        _is_text(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_boolean(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_time(kind)
        or types.is_null(kind)
    )


def _by_first_appearance(codes: Ints, names: Sequence[str | None]) -> tuple[Ints, tuple[str, ...]]:
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
    if pa.types.is_decimal(values.type):
        return [None if value is None else f"{value.normalize():f}" for value in values.to_pylist()]
    if pa.types.is_null(values.type):
        return [None] * len(values)
    texts: list[str | None] = pc.cast(values, pa.string()).to_pylist()
    return texts


def _float_name(number: float | None) -> str | None:
    if number is None or number != number:
        return None
    return str(int(number)) if number.is_integer() else repr(number)


def gaps(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """[V]: whether a cell is missing."""
    column = _decoded(storage(column))
    missing = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    if _is_text(column.type):
        missing = pc.or_kleene(missing, pc.equal(column, ""))
    is_missing: NDArray[np.bool_] = pc.fill_null(missing, True).to_numpy()
    return is_missing


def numbers(column: pa.ChunkedArray) -> Floats | None:
    """[V] as float64, NaN where missing; None if any cell is not a number."""
    column = _decoded(storage(column))
    kind = column.type
    if _is_text(kind):
        column = pc.utf8_trim(column, characters=BLANKS)
        column = pc.if_else(pc.equal(column, ""), None, column)
    elif not (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind) or pa.types.is_decimal(kind)
    ):
        return None
    try:
        values: Floats = pc.cast(column, pa.float64(), safe=False).to_numpy()
    except FOREIGN:
        return None
    return values


def with_points(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Text whose cells are all numbers with a decimal comma (`0,25`), with points; None where they are not.

    `1,250` may be 1.25 or 1250: some cell has to tell.
    """
    column = _decoded(storage(column))
    if not _is_text(column.type):
        return None
    number = pc.match_substring_regex(column, r"^\s*([+-]?[0-9]+(,[0-9]+)?)?\s*$")
    clear = pc.match_substring_regex(column, r"^\s*[+-]?(0,[0-9]+|[0-9]+,([0-9]{1,2}|[0-9]{4,}))\s*$")
    is_so = pc.all(number).as_py() and pc.any(clear).as_py()
    return pc.replace_substring(column, ",", ".") if is_so else None


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
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))

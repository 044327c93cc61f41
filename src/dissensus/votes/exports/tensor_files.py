"""What `torch.save` wrote, as NumPy arrays of numbers. No code of the file runs, and nothing unpacks beyond its bytes.

Torch's restricted unpickler builds tensors. Arrays inside would be built by NumPy's own `__setstate__`, which believes
whatever a file says about their type and may crash the process; so here the names of NumPy in a pickle stand for classes
that accept what NumPy writes for arrays of numbers, and nothing else.
"""

from __future__ import annotations

import math
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dissensus.errors import InputError
from dissensus.votes.array_files import BROKEN
from dissensus.votes.files import check_inflated, open_binary

Array = NDArray[Any]

CODES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
BYTE_ORDERS = "<>|="
NO_FIELDS = (None, None, None, -1, -1, 0)  # the rest of the state of a type of numbers: no fields, no flags
NUMBERS = ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")  # of tensors
HINT = "Save tensors of whole numbers with torch.save, or write the votes as CSV"


def load_tensors(path: Path) -> Array | dict[str, Array | None]:
    """The one array in a file, or its dictionary of arrays by name; None for what is no array of numbers."""
    with open_binary(path) as file:
        if not file.seekable():
            raise InputError("a torch file is not read from a pipe", where=str(path), hint="Write it to a file first")
        size = file.seek(0, 2)
        check_inflated(_unpacked_size(file), size, path)
    value = _unpickled(path)
    if isinstance(value, Mapping):
        return {name: _array(part, size) for name, part in value.items() if isinstance(name, str)}
    array = _array(value, size)
    if array is None:
        what = f"a {type(value).__name__} that is not one tensor of numbers holds no votes"
        raise InputError(what, where=str(path), hint="Save one dense tensor with two axes")
    return array


def _unpacked_size(file: BinaryIO) -> int:
    """Bytes of all members of a zip file; 0 for what is none, such as the older form of torch's files."""
    try:
        with zipfile.ZipFile(file) as archive:
            return sum(member.file_size for member in archive.infolist())
    except BROKEN:
        return 0


def _unpickled(path: Path) -> Any:
    import torch

    try:
        with torch.serialization.safe_globals(_stand_ins()), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about kinds of tensors that are refused below
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch has no one error for what it did not save
        named = re.search(r"GLOBAL (\S+)", str(error))
        first = re.split(r"\. |\n", str(error).strip())[0][:120]  # what follows is advice to trust the file
        reason = f"it names {named[1]}" if named else first or type(error).__name__
        what = f"torch cannot load it without running code from it ({reason})"
        raise InputError(what, where=str(path), hint=HINT) from None


def _stand_ins() -> list[Any]:
    """What the names of NumPy 1 and 2 in a pickle stand for."""
    rebuild = [(_rebuilt, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
    return [*rebuild, (_PickledArray, "numpy.ndarray"), (_PickledType, "numpy.dtype")]


class _PickledType:
    """A type of numbers as NumPy pickles it."""

    def __init__(self, code: object, *_: object) -> None:
        if code not in CODES:
            raise ValueError("an array in it does not hold numbers")
        self.dtype = np.dtype(str(code))

    def __setstate__(self, state: object) -> None:
        sound = isinstance(state, tuple) and len(state) == 8 and state[2:] == NO_FIELDS
        if not sound or not isinstance(state[1], str) or state[1] not in tuple(BYTE_ORDERS):  # type: ignore[index]
            raise ValueError("an array in it has a type that is none of numbers")
        self.dtype = self.dtype.newbyteorder(state[1])  # type: ignore[index,arg-type]


class _PickledArray:
    """An array as NumPy pickles it: empty, until its state says what is in it."""

    array: Array = np.empty(0)

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise ValueError("an array in it is damaged")
        _, shape, kind, fortran, content = state
        sound = isinstance(shape, tuple) and len(shape) <= 8 and all(type(side) is int and side >= 0 for side in shape)
        if not sound or not isinstance(kind, _PickledType) or not isinstance(content, bytes):
            raise ValueError("an array in it is damaged")
        if math.prod(shape) * kind.dtype.itemsize != len(content):
            raise ValueError("an array in it is cut short")
        array = np.frombuffer(content, kind.dtype).reshape(shape, order="F" if fortran else "C")
        self.array = array.astype(kind.dtype.newbyteorder("="))


def _rebuilt(*_: object) -> _PickledArray:
    return _PickledArray()


def _array(value: object, size: int) -> Array | None:
    """A tensor, array, or list of numbers or rows, as an array; None where it is none or larger than the file.

    A pickle of a few bytes may name one row a million times, and a tensor one number.
    """
    import torch

    if isinstance(value, _PickledArray):
        return value.array
    if isinstance(value, torch.Tensor):
        dense = value.layout is torch.strided and value.device.type == "cpu" and not value.is_quantized
        if not dense or str(value.dtype).removeprefix("torch.") not in NUMBERS:
            return None
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            return None
        array: Array = value.detach().numpy()
        return array
    if not isinstance(value, (list, tuple)):
        return None
    rows = value if all(isinstance(row, (list, tuple)) for row in value) else [value]
    plain = sum(len(row) for row in rows) <= size and all(type(cell) is int for row in rows for cell in row)
    if not plain or len({len(row) for row in rows}) > 1:
        return None
    try:
        return np.array(value, dtype=np.int64)
    except OverflowError:
        return None

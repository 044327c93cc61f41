"""Arrays from .npy and .npz files. Nothing is ever unpickled: that would run its code.

A file is believed only as far as it can be checked: types, shapes and sizes are read from the headers and compared with
the bytes that are there before anything is allocated.
"""

from __future__ import annotations

import io
import math
import tokenize
import warnings
import zipfile
import zlib
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dissensus.errors import InputError
from dissensus.votes.files import PathLike, check_inflated, open_binary

KINDS = "biufUS"  # booleans, integers, floats, text and bytes
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what np.savez and np.savez_compressed write
MOST_MEMBERS = 1000
LONGEST_NAME = 1 << 16  # bytes; as text, each takes four
BROKEN = (
    ValueError, EOFError, OSError, KeyError, TypeError, IndexError, OverflowError, SyntaxError, MemoryError,
    RecursionError, NotImplementedError, RuntimeError, AttributeError, tokenize.TokenError, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip  # what NumPy and zipfile raise at bytes that are not theirs


HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class _NotNumpyError(Exception):
    """What is wrong with a file, before it is known where."""


def load_arrays(path: PathLike) -> dict[str, NDArray[Any]]:
    """The arrays of an .npy (under the name "") or .npz file: numbers, booleans and text.

    Names that were saved as bytes (dtype S) come back as text.
    """
    with open_binary(path) as file:
        if not file.seekable():
            raise InputError("a NumPy file is not read from a pipe", where=str(path), hint="Write it to a file first")
        head = file.read(4)
        file.seek(0)
        try:
            if head.startswith(b"\x93NUM"):
                return {"": _as_text(_read_array(file, _rest(file)))}
            if head in (b"PK\x03\x04", b"PK\x05\x06"):
                return _read_archive(file, path)
        except _NotNumpyError as problem:
            hint = (
                "Save plain numbers with np.save"
                if "objects" in str(problem)
                else "Save it again with np.save or np.savez"
            )
            raise InputError(str(problem), where=str(path), hint=hint) from None
        except InputError:
            raise
        except BROKEN:
            pass
    raise InputError(
        "this is not a NumPy file, or it is cut short", where=str(path), hint="Write it again with np.save or np.savez"
    )


def _rest(file: BinaryIO) -> int:
    here = file.tell()
    size = file.seek(0, io.SEEK_END) - here
    file.seek(here)
    return size


def _read_archive(file: BinaryIO, path: PathLike) -> dict[str, NDArray[Any]]:
    size = _rest(file)
    with zipfile.ZipFile(file) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        names = [member.filename.removesuffix(".npy") for member in members]
        if len(set(names)) < len(names) or len(names) > MOST_MEMBERS:
            raise _NotNumpyError("it is not an archive that np.savez wrote: names occur twice, or there are too many")
        for member in members:
            if member.flag_bits & 0x1 or member.compress_type not in METHODS:
                raise _NotNumpyError("a member is encrypted, or compressed in another way than np.savez_compressed does")
        check_inflated(sum(member.file_size for member in members), size, path)
        arrays = {}
        for name, member in zip(names, members, strict=True):
            with archive.open(member) as stream:
                arrays[name] = _as_text(_read_array(stream, member.file_size))
                if stream.read(1):
                    raise _NotNumpyError(f"there is more in the member {name!r} than its header says")
        return arrays


def stored_rows(path: PathLike, name: str = "") -> int:
    """How many rows an array, or the member `name` of an .npz, has by its header; 0 where it is missing or broken."""
    try:
        with open_binary(path) as file:
            if not name:
                shape, _, _ = _header(file)
            else:
                with zipfile.ZipFile(file) as archive, archive.open(f"{name}.npy") as stream:
                    shape, _, _ = _header(stream)
    except (_NotNumpyError, *BROKEN):
        return 0
    return shape[0] if shape else 0


def _header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and the type of an array, checked as far as a header can be."""
    version = npy.read_magic(stream)
    if version not in HEADERS:
        raise _NotNumpyError(f"version {version} of the format is for structured arrays, which are not read")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about headers that Python 2 wrote
        shape, fortran, kind = HEADERS[version](stream)
    if kind.hasobject:
        raise _NotNumpyError("it holds Python objects, which are never unpickled")
    if kind.kind not in KINDS or kind.subdtype is not None:
        raise _NotNumpyError(f"it holds {kind}, not numbers or names")
    if kind.kind == "S" and kind.itemsize > LONGEST_NAME:
        raise _NotNumpyError(f"names of {kind.itemsize:,} bytes are none")
    if any(type(length) is not int or length < 0 for length in shape) or len(shape) > 8:
        raise _NotNumpyError(f"its shape {shape} is none")
    return shape, fortran, kind


def _read_array(stream: Any, size: int) -> NDArray[Any]:
    """An array from a stream of `size` bytes, whose header is checked against them first."""
    shape, fortran, kind = _header(stream)
    wanted = math.prod(shape) * kind.itemsize
    if wanted > size:
        raise _NotNumpyError("this is not a NumPy file, or it is cut short")
    flat = np.empty(math.prod(shape), kind)
    if kind.itemsize and flat.size:
        space = flat.view(np.uint8).data
        while len(space):
            got = stream.readinto(space)
            if not got:
                raise _NotNumpyError("this is not a NumPy file, or it is cut short")
            space = space[got:]
    array: NDArray[Any] = flat.reshape(shape, order="F" if fortran else "C")
    return array.astype(kind.newbyteorder("="), copy=False)


def _as_text(array: NDArray[Any]) -> NDArray[Any]:
    """Bytes decoded to text; anything else as it is."""
    if array.dtype.kind == "U" and array.size:
        points = np.ascontiguousarray(array).view(np.uint32)
        if bool(((points > 0x10FFFF) | ((points >= 0xD800) & (points < 0xE000))).any()):
            raise _NotNumpyError("a name in it is not text")
    if array.dtype.kind != "S":
        return array
    try:
        return np.char.decode(array, "utf-8") if array.size else array.astype(np.str_)
    except UnicodeDecodeError:
        raise _NotNumpyError("a name in it is not UTF-8 text") from None

"""Which kind of file a path is, and its bytes. Whatever can be wrong before the first cell is reported here."""

from __future__ import annotations

import difflib
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO, Literal

from dissensus.errors import InputError

Kind = Literal["csv", "tsv", "jsonl", "json", "parquet", "npy", "npz"]
PathLike = str | os.PathLike[str]

EXTENSIONS: dict[str, Kind] = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npy": "npy",
    ".npz": "npz",
}
FOREIGN: dict[str, str] = {
    ".xlsx": "Save the sheet as CSV",
    ".xls": "Save the sheet as CSV",
    ".ods": "Save the sheet as CSV",
    ".zip": "Unpack it, and name the file or the folder",
    ".tar": "Unpack it, and name the file or the folder",
    ".tgz": "Unpack it, and name the file or the folder",
    ".pkl": "A pickle can run code: open it with pandas and write CSV or Parquet",
    ".pickle": "A pickle can run code: open it with pandas and write CSV or Parquet",
    ".feather": "Write it as Parquet",
    ".arrow": "Write it as Parquet (datasets: `dataset.to_parquet`)",
    ".rds": "Write it as CSV",
    ".dta": "Write it as CSV",
    ".sav": "Write it as CSV",
    ".mat": "Write it as CSV, or as .npy",
}
GZIP = b"\x1f\x8b"
MAGIC: dict[bytes, str] = {
    b"PAR1": "a Parquet file: name it .parquet",
    b"\x93NUMPY": "a NumPy array: name it .npy",
    b"PK\x03\x04": "a zip archive: name it .npz if NumPy wrote it, or save a spreadsheet as CSV",
}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # the marks that Excel and Qualtrics put before it
INFLATED_FREELY = 1 << 27  # bytes that a compressed file may always unpack to
INFLATED_TIMES = 100  # beyond that, a file that unpacks to so many times its size is refused


def kind_of(path: PathLike) -> Kind:
    """The kind of a file, by its extension alone; text may be compressed (`votes.csv.gz`)."""
    name = Path(path)
    compressed = name.suffix.lower() == ".gz"
    extension = Path(name.stem if compressed else name).suffix.lower()
    kind = EXTENSIONS.get(extension)
    if kind is None:
        raise InputError(
            f"the extension {extension!r} is not one of {' '.join(EXTENSIONS)}"
            if extension
            else "the name has no extension",
            where=str(path),
            hint=FOREIGN.get(extension, "Give the file the extension of its format"),
        )
    if compressed and kind in ("parquet", "npy", "npz"):
        raise InputError(f"a .{kind} file is not read through gzip", where=str(path), hint="Unpack it first")
    return kind


def open_binary(path: PathLike) -> BinaryIO:
    """The file, open at its start. The error for a missing file names similar files in its folder."""
    target = Path(path)
    try:
        mode = target.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError("this is a folder, not a file", where=str(path), hint="Name a file in it")
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise InputError("this is a device, not a file", where=str(path), hint="Name a file")
        file = target.open("rb")
    except FileNotFoundError:
        raise InputError("there is no such file", where=str(path), hint=_similar(target)) from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read ({reason})", where=str(path), hint="Check its permissions") from None
    if stat.S_ISREG(mode) and os.fstat(file.fileno()).st_size == 0:
        file.close()
        raise InputError("the file is empty", where=str(path), hint="Write it again")
    return file


def _similar(target: Path) -> str:
    try:
        beside = sorted(other.name for other in target.parent.iterdir())
    except OSError:
        beside = []
    near = difflib.get_close_matches(target.name, beside, n=3)
    return f"Did you mean {' or '.join(near)}?" if near else "Check the path"


def check_inflated(inflated: int, compressed: int, path: PathLike) -> None:
    """Refuse a file that unpacks to far more than its size: 100 times, and over 128 MiB."""
    if inflated > max(INFLATED_FREELY, INFLATED_TIMES * compressed):
        raise InputError(
            f"{compressed:,} bytes unpack to {inflated:,} or more",
            where=str(path),
            hint="Check that this is the file you meant; save what is really so large uncompressed",
        )


_PIPES: ContextVar[dict[str, bytes] | None] = ContextVar("_PIPES", default=None)


@contextmanager
def reading_pipes_once() -> Iterator[None]:
    """What came through a named pipe is kept until the end: who recognises a file and who reads it both open it."""
    before = _PIPES.set({})
    try:
        yield
    finally:
        _PIPES.reset(before)


def read_text_bytes(path: PathLike) -> bytes:
    """The bytes of a text file, unpacked, UTF-16 as UTF-8; refused where they are clearly not text.

    Who parses them checks that they are UTF-8.
    """
    kept = _PIPES.get()
    if kept is not None and (known := kept.get(str(path))) is not None:
        content = known
    else:
        with open_binary(path) as file:
            try:
                content = file.read()
            except OSError as error:
                raise InputError(f"cannot be read ({error.strerror})", where=str(path), hint="Check the file") from None
        if kept is not None and Path(path).is_fifo():
            kept[str(path)] = content
    if content.startswith(GZIP):
        content = _unpacked(content, path)
    if content.startswith(UTF_16):
        content = _from_utf_16(content, path)
    meant = next((meaning for magic, meaning in MAGIC.items() if content.startswith(magic)), None)
    if meant is not None or b"\0" in content:
        hint = f"It looks like {meant}" if meant else "Check that this is the file you meant"
        raise InputError("this is not a text file", where=str(path), hint=hint)
    filled = content.removeprefix(b"\xef\xbb\xbf")
    if not filled or filled.isspace():  # unlike strip, no copy of the whole
        raise InputError("the file is empty", where=str(path), hint="Write it again")
    return content


def _from_utf_16(content: bytes, path: PathLike) -> bytes:
    try:
        return content.decode("utf-16").encode()
    except UnicodeDecodeError as error:
        what = f"it begins as UTF-16 text, and byte {error.start:,} is none"
        raise InputError(what, where=str(path), hint="Save the file as UTF-8") from None


def _unpacked(content: bytes, path: PathLike) -> bytes:
    """What gzip packed, in bounded memory; several members follow each other as one file."""
    most = max(INFLATED_FREELY, INFLATED_TIMES * len(content))
    parts, total, rest = [], 0, content
    try:
        while rest:
            member = zlib.decompressobj(wbits=31)
            parts.append(member.decompress(rest, most - total + 1))
            total += len(parts[-1])
            check_inflated(total, len(content), path)
            if not member.eof:
                raise zlib.error("cut short")
            rest = member.unused_data.lstrip(b"\0")  # tape blocks are padded
    except zlib.error:
        raise InputError("the gzip file is damaged or cut short", where=str(path), hint="Write it again") from None
    return b"".join(parts)


def check_utf8(content: bytes, path: PathLike) -> None:
    """Report where text stops being UTF-8. Decodes everything, so it is called only after something else went wrong."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"byte 0x{content[error.start]:02x} is not UTF-8 text",
            where=f"{path}:{line}",
            hint="Save the file as UTF-8 (Latin-1 and Windows files: `iconv -f WINDOWS-1252 -t UTF-8`)",
        ) from None


def row_of_array(path: PathLike, row: int) -> str:
    """A row of an array or a Parquet file, for messages: such files have no lines."""
    return f"{path}, row {row} (counting from 0)"

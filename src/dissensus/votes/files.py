"""Which kind of file a path is, and its bytes. Whatever can be wrong before the first cell is reported here."""

from __future__ import annotations

import difflib
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from dissensus.errors import InputError

Kind = Literal["csv", "tsv", "jsonl", "parquet", "npy", "npz"]
PathLike = str | os.PathLike[str]

EXTENSIONS: dict[str, Kind] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npy": "npy",
    ".npz": "npz",
}
MAGIC: dict[bytes, str] = {
    b"PAR1": "a Parquet file: name it .parquet",
    b"\x93NUMPY": "a NumPy array: name it .npy",
    b"PK\x03\x04": "a zip archive: name it .npz if NumPy wrote it, or save a spreadsheet as CSV",
    b"\x1f\x8b": "compressed with gzip: unpack it first",
    b"\xff\xfe": "UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "UTF-16 text: save it as UTF-8",
}


def kind_of(path: PathLike) -> Kind:
    """The kind of a file, by its extension alone."""
    extension = Path(path).suffix.lower()
    if extension not in EXTENSIONS:
        jsonl = " (one JSON object per line is .jsonl)" if extension == ".json" else ""
        raise InputError(
            f"the extension {extension!r} is not one of {' '.join(EXTENSIONS)}"
            if extension
            else "the name has no extension",
            where=str(path),
            hint=f"Give the file the extension of its format{jsonl}",
        )
    return EXTENSIONS[extension]


def open_binary(path: PathLike) -> BinaryIO:
    """The file, open at its start. The error for a missing file names similar files in its folder."""
    target = Path(path)
    try:
        file = target.open("rb")
    except FileNotFoundError:
        beside = sorted(other.name for other in target.parent.iterdir()) if target.parent.is_dir() else []
        near = difflib.get_close_matches(target.name, beside, n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else "Check the path"
        raise InputError("there is no such file", where=str(path), hint=hint) from None
    except IsADirectoryError:
        raise InputError("this is a folder, not a file", where=str(path), hint="Name a file in it") from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror})", where=str(path), hint="Check its permissions") from None
    if os.fstat(file.fileno()).st_size == 0:
        file.close()
        raise InputError("the file is empty", where=str(path), hint="Write it again")
    return file


def read_text_bytes(path: PathLike) -> bytes:
    """The bytes of a text file; refused where they are clearly not text. Who parses them checks that they are UTF-8."""
    with open_binary(path) as file:
        content = file.read()
    known = next((meaning for magic, meaning in MAGIC.items() if content.startswith(magic)), None)
    if known is not None or b"\0" in content:
        hint = f"It looks like {known}" if known else "Check that this is the file you meant"
        raise InputError("this is not a text file", where=str(path), hint=hint)
    if not content.removeprefix(b"\xef\xbb\xbf").strip():
        raise InputError("the file is empty", where=str(path), hint="Write it again")
    return content


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


def load_arrays(path: PathLike) -> dict[str, NDArray[Any]]:
    """The arrays of an .npy (under the name "") or .npz file. Nothing is ever unpickled: that would run its code."""
    with open_binary(path) as file:
        head = file.read(2)
        file.seek(0)
        try:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {"": loaded}
            return {name: loaded[name] for name in loaded.files}
        except (ValueError, EOFError, OSError, KeyError, zipfile.BadZipFile, zlib.error) as error:
            if "allow_pickle" in str(error) and head in (b"\x93N", b"PK"):
                what, hint = "it holds Python objects, which are never unpickled", "Save plain numbers with np.save"
            else:
                what, hint = "this is not a NumPy file, or it is cut short", "Write it again with np.save or np.savez"
            raise InputError(what, where=str(path), hint=hint) from None


def row_of_array(path: PathLike, row: int) -> str:
    """A row of an array or a Parquet file, for messages: such files have no lines."""
    return f"{path}, row {row} (counting from 0)"

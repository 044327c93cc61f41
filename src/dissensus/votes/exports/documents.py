"""What a path holds, opened once and shown to every reader: JSON, lines of JSON, a table, numbers, tensors or a folder.

Nothing here knows a platform. A table is opened by its header alone, and a JSONL file by its first lines, so that an
ordinary table of votes costs next to nothing before it turns out that no platform wrote it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dissensus.errors import InputError
from dissensus.votes.cells import refusing
from dissensus.votes.exports.tensor_files import Array, load_tensors
from dissensus.votes.files import open_binary, read_text_bytes
from dissensus.votes.tables import FileTable, open_table
from dissensus.votes.votes import Ints

Record = Mapping[str, Any]

HEAD = 5  # records that are looked at to recognise a document
MOST_BYTES = 1 << 30  # of JSON: parsed, it takes about ten times the memory
NUMBER = rb"(?:-?[0-9]{1,18}(?:\.[0-9]{0,20}(?:e[+-][0-9]{2})?)?|nan)"  # as NumPy writes it, too
NUMBERS = re.compile(rb"\s*" + NUMBER + rb"(?:[ \t,;]+" + NUMBER + rb")*\s*", re.IGNORECASE)
NO_NUMBER = -(2**63)  # stands for nan in a matrix
LONGEST_LINE = 1 << 20  # of a matrix of answers, in bytes


class NotJsonError(InputError):
    """Text that is no JSON, or cannot be parsed in bounds."""


@dataclass(frozen=True, slots=True)
class Place:
    """A record of a document. Its words are looked up only where a message needs them: in a CSV that costs a scan."""

    document: JsonDocument | LinesDocument | TableDocument
    index: int

    def __str__(self) -> str:
        return self.document.where(self.index)


@dataclass(frozen=True)
class JsonDocument:
    """One JSON value: a list of records, or an object."""

    path: Path
    value: Any

    @property
    def head(self) -> list[Record]:
        """The first records of a list, to see what it is."""
        values = self.value[:HEAD] if isinstance(self.value, list) else []
        return [record for record in values if isinstance(record, dict)]

    def records(self) -> Iterator[tuple[Place, Record]]:
        """Each record of a list, with its place."""
        for index, record in enumerate(self.value):
            if not isinstance(record, dict):
                raise InputError("this is not a JSON object", where=self.where(index), hint="Export the file again")
            yield Place(self, index), record

    def where(self, index: int) -> str:
        """A record, for messages."""
        return f"{self.path}, record {index} (counting from 0)"


@dataclass(frozen=True)
class LinesDocument:
    """A JSONL file: one record per line."""

    path: Path
    content: bytes

    @cached_property
    def head(self) -> list[Record]:
        """The first records, to see what they are; a line that is none is left to whoever reads them."""
        records = []
        for line in islice(io.BytesIO(self.content), HEAD):
            with suppress(NotJsonError):
                records.append(parse_json(line, ""))
        return [record for record in records if isinstance(record, dict)]

    def records(self) -> Iterator[tuple[Place, Record]]:
        """Each record, with its line."""
        for number, line in enumerate(io.BytesIO(self.content), 1):
            if line.strip():
                record = parse_json(line, self.where(number))
                if not isinstance(record, dict):
                    hint = "Write one JSON object per line"
                    raise InputError("this is not a JSON object", where=self.where(number), hint=hint)
                yield Place(self, number), record

    def where(self, index: int) -> str:
        """A line, for messages."""
        return f"{self.path}:{index}"


@dataclass(frozen=True)
class TableDocument:
    """A CSV, TSV or Parquet table; its columns are read on demand."""

    path: Path
    table: FileTable

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.table.names

    @property
    def head(self) -> list[Record]:
        """The columns as the fields of a record, of which only the names are known."""
        return [dict.fromkeys(self.names)]

    def records(self) -> Iterator[tuple[Place, Record]]:
        """Each row as a record, with its number; an empty cell of a text file is None."""
        read = self.table.columns(self.names)
        with refusing(str(self.path), "a cell has no meaning outside of Arrow"):
            columns = [column.to_pylist() for column in read]
        for row, cells in enumerate(zip(*columns, strict=True)):
            yield (
                Place(self, row),
                {name: None if cell == "" else cell for name, cell in zip(self.names, cells, strict=True)},
            )

    def where(self, index: int) -> str:
        """A row, for messages."""
        return self.table.where(index)


@dataclass(frozen=True)
class NumbersDocument:
    """Lines of numbers without a header, separated by blanks or commas; parsed on demand."""

    path: Path
    content: bytes

    @property
    def extension(self) -> str:
        """The extension, without that of a compression."""
        return _extension(self.path)

    @cached_property
    def matrix(self) -> Ints:
        """[rows, columns], NO_NUMBER for nan. Refused where a line is no list of whole numbers, or has another length."""
        rows: list[list[int]] = []
        for number, line in enumerate(io.BytesIO(self.content.removeprefix(b"\xef\xbb\xbf")), 1):
            if not line.strip():
                continue
            cells = [_whole(cell) for cell in re.split(rb"[ \t,;]+", line.strip())] if is_numbers(line) else [None]
            if None in cells:
                where = f"{self.path}:{number}"
                raise InputError("this line is not a list of whole numbers", where=where, hint="Correct the line")
            rows.append([cell for cell in cells if cell is not None])
            if len(rows[-1]) != len(rows[0]):
                what = f"{len(rows[-1])} numbers where the first line has {len(rows[0])}"
                where = f"{self.path}:{number}"
                raise InputError(what, where=where, hint="Write one number per annotator in every line")
        matrix: Ints = np.array(rows, dtype=np.int64)
        return matrix


@dataclass(frozen=True)
class TensorDocument:
    """What torch saved: an array, or a dictionary of arrays; None for what is no array of numbers."""

    path: Path
    value: Array | dict[str, Array | None]


@dataclass(frozen=True)
class FolderDocument:
    """A folder with its visible files, sorted by name."""

    path: Path
    files: tuple[Path, ...]


Document = JsonDocument | LinesDocument | TableDocument | NumbersDocument | TensorDocument | FolderDocument


def head_of(document: Document, *, tables: bool = False) -> list[Record]:
    """The first records of JSON, and of a table where `tables` says so; [] for anything else."""
    if isinstance(document, (JsonDocument, LinesDocument)) or (tables and isinstance(document, TableDocument)):
        return document.head
    return []


def open_document(path: Path) -> Document | None:
    """The document at a path; None for what no platform writes (NumPy arrays, unknown extensions)."""
    if path.is_dir():
        return FolderDocument(path, tuple(sorted(file for file in path.iterdir() if _is_visible(file))))
    extension = _extension(path)
    if extension in (".json", ".jsonl", ".ndjson"):
        return _open_json(path)
    if extension == ".txt":
        content = read_text_bytes(path)
        return NumbersDocument(path, content) if is_numbers(_first_line(content)) else None
    if extension in (".csv", ".tsv", ".tab"):
        if _starts_with_numbers(path):
            return NumbersDocument(path, read_text_bytes(path))
        return TableDocument(path, open_table(path))
    if extension in (".parquet", ".pq"):
        return TableDocument(path, open_table(path))
    if extension in (".pt", ".pth"):
        return TensorDocument(path, load_tensors(path))
    return None


def parse_json(content: bytes | str, where: str) -> Any:
    """A JSON value, parsed in a bounded way: not too large, not too deep, no key twice."""
    if len(content) > MOST_BYTES:
        hint = "Export it as JSONL or CSV, or in parts"
        raise InputError(f"{len(content):,} bytes of JSON are more than is read at once", where=where, hint=hint)
    hint = "Write or export the file again"
    try:
        return json.loads(content, object_pairs_hook=_without_repeated_keys)
    except UnicodeDecodeError:
        raise NotJsonError("this is not UTF-8 text", where=where, hint="Save the file as UTF-8") from None
    except RecursionError:
        raise NotJsonError(
            "the JSON is nested too deeply", where=where, hint="Check that this is the right file"
        ) from None
    except json.JSONDecodeError as error:
        line = f":{error.lineno}" if error.lineno > 1 else ""
        raise NotJsonError(f"not JSON ({error.msg})", where=where + line, hint=hint) from None
    except ValueError as error:
        raise NotJsonError(f"not JSON ({error})", where=where, hint=hint) from None


def is_numbers(line: bytes) -> bool:
    """Whether a line is a list of numbers."""
    return len(line) <= LONGEST_LINE and NUMBERS.fullmatch(line.removeprefix(b"\xef\xbb\xbf")) is not None


def _whole(cell: bytes) -> int | None:
    """A cell as a whole number; None where it is a fraction."""
    if cell.lower() == b"nan":
        return NO_NUMBER
    if b"." not in cell:
        return int(cell)
    number = float(cell)
    return int(number) if number.is_integer() and abs(number) < 2**53 else None


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} occurs twice in an object")
    return record


def _open_json(path: Path) -> JsonDocument | LinesDocument:
    content = read_text_bytes(path).removeprefix(b"\xef\xbb\xbf")
    if _has_lines(content, path):
        return LinesDocument(path, content)
    return JsonDocument(path, parse_json(content, str(path)))


def _has_lines(content: bytes, path: Path) -> bool:
    """Whether JSON text is one object per line: the first line is a whole object, and others follow or could follow."""
    line = _first_line(content).strip()
    more = len(line) < len(content.strip())
    return line.startswith(b"{") and line.endswith(b"}") and (more or _extension(path) != ".json")


def _first_line(content: bytes) -> bytes:
    return next((line for line in io.BytesIO(content) if line.strip()), b"")


def _starts_with_numbers(path: Path) -> bool:
    if path.suffix.lower() == ".gz" or path.is_fifo():
        line = _first_line(read_text_bytes(path))
    else:
        with open_binary(path) as file:
            line = file.readline(LONGEST_LINE)
    return is_numbers(line) and (b"," in line or b"\t" in line or b" " in line.strip())


def _extension(path: Path) -> str:
    """The extension, of what is inside where text is compressed: `answers.json.gz`."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def _is_visible(file: Path) -> bool:
    return file.is_file() and not file.name.startswith((".", "_"))

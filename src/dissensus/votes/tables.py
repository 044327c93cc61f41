"""Tables from CSV, TSV, JSONL and Parquet: columns by name, and the line of each row for messages.

Cells of text files stay text exactly as written: "01" is not 1, and "NA" is a name like any other. Only an empty cell
(in Parquet and JSON also null, and NaN among floats) counts as missing.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from dissensus.errors import InputError
from dissensus.votes.files import PathLike, check_utf8, kind_of, open_binary, read_text_bytes, row_of_array
from dissensus.votes.votes import row_names

METADATA_CLASSES = b"dissensus.classes"  # the key under which a Parquet file carries its classes, as a JSON list
BLOCK = 1 << 24  # bytes; no row may be longer
DELIMITERS = {"csv": ",", "tsv": "\t"}


@dataclass(frozen=True)
class FileTable:
    """A table in a file, whose columns are read on demand. `classes` are those that a Parquet file names."""

    path: PathLike
    names: tuple[str, ...]
    _read: Callable[[list[str]], pa.Table]
    _line: Callable[[int], int | None] | None = None
    classes: tuple[str, ...] | None = None

    def columns(self, names: Sequence[str]) -> list[pa.ChunkedArray]:
        """These columns, read in one pass. A table without rows is refused."""
        table = self._read(list(names))
        if table.num_rows == 0:
            raise InputError("there is a header but no row", where=str(self.path), hint="Write the rows below the header")
        return [table.column(name) for name in names]

    def where(self, row: int) -> str:
        """A row, for messages: `votes.csv:212`."""
        line = self._line(row) if self._line is not None else None
        return row_of_array(self.path, row) if line is None else f"{self.path}:{line}"


def open_table(path: PathLike) -> FileTable:
    """A table from a CSV, TSV, JSONL or Parquet file, by its extension."""
    kind = kind_of(path)
    if kind == "parquet":
        table = _open_parquet(path)
    elif kind == "jsonl":
        table = _open_jsonl(path)
    else:
        table = _open_delimited(path, DELIMITERS[kind])
    if not table.names:
        raise InputError("the table has no columns", where=str(path), hint="Write at least an item and a label per row")
    return table


def _open_delimited(path: PathLike, delimiter: str) -> FileTable:
    content = read_text_bytes(path)
    try:
        _, header = next(_records(content, delimiter), (1, [""]))
    except UnicodeDecodeError:
        check_utf8(content, path)
        raise
    headless = _is_data(header, path)
    names = row_names(len(header)) if headless else tuple(header)
    _refuse_repeated(names, path)

    def read(chosen: list[str]) -> pa.Table:
        try:
            return pa.csv.read_csv(
                pa.BufferReader(content),
                read_options=pa.csv.ReadOptions(column_names=list(names) if headless else None, block_size=BLOCK),
                parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in content),
                convert_options=pa.csv.ConvertOptions(
                    include_columns=chosen, column_types={name: pa.string() for name in names}, strings_can_be_null=False
                ),
            )
        except pa.ArrowInvalid as error:
            check_utf8(content, path)
            raise _ragged(content, delimiter, len(names), path, error) from None

    def line(row: int) -> int | None:
        starts = (start for start, _ in _records(content, delimiter))
        return next(islice(starts, row if headless else row + 1, None), None)

    return FileTable(path, names, read, line)


def _records(content: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each record with the line it starts on; blank lines are skipped. Slow, but exact where quoted cells hold line ends.

    Ends early at a cell that is too long for Python's parser: callers then know less, but nothing wrong.
    """
    reader = csv.reader(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline=""), delimiter=delimiter)
    start = 1
    with suppress(csv.Error):
        for record in reader:
            if record:
                yield start, record
            start = reader.line_num + 1


def _is_data(first: list[str], path: PathLike) -> bool:
    """Whether the first line is already data: numbers only, and not the names 0…K-1 or 1…K (of at least three)."""
    try:
        numbers = [float(cell) for cell in first]
    except ValueError:
        return False
    if len(first) > 2 and first in ([*map(str, range(len(first)))], [*map(str, range(1, len(first) + 1))]):
        return False
    if len(set(numbers)) == len(numbers) and all(number.is_integer() for number in numbers):
        raise InputError(
            f"cannot tell whether the first line ({', '.join(first)}) is a header or data",
            where=f"{path}:1",
            hint="Add a header line with the names of the columns",
        )
    return True


def _refuse_repeated(names: Sequence[str], path: PathLike) -> None:
    if repeated := {name for name in names if names.count(name) > 1}:
        what = f"the header names {', '.join(map(repr, sorted(repeated)))} more than once"
        raise InputError(what, where=str(path), hint="Give every column its own name")


def _ragged(content: bytes, delimiter: str, width: int, path: PathLike, error: Exception) -> InputError:
    for line, record in _records(content, delimiter):
        if len(record) != width:
            return InputError(
                f"{len(record)} columns where the first line has {width}",
                where=f"{path}:{line}",
                hint="Correct the row; put a cell that holds the separator or a line end in double quotes",
            )
    return InputError(f"the table cannot be parsed ({error})", where=str(path), hint="Write it again")


def _open_jsonl(path: PathLike) -> FileTable:
    content = read_text_bytes(path)

    def read(as_text: Sequence[str]) -> pa.Table:
        schema = pa.schema([(name, pa.string()) for name in as_text])
        return pa.json.read_json(
            pa.BufferReader(content),
            read_options=pa.json.ReadOptions(block_size=BLOCK),
            parse_options=pa.json.ParseOptions(explicit_schema=schema),
        )

    try:
        table = read([])
        dated = [column.name for column in table.schema if pa.types.is_timestamp(column.type)]
        if dated:  # pyarrow takes names like "2020-01-01" for times: read them as written, the columns in their old order
            table = read(dated).select(table.column_names)
        table.validate(full=True)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        check_utf8(content, path)
        raise _bad_json(content, path, error) from None

    def line(row: int) -> int | None:
        lines = [number for number, text in enumerate(content.split(b"\n"), 1) if text.strip()]
        # An object may run over several lines: then the line of a row is not known.
        return lines[row] if len(lines) == table.num_rows else None

    return FileTable(path, tuple(table.column_names), table.select, line)


def _bad_json(content: bytes, path: PathLike, error: Exception) -> InputError:
    """Find the line that pyarrow could not read, with Python's own parser."""
    types: dict[str, str] = {}
    for number, line in enumerate(content.decode("utf-8-sig").split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
        except ValueError as broken:
            return InputError(f"not JSON ({broken})", where=where, hint="Write one JSON object per line")
        if not isinstance(row, dict):
            return InputError("not a JSON object", where=where, hint='Write one per line: {"item": "a", "label": "cat"}')
        for name, value in row.items():
            kind = _json_type(value)
            if value is not None and kind != types.setdefault(name, kind):
                what = f"{name!r} is a {kind} here and a {types[name]} above"
                return InputError(what, where=where, hint="Write the same type in every row; names are safest as strings")
    return InputError(f"the table cannot be parsed ({error})", where=str(path), hint="Write it again")


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return {str: "string", int: "number", float: "number", list: "list", dict: "object"}.get(type(value), "null")


def _open_parquet(path: PathLike) -> FileTable:
    open_binary(path).close()
    try:
        file = pa.parquet.ParquetFile(path, memory_map=True)
    except (pa.ArrowException, OSError):
        what = "this is not a Parquet file, or it is cut short"
        raise InputError(what, where=str(path), hint="Write or download it again") from None
    names = tuple(file.schema_arrow.names)
    _refuse_repeated(names, path)

    def read(chosen: list[str]) -> pa.Table:
        try:
            return file.read(columns=chosen)
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"the file is damaged ({error})", where=str(path), hint="Write or download it again"
            ) from None

    metadata = file.schema_arrow.metadata or {}
    classes = tuple(json.loads(metadata[METADATA_CLASSES])) if METADATA_CLASSES in metadata else None
    return FileTable(path, names, read, classes=classes)

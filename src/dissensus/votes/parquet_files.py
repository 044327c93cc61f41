"""Parquet files: everything that pyarrow may raise at a damaged file becomes an InputError here."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet

from dissensus.errors import InputError
from dissensus.votes.cells import refusing
from dissensus.votes.files import PathLike, open_binary
from dissensus.votes.votes import MOST_CELLS

METADATA_CLASSES = b"dissensus.classes"  # the key under which a Parquet file carries its classes, as a JSON list
HEAD = 100  # rows
MANY_ROWS = 100_000  # below that, threads cost more than they save
SPARSE = 0.5  # bytes per row of a file, below which cells are repeated so often that only their dictionary is read


class ParquetRows:
    """A Parquet file whose columns are read on demand."""

    def __init__(self, path: PathLike) -> None:
        self.path = path
        with open_binary(path) as file:
            if not file.seekable():
                raise InputError(
                    "a Parquet file is not read from a pipe", where=str(path), hint="Write it to a file first"
                )
            size = file.seek(0, 2)
        with refusing(str(path), "this is not a Parquet file, or it is cut short"):
            try:
                self._file = pa.parquet.ParquetFile(path, memory_map=True)
            except UnicodeDecodeError:
                hint = "Write the file again with other names"
                raise InputError("the name of a column is not UTF-8 text", where=str(path), hint=hint) from None
            schema = self._file.schema_arrow
            self._rows = self._file.metadata.num_rows
            metadata = schema.metadata or {}
            self.names = _index_first(tuple(schema.names), metadata.get(b"pandas"))
        if not 0 <= self._rows <= MOST_CELLS:
            what = f"{self._rows:,} rows do not fit in memory"
            raise InputError(what, where=str(path), hint="Count the votes first: write item, label and count")
        texts = [column.name for column in schema if pa.types.is_string(column.type)]
        if texts and size < SPARSE * self._rows:
            with refusing(str(path)):
                self._file = pa.parquet.ParquetFile(path, memory_map=True, read_dictionary=texts)
        self.classes = _classes(metadata.get(METADATA_CLASSES), path)

    def read(self, chosen: list[str]) -> pa.Table:
        """These columns."""
        with refusing(str(self.path)):
            table = self._file.read(columns=chosen, use_threads=self._rows > MANY_ROWS).select(chosen)
            table.validate(full=True)  # text is Unicode, and no cell points beyond its dictionary
            return _without_views(table)

    def head(self) -> pa.Table:
        """All columns of the first rows."""
        with refusing(str(self.path)):
            batch = next(self._file.iter_batches(batch_size=HEAD, use_threads=False), None)
            table = pa.table({}) if batch is None else pa.Table.from_batches([batch])
            table.validate(full=True)
            table = _without_views(table)
            return table.select(self.names) if table.num_columns == len(set(self.names)) else table


def _without_views(table: pa.Table) -> pa.Table:
    """The table with plain text and bytes for views of them, on which few functions of pyarrow work."""
    for place, column in enumerate(table.schema):
        plain = pa.string() if pa.types.is_string_view(column.type) else None
        plain = pa.binary() if pa.types.is_binary_view(column.type) else plain
        if plain is not None:
            table = table.set_column(place, column.name, table.column(place).cast(plain))
    return table


def _index_first(names: tuple[str, ...], pandas: bytes | None) -> tuple[str, ...]:
    """The columns with the index of a data frame first, as in its CSV: pandas writes it behind the others."""
    if pandas is None or len(set(names)) < len(names):
        return names
    try:
        described = json.loads(pandas)
    except (ValueError, RecursionError):
        return names
    index = described.get("index_columns") if isinstance(described, dict) else None
    first = [name for name in index if isinstance(name, str) and name in names] if isinstance(index, list) else []
    return (*dict.fromkeys(first), *(name for name in names if name not in first))


def _classes(metadata: bytes | None, path: PathLike) -> tuple[str, ...] | None:
    if metadata is None:
        return None
    try:
        classes = json.loads(metadata)
    except (ValueError, RecursionError):
        classes = None
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        what = f"its metadata {METADATA_CLASSES.decode()!r} is not a JSON list of class names"
        raise InputError(what, where=str(path), hint="Write the file again")
    return tuple(classes)

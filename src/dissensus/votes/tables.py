"""Tables from CSV, TSV, JSON, JSONL and Parquet: columns by name, and the line of each row for messages.

Cells of text files stay text exactly as written: "01" is not 1, and "NA" is a name like any other. Only an empty cell
(in Parquet and JSON also null, and NaN among floats) counts as missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from dissensus.errors import InputError
from dissensus.votes.cells import encode, numbers, with_points
from dissensus.votes.delimited import DELIMITERS, DelimitedText
from dissensus.votes.files import PathLike, kind_of, read_text_bytes, row_of_array
from dissensus.votes.json_rows import JsonRows
from dissensus.votes.parquet_files import METADATA_CLASSES, ParquetRows
from dissensus.votes.votes import Floats, Ints

__all__ = ["DELIMITERS", "METADATA_CLASSES", "FileTable", "open_table", "refuse_bad_header"]


@dataclass(frozen=True)
class FileTable:
    """A table in a file, whose columns are read on demand.

    `classes` are those that a Parquet file names; `notes` say how the file was taken apart (its separator, its header). A
    table that is `headless` has only numbers for names. `lost_rows` says whether a cell of a column looks as if a quote
    that was never closed had swallowed rows.
    """

    path: PathLike
    names: tuple[str, ...]
    _read: Callable[[list[str]], pa.Table]
    _head: Callable[[], pa.Table]
    _line: Callable[[int], int | None] | None = None
    classes: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    headless: bool = False
    commas_are_free: bool = False  # to be decimal marks, because another mark separates the cells
    lost_rows: Callable[[str, str], bool] = lambda cell, column: False  # noqa: ARG005
    _known: dict[str, pa.ChunkedArray] = field(default_factory=dict, repr=False)
    _encoded: dict[str, tuple[Ints, tuple[str, ...]]] = field(default_factory=dict, repr=False)
    _parsed: dict[str, Floats | None] = field(default_factory=dict, repr=False)
    _with_commas: list[str] = field(default_factory=list, repr=False)

    def columns(self, names: Sequence[str]) -> list[pa.ChunkedArray]:
        """These columns, read in one pass; what was read once is kept. A table without rows is refused."""
        if fresh := [name for name in dict.fromkeys(names) if name not in self._known]:
            table = self._read(fresh)
            if table.num_rows == 0:
                hint = "Write the rows below the header"
                raise InputError("there is a header but no row", where=str(self.path), hint=hint)
            self._known.update(zip(fresh, table.columns, strict=True))
        return [self._known[name] for name in names]

    def encoded(self, name: str) -> tuple[Ints, tuple[str, ...]]:
        """A column as codes and names (`cells.encode`), found once: many rules ask what a column holds."""
        if name not in self._encoded:
            (column,) = self.columns([name])
            self._encoded[name] = encode(column, f"{self.path}, column {name!r}")
        return self._encoded[name]

    def forget_cells(self) -> None:
        """Let go of the cells that were read; who asks for them again has them read again."""
        self._known.clear()
        pa.default_memory_pool().release_unused()

    def numbers(self, names: Sequence[str]) -> list[Floats | None]:
        """These columns as float64, NaN where a cell is missing; None for a column with a cell that is no number."""
        for name, column in zip(names, self.columns(names), strict=True):
            if name not in self._parsed:
                self._parsed[name] = numbers(column)
                if self._parsed[name] is None and self.commas_are_free and (points := with_points(column)) is not None:
                    self._parsed[name] = numbers(points)
                    self._with_commas.append(name)
        return [self._parsed[name] for name in names]

    @property
    def notes_on_numbers(self) -> tuple[str, ...]:
        """What is said about numbers that were read from these columns."""
        return (f"numbers have a decimal comma, as in {self._with_commas[0]!r}",) if self._with_commas else ()

    def head(self) -> dict[str, pa.ChunkedArray]:
        """All columns of the first rows, to see what kind of cells they hold."""
        table = self._head()
        return dict(zip(self.names, table.columns, strict=True)) if table.num_columns else {}

    def where(self, row: int) -> str:
        """A row, for messages: `votes.csv:212`."""
        line = self._line(row) if self._line is not None else None
        return row_of_array(self.path, row) if line is None else f"{self.path}:{line}"

    def without(self, ignored: Sequence[str]) -> FileTable:
        """The table without these columns, which must be there."""
        if absent := [name for name in ignored if name not in self.names]:
            what = f"there is no column {absent[0]!r} to ignore"
            raise InputError(what, where=str(self.path), hint=f"The columns are: {', '.join(self.names[:20])}")
        left_out, head = set(ignored), self._head
        kept = [index for index, name in enumerate(self.names) if name not in left_out]
        names = tuple(self.names[index] for index in kept)

        def head_of_kept() -> pa.Table:
            table = head()
            return table.select(kept) if table.num_columns else table

        return replace(self, names=names, _head=head_of_kept)


def open_table(path: PathLike) -> FileTable:
    """A table from a CSV, TSV, JSON, JSONL or Parquet file, by its extension."""
    kind = kind_of(path)
    if kind == "parquet":
        parquet = ParquetRows(path)
        table = FileTable(path, parquet.names, parquet.read, parquet.head, classes=parquet.classes)
    elif kind in ("jsonl", "json"):
        rows = JsonRows(path, read_text_bytes(path))
        table = FileTable(path, rows.names, rows.read, rows.head, rows.line)
    elif kind in DELIMITERS:
        text = DelimitedText(path, read_text_bytes(path), DELIMITERS[kind])
        table = FileTable(
            path,
            text.names,
            text.read,
            text.head,
            text.line,
            None,
            text.notes,
            text.headless,
            text.delimiter != ",",
            text.lost_rows,
        )
    else:
        raise InputError(
            f"a .{kind} file holds arrays, not a table", where=str(path), hint="Give a CSV or a Parquet file"
        )
    refuse_bad_header(table)
    return table


def refuse_bad_header(table: FileTable) -> None:
    """Refuse a table without columns, or with two of one name."""
    if not table.names:
        raise InputError(
            "the table has no columns", where=str(table.path), hint="Write at least an item and a label per row"
        )
    if repeated := [name for name, times in Counter(table.names).items() if times > 1]:
        what = f"the header names {', '.join(map(repr, sorted(repeated)))} more than once"
        hint = "Give every column its own name; if the first line is a title, delete it"
        raise InputError(what, where=str(table.path), hint=hint)

"""Data frames of pandas as tables, so that whatever is read from a file is read from memory, too."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dissensus.errors import InputError
from dissensus.votes.tables import FileTable, refuse_bad_header

WHERE = "the data frame"
HEAD = 100  # rows


def is_frame(values: Any) -> bool:
    """Whether this is a data frame of pandas."""
    return hasattr(values, "columns") and hasattr(values, "iloc")


def frame_table(frame: Any) -> FileTable:
    """A data frame as a table. Its index is the first column, unless it just numbers the rows."""
    if frame.index.nlevels > 1 or frame.index.name is not None or frame.index.dtype.kind not in "iu":
        frame = frame.reset_index()
    names = tuple(map(str, frame.columns))
    columns = []
    for place, name in enumerate(names):
        try:
            columns.append(pa.Array.from_pandas(frame.iloc[:, place]))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            kinds = ", ".join(sorted({type(cell).__name__ for cell in frame.iloc[:, place].tolist()}))
            what = f"the cells of {name!r} are of several kinds, or of one that is no name or number ({kinds})"
            hint = f"Make them text: frame.astype({{{name!r}: str}})"
            raise InputError(what, where=WHERE, hint=hint, state="") from None
    chunks = [column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column]) for column in columns]

    def read(chosen: list[str]) -> pa.Table:
        return pa.Table.from_arrays([chunks[names.index(name)] for name in chosen], names=chosen)

    def head() -> pa.Table:
        return pa.Table.from_arrays([chunk.slice(0, HEAD) for chunk in chunks], names=list(names))

    table = FileTable(WHERE, names, read, head)
    refuse_bad_header(table)
    return table

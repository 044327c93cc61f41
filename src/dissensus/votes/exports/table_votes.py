"""Votes from the columns of a platform's table, all rows at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dissensus.errors import InputError
from dissensus.votes.cells import gaps
from dissensus.votes.exports.documents import TableDocument
from dissensus.votes.exports.reader import VoteRows
from dissensus.votes.roles import listed

Mask = NDArray[np.bool_]


def column_votes(
    document: TableDocument,
    layout: str,
    columns: Mapping[str, str],
    *,
    skip: Mapping[str, Mask] | None = None,
    labels: pa.Array | None = None,
    notes: tuple[str, ...] = (),
) -> VoteRows:
    """One vote per row that has a label, except the rows to `skip`; a row is skipped for the first reason that fits.

    `columns` says which column is the item, the annotator and the label; `labels` replaces the column of labels.
    """
    read = {role: name for role, name in columns.items() if role != "label" or labels is None}
    for role, name in read.items():
        if name not in document.names:
            what = f"there is no column {name!r} (the columns are: {listed(document.names)})"
            raise InputError(what, where=str(document.path), hint=f"Pass --{role}s with one of these names")
    if len(set(columns.values())) < len(columns):
        what = f"one column cannot be two of {listed(list(columns))}"
        raise InputError(what, where=str(document.path), hint="Pass --items, --labels and --annotators")
    table = dict(zip(read, map(_flat, document.table.columns(list(read.values()))), strict=True))
    label = table["label"] if labels is None else labels
    kept: Mask = np.ones(len(label), dtype=bool)
    skipped: dict[str, int] = {}
    for reason, mask in {**(skip or {}), "rows without a label": gaps(pa.chunked_array([label]))}.items():
        skipped[reason] = int((kept & mask).sum())
        kept &= ~mask
    rows = np.flatnonzero(kept)
    picked: dict[str, pa.Array] = {}
    for role in columns:
        picked[role] = (label if role == "label" else table[role]).take(pa.array(rows))
        empty = gaps(pa.chunked_array([picked[role]]))
        if empty.any():
            where = document.where(int(rows[np.argmax(empty)]))
            raise InputError(
                f"the {role} (column {columns[role]!r}) is empty", where=where, hint="Correct or drop the row"
            )
    used = set(columns.values())
    return VoteRows(
        layout,
        columns,
        picked["item"],
        picked["label"],
        picked.get("annotator"),
        lambda vote: document.where(int(rows[vote])),
        ignored=tuple(name for name in document.names if name not in used),
        skipped=skipped,
        notes=notes,
    )


def text_column(document: TableDocument, name: str) -> pa.Array:
    """A column as stripped lower-case text, for comparing states; an empty cell is ""."""
    (column,) = document.table.columns([name])
    text = pc.fill_null(pc.cast(_flat(column), pa.string()), "")
    return pc.utf8_lower(pc.utf8_trim_whitespace(text))


def equals(column: pa.Array, *values: str) -> Mask:
    """[V]: whether a cell is one of these values."""
    mask: Mask = pc.is_in(column, value_set=pa.array(values, pa.string())).to_numpy(zero_copy_only=False)
    return mask


def _flat(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined

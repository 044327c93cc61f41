"""The user's own files: predictions, probabilities, features, and lists of ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dissensus.datasets.feature_resolution import HINT, lost_in_float32
from dissensus.datasets.rounded_shares import rounded_rows
from dissensus.errors import InputError
from dissensus.metrics.checks import SHARES_TOLERANCE, check_shares
from dissensus.votes.alignment import Items
from dissensus.votes.array_files import load_arrays
from dissensus.votes.cells import encode
from dissensus.votes.files import PathLike, check_utf8, kind_of, read_text_bytes
from dissensus.votes.json_rows import parse_json
from dissensus.votes.matrices import Matrix, array_names, read_matrix
from dissensus.votes.names import positions
from dissensus.votes.roles import column_error, find
from dissensus.votes.tables import open_table
from dissensus.votes.votes import Ints


def read_predictions(path: PathLike, *, item: str | None = None) -> Matrix:
    """A model's predictions, float64 [N, K], from npy, npz, CSV, TSV, JSONL or Parquet.

    Logits or probabilities: only NaN and +inf are refused (`read_probabilities` checks more). A table has one column per
    class; its first column holds the ids if it is called id, item, … or nothing (or `item` names it). A CSV whose first
    line is numbers has no header. An .npz holds one matrix and optionally `ids` and `classes`.
    """
    matrix = read_matrix(path, item)
    matrix = replace(matrix, values=matrix.values.astype(np.float64, copy=False))
    bad = np.isnan(matrix.values) | (matrix.values == np.inf)
    if bad.any():
        row, column = (int(index) for index in np.argwhere(bad)[0])
        what = f"{matrix.values[row, column]} in column {matrix.column(column)}"
        raise InputError(what, where=matrix.where(row), hint="Correct or drop the row")
    return matrix


def read_probabilities(path: PathLike, *, item: str | None = None) -> Matrix:
    """One distribution per item: like `read_predictions`, and every row must sum to 1.

    Rounded probabilities are accepted and divided by their sum where that is off by no more than their rounding explains
    (`datasets.rounded_shares`), and a note says so. None may be negative.
    """
    return as_probabilities(read_predictions(path, item=item))


def as_probabilities(matrix: Matrix) -> Matrix:
    """Predictions that were read as probabilities: what `read_probabilities` checks and corrects."""
    values, rounded = matrix.values, rounded_rows(matrix.values)
    if rounded is not None:
        rows, off, how = rounded
        values = values.copy()
        values[rows] /= values[rows].sum(1, keepdims=True)
        note = f"{len(rows):,} rows of probabilities rounded to {how} were divided by their sums (off by up to {off:.3g})"
        matrix = replace(matrix, values=values, notes=(*matrix.notes, f"{matrix.path}: {note}"))
    check_shares(matrix.values, where=matrix.where)
    return matrix


def as_logits(matrix: Matrix) -> Matrix:
    """Predictions that were read as logits; probabilities are refused, of which a softmax would make other ones."""
    values = matrix.values
    if len(values) > 1 and (values >= 0).all() and (np.abs(values.sum(1) - 1) < SHARES_TOLERANCE).all():
        what, hint = "every row sums to 1: these are probabilities", "Leave --logits away"
        raise InputError(what, where=str(matrix.path), hint=hint)
    return matrix


def read_features(
    path: PathLike, *, item: str | None = None, to_train: bool = False
) -> tuple[NDArray[np.float32], tuple[str, ...] | None]:
    """Features float32 [N, D], and the ids of their rows where the file has them. NaN and infinity are refused.

    `to_train` a model, features that vary by less than float32 can tell apart are refused, too.
    """
    matrix = read_feature_matrix(path, item=item, to_train=to_train)
    return matrix.values, matrix.ids


def read_feature_matrix(path: PathLike, *, item: str | None = None, to_train: bool = False) -> Matrix:
    """`read_features` with the names of the columns, where the file has them, and how it was read."""
    matrix = read_matrix(path, item)
    with np.errstate(over="ignore"):  # what overflows float32 is found as infinity below
        features = matrix.values.astype(np.float32, copy=False)
    bad = ~np.isfinite(features)
    if bad.any():
        row, column = (int(index) for index in np.argwhere(bad)[0])
        what = f"feature {matrix.column(column)} is {matrix.values[row, column]}"
        raise InputError(what, where=matrix.where(row), hint="Fill in the value, or drop the item here and in the votes")
    if to_train and (lost := lost_in_float32(matrix.values, features)):
        index, what = lost
        raise InputError(f"feature {matrix.column(index)} {what}", where=str(path), hint=HINT)
    return replace(matrix, values=features)


def read_ids(path: PathLike) -> tuple[str, ...]:
    """A list of ids: lines of a .txt, a JSON list, an array, or the item column of a table (or its only column)."""
    if str(path).lower().endswith(".txt"):
        content = read_text_bytes(path)
        check_utf8(content, path)
        lines = content.decode("utf-8-sig").splitlines()
        ids = tuple(line.strip() for line in lines if line.strip())
    elif kind_of(path) in ("npy", "npz"):
        arrays = load_arrays(path)
        lists = [array for name, array in arrays.items() if array.ndim == 1 and name in ("", "ids", "items")]
        if len(lists) != 1:
            raise InputError("there is not exactly one list of ids in it", where=str(path), hint="Save one array of ids")
        ids = array_names(lists[0])
    elif kind_of(path) == "json" and (content := read_text_bytes(path)).lstrip().startswith(b'["'):
        check_utf8(content, path)
        names = parse_json(content.decode("utf-8-sig"), str(path))
        if not all(isinstance(name, str) for name in names):
            raise InputError("this is not a list of ids", where=str(path), hint='Write ["a", "b"]')
        ids = tuple(names)
    else:
        table = open_table(path)
        column = table.names[0] if len(table.names) == 1 else find(table, "item")
        if column is None:
            raise column_error(table, "no column is known to hold the ids", "Name it `item`, or write only that column")
        codes, distinct = encode(table.columns([column])[0], f"{path}, column {column!r}")
        ids = tuple(distinct[code] for code in codes if code >= 0)
        if len(table.names) == 1 and not table.headless and find(table, "item") is None:
            ids = (column, *ids)  # a list of names without a header
    if not ids:
        raise InputError("there is no id in it", where=str(path), hint="Write one id per line")
    return tuple(dict.fromkeys(ids))


def rows_of_ids(items: Items | Sequence[str], path: PathLike) -> Ints:
    """The rows, int64, of the items that a file of ids lists (`--test-ids`), in the order of the items.

    An id that is no item is refused.
    """
    known = items.ids if isinstance(items, Items) else tuple(items)
    ids = read_ids(path)
    rows = positions(ids, known)
    if absent := [name for name, row in zip(ids, rows, strict=True) if row < 0]:
        what = f"{len(absent):,} of {len(ids):,} ids are not among the items, {absent[0]!r} among them"
        raise InputError(what, where=str(path), hint=f"Write ids of items, such as {known[0]!r}")
    return np.unique(np.array(rows, dtype=np.int64))

"""The user's own files: predictions, probabilities, features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dissensus.errors import InputError
from dissensus.metrics.checks import check_shares
from dissensus.votes.files import PathLike, kind_of
from dissensus.votes.matrices import Matrix, array_matrix, table_matrix
from dissensus.votes.tables import open_table


def read_predictions(path: PathLike, *, item: str | None = None) -> Matrix:
    """A model's predictions, float64 [N, K], from npy, npz, CSV, TSV, JSONL or Parquet.

    Logits or probabilities: only NaN and +inf are refused (`read_probabilities` checks more). A table has one column per
    class; its first column holds the ids if it is called id, item, … or nothing (or `item` names it). A CSV whose first
    line is numbers has no header. An .npz holds one matrix and optionally `ids` and `classes`.
    """
    matrix = array_matrix(path) if kind_of(path) in ("npy", "npz") else table_matrix(open_table(path), item)
    bad = np.isnan(matrix.values) | (matrix.values == np.inf)
    if bad.any():
        row, column = (int(index) for index in np.argwhere(bad)[0])
        what = f"{matrix.values[row, column]} in column {matrix.column(column)}"
        raise InputError(what, where=matrix.where(row), hint="Correct or drop the row")
    return matrix


def read_probabilities(path: PathLike, *, item: str | None = None) -> Matrix:
    """One distribution per item: like `read_predictions`, and every row must sum to 1."""
    matrix = read_predictions(path, item=item)
    check_shares(matrix.values, where=matrix.where)
    return matrix


def read_features(path: PathLike, *, item: str | None = None) -> tuple[NDArray[np.float32], tuple[str, ...] | None]:
    """Features float32 [N, D], and the ids of their rows where the file has them. NaN and infinity are refused."""
    matrix = array_matrix(path) if kind_of(path) in ("npy", "npz") else table_matrix(open_table(path), item)
    with np.errstate(over="ignore"):  # what overflows float32 is found as infinity below
        features = matrix.values.astype(np.float32)
    bad = ~np.isfinite(features)
    if bad.any():
        row, column = (int(index) for index in np.argwhere(bad)[0])
        what = f"feature {matrix.column(column)} is {matrix.values[row, column]}"
        raise InputError(what, where=matrix.where(row), hint="Fill in the value, or drop the item here and in the votes")
    return features, matrix.ids

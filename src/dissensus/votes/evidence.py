"""What numbers in a table are: how many people chose each class, or what each person said? Decided by arithmetic.

In a table of counts, a row has a fixed number of votes to share out: where one column is high, the others are low. In a
table of ratings, people who agree are high together. The ratio of the variance of the row sums to the sum of the
variances of the columns tells them apart: near 0 for counts, 1 for people who answer independently, above 1 for people
who agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from dissensus.votes.roles import TOTALS, plain
from dissensus.votes.votes import Floats

LONGEST_SCALE = 11  # points: 0 to 10
LONGEST_SLIDER = 100
MANY_CELLS = 50
MANY_ROWS = 10
FEW_ROWS = 4
SOME_ROWS = 6
MANY_SILENT = 0.1
CHANCE = 0.01  # of a ratio so low where people answer independently; where they agree, it is lower still


def counts_or_ratings(values: NDArray[Any]) -> tuple[Literal["counts", "wide"] | None, str]:
    """What a table [N, K] of numbers is, and why; None where the evidence is thin.

    Negative numbers and fractions count as counts here: whoever reads the counts refuses them, and says where they are.

    >>> counts_or_ratings(np.array([[3.0, 0.0], [1.0, 2.0]]))
    ('counts', 'every row sums to 3')
    >>> counts_or_ratings(np.array([[1.0, 2.0], [5.0, 4.0]]))[0] is None
    True
    """
    fractions = values.dtype.kind == "f" and (not np.isfinite(values).all() or (values != np.floor(values)).any())
    if fractions or (values < 0).any():
        return "counts", "not all are whole numbers from 0 on"
    rows, values = len(values), values[values.any(1)]
    n = len(values)
    if n == 0 or values.max() > LONGEST_SLIDER:
        return "counts", f"no scale of ratings goes beyond {LONGEST_SLIDER}"
    if rows >= MANY_ROWS and rows - n > MANY_SILENT * rows:  # of a table of counts, few rows have no vote at all
        return None, f"{rows - n:,} of {rows:,} rows are all 0"
    sums, has_zeros = values.sum(1), bool((values == 0).any())
    if sums.min() == sums.max() and (n >= FEW_ROWS or has_zeros):
        return "counts", f"every row sums to {sums[0]:g}"
    by_column = float(sum(column.var() for column in values.T))  # one by one: a copy of all as floats is large
    ratio = float(sums.var()) / by_column if by_column > 0 else 1.0
    by_chance = chdtri(n - 1, 1 - CHANCE) / (n - 1) if n >= FEW_ROWS else 0.5  # so few rows cannot tell either way
    if n > 1 and ratio <= min(0.5, by_chance) and (has_zeros or n >= MANY_ROWS):
        return "counts", "where one column is high, the others are low"
    if values.max() >= 2 * LONGEST_SCALE and has_zeros and (values == 0).mean() >= 0.2:
        return "counts", f"there are many zeros beside numbers up to {values.max():g}"
    on_a_scale = values.max() - values.min() < LONGEST_SCALE and values.max() <= LONGEST_SCALE
    if on_a_scale and values.size >= MANY_CELLS and n >= MANY_ROWS and (not has_zeros or ratio >= 1.5):
        return "wide", f"all numbers are from {values.min():g} to {values.max():g}, and the rows sum to different totals"
    return None, f"the rows sum to {sums.min():g} to {sums.max():g}"


def counts_with_gaps(values: Floats) -> bool:
    """Whether the rows [N, K] without a gap (NaN) differ, and all have one sum: as counts by equally many people do."""
    whole = values[np.isfinite(values).all(1)]
    return len(whole) >= SOME_ROWS and bool((whole.sum(1) == whole[0].sum()).all()) and bool((whole != whole[0]).any())


def row_sum(values: Floats, names: Sequence[str]) -> str | None:
    """The column that is the sum of all others in every row, where that can hardly be chance."""
    if values.shape[1] < 3:
        return None
    is_sum = (2 * values == values.sum(1, keepdims=True)).all(0) & (values.max(0) > 0)
    equal = [name for name, equals in zip(names, is_sum, strict=True) if equals]
    named = [name for name in equal if plain(name) in TOTALS]
    if named:
        return named[0]
    return equal[0] if len(equal) == 1 and len(values) > FEW_ROWS else None


def counts_rows(values: Floats) -> bool:
    """Whether a column just numbers the rows, from 0 or from 1."""
    steps = np.arange(len(values))
    return len(values) > 2 and (np.array_equal(values, steps) or np.array_equal(values, steps + 1))


def not_a_class(values: Floats, names: Sequence[str]) -> tuple[str, str] | None:
    """A column among counts [N, K] that can hardly be one of them (a year, a length), and why."""
    if values.shape[1] < 3 or len(values) <= FEW_ROWS:
        return None
    for name, column in zip(names, values.T, strict=True):
        others = values.sum(1) - column
        if others.min() == others.max() > 0 and column.min() < column.max():
            return name, f"without it, every row sums to {others[0]:g}"
        if column.min() > others.max() > 0:
            return name, f"it is at least {column.min():g}, and all others together are at most {others.max():g}"
    return None

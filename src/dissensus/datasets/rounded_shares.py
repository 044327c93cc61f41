"""Probabilities that were rounded: to decimals, or to float16 or bfloat16, so that they do not quite sum to 1."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dissensus.metrics.checks import SHARES_TOLERANCE

MOST_OFF = 0.05  # whatever the rounding
TEXTS = 1000  # rows whose text is compared with that of float16
Shares = NDArray[np.float64]


def rounded_rows(values: Shares) -> tuple[NDArray[np.int64], float, str] | None:
    """The rows of [N, K] whose sum is off by no more than their rounding explains; by how much at most, and what it is.

    None where there are none. The sum of K numbers with d decimals is off by at most K / 2 of the last decimal (three
    decimals are given the room of two). That of float16 is off by 2^-10 of itself and K times the smallest number, that
    of bfloat16 by 2^-8: twice what rounding to the nearest does, because some programs round towards zero.

    >>> rows, off, how = rounded_rows(np.array([[0.33, 0.33, 0.33], [0.5, 0.25, 0.25]]))
    >>> rows.tolist(), round(off, 3), how
    ([0], 0.01, '2 decimals')
    """
    with np.errstate(invalid="ignore", over="ignore"):  # infinite logits
        off = np.abs(values.sum(1) - 1)
        doubtful = np.flatnonzero((off > SHARES_TOLERANCE) & (off <= MOST_OFF + 1e-9) & (values >= 0).all(1))
    if not len(doubtful):
        return None
    how, most = max(_roundings(values[doubtful]), key=lambda rounding: rounding[1], default=("", 0.0))
    rows = doubtful[off[doubtful] <= min(most, MOST_OFF) + 1e-9]
    return (rows, float(off[rows].max()), how) if len(rows) else None


def _roundings(values: Shares) -> Iterator[tuple[str, float]]:
    """What these numbers can have been rounded to, and by how much that moves the sum of a row at most."""
    classes = values.shape[1]
    for decimals in range(2, 7):
        steps = values * 10**decimals
        if np.abs(steps - np.round(steps)).max() < 1e-6 * max(1, 10 ** (decimals - 2)):
            yield f"{decimals} decimals", classes / 2 * 10.0 ** -(2 if decimals == 3 else decimals)
            break
    single = values.astype(np.float32)
    half = single.astype(np.float16)
    if not (single.view(np.uint32) & 0xFFFF).any():
        yield "bfloat16", 2.0**-8
    elif (half == single).all() or (half[:TEXTS].astype(str).astype(float) == values[:TEXTS]).all():
        yield "float16", 2.0**-10 + classes * 2.0**-24

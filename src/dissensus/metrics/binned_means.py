"""Many items as a few points of a figure."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def zero_then_equal_mass(x: Floats, y: Floats, bins: int) -> dict[str, list[Any]]:
    """Means of `x` and `y` over the items with x exactly 0, and then over `bins` bins of equal mass of the others.

    Bins are made by stable sorting and `array_split`. An empty bin stays, with None for its means, so that the bins of
    all runs match by position.

    >>> zero_then_equal_mass(np.array([0.0, 3.0, 0.0, 1.0, 2.0]), np.array([1.0, 30.0, 2.0, 10.0, 20.0]), bins=2)
    {'x': [0.0, 1.5, 3.0], 'y': [1.5, 15.0, 30.0], 'items': [2, 2, 1]}
    """
    positive = np.flatnonzero(x > 0)
    ordered = positive[np.argsort(x[positive], kind="stable")]
    groups = [np.flatnonzero(x == 0), *np.array_split(ordered, bins)]
    return {
        "x": [_mean(x[rows]) for rows in groups],
        "y": [_mean(y[rows]) for rows in groups],
        "items": [len(rows) for rows in groups],
    }


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None

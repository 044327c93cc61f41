"""Features are kept in float32: which of them vary by less than it can tell apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

COARSEST = 0.1  # standard deviations of a feature by which float32 may move a value
HINT = "Subtract its mean first, or leave it out"


def lost_in_float32(values: NDArray[Any], kept: NDArray[np.float32]) -> tuple[int, str] | None:
    """The first feature of `values` [N, D] that `kept`, their float32, has lost, and what is wrong with it.

    >>> values = 1e9 + np.array([[0.0], [1.0], [2.0]])
    >>> lost_in_float32(values, values.astype(np.float32))
    (0, 'varies by 0.816 around 1e+09, which float32 cannot tell apart')
    """
    if values.dtype.kind not in "fiu" or values.dtype.itemsize <= kept.dtype.itemsize:
        return None
    for column in range(kept.shape[1]):
        wide = values[:, column].astype(np.float64)
        if np.abs(wide - kept[:, column]).max() > COARSEST * wide.std() > 0:
            return column, f"varies by {wide.std():.3g} around {wide.mean():.6g}, which float32 cannot tell apart"
    return None

"""Rounding must not decide what is equal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def without_rounding(values: Floats) -> Floats:
    """Cut to 32 significant bits: equal sums that were added in another order differ in the last bits, and must tie.

    >>> [0.1 + 0.2 == 0.3, bool(np.equal(*without_rounding(np.array([0.1 + 0.2, 0.3]))))]
    [False, True]
    """
    mantissa, exponent = np.frexp(values)
    cut: Floats = np.ldexp(np.round(np.ldexp(mantissa, 32)), exponent - 32)
    return cut

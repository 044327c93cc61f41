"""Gaussian smoothing on [0, 1], reflected at both ends, exactly and in near-linear time.

The reflected Gaussian is the heat kernel of the interval, so smoothing is a product in its cosines:

    Σ w_i K_σ(t, x_i) = c_0 + 2 Σ_k c_k exp(−(πkσ)²/2) cos(πkt),    c_k = Σ w_i cos(πk x_i).

There is no grid over the kernel, hence no weights to get wrong at its ends; the series ends where its terms are 1e-14.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

REACH = 8.0  # in πkσ: exp(−32) = 1.3e-14
CELLS_PER_MODE = 4  # then |πk · (distance to the nearest node)| ≤ π/8, and the Taylor terms below reach 1e-14
TAYLOR_TERMS = 12
NODES_PER_MODE = 8  # then nodes are at most σ/20 apart


def sum_equal(position: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """The distinct positions, and the sum of the weights at each over the number of all: what stays as σ → 0."""
    distinct, index = np.unique(position, return_inverse=True)
    return distinct, np.bincount(index, weight) / len(position)


def cosines(position: Floats, weight: Floats, sigma: float) -> Floats:
    """c_k for every k that matters at this width or a larger one.

    One FFT per Taylor term: each weight moves to its nearest node, and the terms undo the move.
    """
    modes = _modes(sigma)
    cells = CELLS_PER_MODE * modes
    node = np.rint(position * cells).astype(np.int64)
    offset = position - node / cells
    turn = -1j * np.pi * np.arange(modes)
    waves = np.zeros(modes, dtype=np.complex128)
    moved, turned = weight, np.ones(modes, dtype=np.complex128)
    for order in range(TAYLOR_TERMS):
        waves += turned * np.fft.rfft(np.bincount(node, moved, minlength=cells + 1), 2 * cells)[:modes]
        moved, turned = moved * offset / (order + 1), turned * turn
    return waves.real


def smoothed(coefficients: Floats, sigma: float, grid: Floats) -> Floats:
    """Σ w_i K_σ(t, x_i) at each t of the grid, from the `cosines` of (x, w)."""
    damped = _damped(coefficients, sigma)
    waves = np.cos(np.pi * np.outer(grid, np.arange(len(damped))))
    values: Floats = waves @ np.concatenate([damped[:1], 2 * damped[1:]])
    return values


def mean_absolute(coefficients: Floats, sigma: float) -> float:
    """∫₀¹ |r(t)| dt of the smoothed r(t) = Σ w_i K_σ(t, x_i), from the `cosines` of (x, w).

    Taken as the total variation of r's antiderivative, which the series gives exactly: between two nodes r changes sign
    at most once, and there the antiderivative is followed to its turning point.
    """
    damped = _damped(coefficients, sigma)
    nodes = NODES_PER_MODE * len(damped)
    slope = np.fft.irfft(damped, 2 * nodes, norm="forward")[: nodes + 1]
    waves = np.concatenate([[0], damped[1:] / (1j * np.pi * np.arange(1, len(damped)))])  # ∫ cos(πkt) = sin(πkt) / πk
    total = np.fft.irfft(waves, 2 * nodes, norm="forward")[: nodes + 1] + damped[0] * np.linspace(0, 1, nodes + 1)
    turns = np.flatnonzero(slope[:-1] * slope[1:] < 0)
    before, after = slope[turns] / nodes, slope[turns + 1] / nodes
    s = before / (before - after)  # where the chord crosses 0; an error here enters squared, for r is 0 there
    turning = (  # the cubic through both ends with their slopes
        total[turns] * (1 + 2 * s) * (1 - s) ** 2
        + before * s * (1 - s) ** 2
        + total[turns + 1] * s**2 * (3 - 2 * s)
        - after * s**2 * (1 - s)
    )
    return float(np.abs(np.diff(np.insert(total, turns + 1, turning))).sum())


def root_of_falling(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling function crosses 0 between `low` (≥ 0 there) and `high` (≤ 0), to 1e-8 of itself.

    The Illinois variant of false position: an end that stays twice counts half. (scipy.optimize has better methods, but
    takes longer to import than all metrics take to run.)
    """
    at_low, at_high = function(low), function(high)
    stayed = 0
    while high - low > 1e-8 * high:
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        at_middle = function(middle)
        if abs(at_middle) <= 1e-8 * middle:
            return middle
        if at_middle > 0:
            low, at_low = middle, at_middle
            at_high /= 2 if stayed == 1 else 1
            stayed = 1
        else:
            high, at_high = middle, at_middle
            at_low /= 2 if stayed == -1 else 1
            stayed = -1
    return low


def _damped(coefficients: Floats, sigma: float) -> Floats:
    modes = min(len(coefficients), _modes(sigma))
    return coefficients[:modes] * np.exp(-((np.pi * np.arange(modes) * sigma) ** 2) / 2)


def _modes(sigma: float) -> int:
    return 1 << max(2, math.ceil(math.log2(REACH / (math.pi * sigma))))  # a power of two, for the FFT

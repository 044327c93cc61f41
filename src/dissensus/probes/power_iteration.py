"""Power iteration: the eigenvalue of largest magnitude."""

from __future__ import annotations

import math

from dissensus.probes.estimate import Estimate, EstimateProgress, SymmetricMatrix, ignore, random_direction


def power_iteration(
    matrix: SymmetricMatrix,
    *,
    seed: int,
    tolerance: float = 1e-3,
    max_products: int = 100,
    progress: EstimateProgress = ignore,
) -> Estimate:
    """The eigenvalue of largest magnitude; stop when it changes by less than `tolerance`, relative to itself.

    This is what PyHessian does, and "Same Target, Different Basins" (2026). That the value has stopped changing does not
    mean that it is near: where two eigenvalues are close, the error (the residual) is far above the tolerance. A negative
    result is not the largest eigenvalue, and counts as not converged.
    """
    vector = random_direction(matrix, seed, "power_iteration")
    previous = math.inf
    for products in range(1, max_products + 1):
        image = matrix(vector)
        value = float(vector @ image)
        residual = float((image - value * vector).norm())
        settled = residual == 0 or abs(value - previous) <= tolerance * abs(value)
        estimate = Estimate(value, residual, products, settled and value >= 0)
        progress(estimate)
        if settled:
            break
        previous, vector = value, image / image.norm()
    return estimate

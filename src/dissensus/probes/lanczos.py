"""Lanczos: the largest eigenvalue, in about half the products of power iteration."""

from __future__ import annotations

import torch

from dissensus.probes.estimate import (
    Estimate,
    EstimateProgress,
    SymmetricMatrix,
    ignore,
    orthogonalised,
    random_direction,
)


def lanczos(
    matrix: SymmetricMatrix,
    *,
    seed: int,
    tolerance: float = 1e-3,
    max_products: int = 100,
    basis: int = 20,
    progress: EstimateProgress = ignore,
) -> Estimate:
    """The largest eigenvalue (of sign +), with full reorthogonalisation; stop at a residual of `tolerance`·λ.

    Memory is `basis` + 1 vectors: when they are full, the best third is kept (thick restart; Wu & Simon, 2000).
    """
    basis = max(min(basis, matrix.size), 3)
    vectors = torch.zeros(basis + 1, matrix.size, dtype=matrix.dtype, device=matrix.device)
    vectors[0] = random_direction(matrix, seed, "lanczos")
    projected = torch.zeros(basis, basis, dtype=torch.float64)  # the matrix, seen from the span of the vectors
    last = 0
    for products in range(1, max_products + 1):
        spanned = vectors[: last + 1]
        image, coefficients = orthogonalised(matrix(vectors[last]), spanned)
        projected[last, : last + 1] = projected[: last + 1, last] = coefficients.to("cpu", torch.float64)
        length = float(image.norm())
        values, combinations = torch.linalg.eigh(projected[: last + 1, : last + 1])
        value, residual = float(values[-1]), length * abs(float(combinations[-1, -1]))
        nothing_left = length <= torch.finfo(matrix.dtype).eps * float(values.abs().max())
        estimate = Estimate(value, residual, products, nothing_left or residual <= tolerance * abs(value))
        progress(estimate)
        if estimate.converged:
            break
        last += 1
        if last == basis:
            last = basis // 3
            vectors[:last] = combinations[:, -last:].T.to(vectors) @ spanned
            projected = torch.zeros_like(projected)
            projected[range(last), range(last)] = values[-last:]
        vectors[last] = image / length
    return estimate

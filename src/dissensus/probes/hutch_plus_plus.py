"""Hutch++ (Meyer et al., 2021): the trace, exact on the large eigenvalues and by Hutchinson's estimator on the rest."""

from __future__ import annotations

import torch

from dissensus.probes.estimate import (
    Estimate,
    EstimateProgress,
    SymmetricMatrix,
    ignore,
    orthogonalised,
    random_signs,
)
from dissensus.probes.hutchinson import FEWEST_PROBES, mean_of_probes, standard_error


def hutch_plus_plus(
    matrix: SymmetricMatrix,
    *,
    seed: int,
    tolerance: float = 0.02,
    max_products: int = 1000,
    rank: int = 30,
    progress: EstimateProgress = ignore,
) -> Estimate:
    """The trace, exact on a subspace of the large eigenvalues and by Hutchinson's estimator outside it.

    The subspace grows, at two products per dimension and to at most `rank` dimensions, which is also the memory, as long
    as a dimension saves more probes than it costs (after Persson, Cortinovis & Kressner, 2022). Where no eigenvalue
    stands out, a few products are lost on finding that out.
    """
    subspace = torch.zeros(rank, matrix.size, dtype=matrix.dtype, device=matrix.device)
    dimensions, trace_inside, products, useless_dimensions = 0, 0.0, 0, 0
    rough_traces: list[float] = []
    while dimensions < rank and products + 2 + FEWEST_PROBES <= max_products and useless_dimensions < 2:
        signs = random_signs(matrix, seed, "hutch_plus_plus", "sketch", dimensions)
        sketch = matrix(signs)
        rough_traces.append(float(signs @ sketch))
        direction, _ = orthogonalised(sketch, subspace[:dimensions])
        length = float(direction.norm())
        products += 1
        if length <= 10 * torch.finfo(matrix.dtype).eps * float(sketch.norm()):
            break  # the subspace is all the matrix has
        direction /= length
        image = matrix(direction)
        products += 1
        curvature = float(direction @ image)
        # A standard error s needs 2‖R‖²/s² probes, R the matrix outside the subspace: a fall of ‖R‖² by s² saves the two
        # products that this dimension cost.
        outside = float(orthogonalised(image, subspace[:dimensions])[0].square().sum())
        rough_trace = sum(rough_traces) / len(rough_traces)
        fall = 2 * outside - curvature**2
        useless_dimensions = 0 if fall > (tolerance * abs(rough_trace)) ** 2 else useless_dimensions + 1
        subspace[dimensions], trace_inside, dimensions = direction, trace_inside + curvature, dimensions + 1
        progress(Estimate(rough_trace, standard_error(rough_traces), products, False))

    def probe(index: int) -> float:
        signs = random_signs(matrix, seed, "hutch_plus_plus", "probe", index)
        outer, _ = orthogonalised(signs, subspace[:dimensions])
        return float(outer @ matrix(outer))

    return mean_of_probes(probe, tolerance, max_products, progress, known=trace_inside, products=products)

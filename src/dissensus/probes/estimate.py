"""What every estimator of curvature shares: the matrix it multiplies with, random vectors, the estimate it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import normalize

from dissensus import random


@dataclass(frozen=True)
class Estimate:
    """A value, how far off it may be, and how many products with the matrix it took.

    `error` has the unit of the value. For an eigenvalue it is the residual ‖Hv − λv‖: some eigenvalue is that near. For
    a trace it is one standard error. `converged` says whether the tolerance was met.
    """

    value: float
    error: float
    products: int
    converged: bool


EstimateProgress = Callable[[Estimate], object]
"""Called with the estimate so far, after every product or every second one: a product is where the time goes."""


class SymmetricMatrix(Protocol):
    """What the estimators need of a symmetric matrix: to multiply it with a vector [size]."""

    size: int
    dtype: torch.dtype
    device: torch.device

    def __call__(self, vector: Tensor) -> Tensor:
        """The product [size]."""
        ...


def ignore(estimate: Estimate) -> None:
    """The progress that nobody watches."""


def random_direction(matrix: SymmetricMatrix, seed: int, estimator: str) -> Tensor:
    """A vector of length 1, uniform over directions."""
    drawn = torch.randn(matrix.size, generator=random.generator(seed, "probe", estimator), dtype=torch.float64)
    return normalize(drawn, dim=0).to(matrix.device, matrix.dtype)


def random_signs(matrix: SymmetricMatrix, seed: int, *where: int | str) -> Tensor:
    """A vector of −1 and 1; `where` names its random stream."""
    bits = torch.randint(0, 2, (matrix.size,), generator=random.generator(seed, "probe", *where))
    return bits.mul_(2).sub_(1).to(matrix.device, matrix.dtype)


def orthogonalised(vector: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    """The part of a vector outside an orthonormal basis [k, size], and its coefficients inside [k]."""
    inside = basis @ vector
    vector = vector - inside @ basis
    again = basis @ vector  # what the first pass left in by rounding
    return vector - again @ basis, inside + again

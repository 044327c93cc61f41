"""Hutchinson's estimator of the trace (Hutchinson, 1989)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from dissensus.probes.estimate import Estimate, EstimateProgress, SymmetricMatrix, ignore, random_signs

FEWEST_PROBES = 16  # a standard error from fewer is too often small by luck


def hutchinson(
    matrix: SymmetricMatrix,
    *,
    seed: int,
    tolerance: float = 0.02,
    max_products: int = 1000,
    progress: EstimateProgress = ignore,
) -> Estimate:
    """The trace as the mean of gᵀHg over random signs g; stop at a standard error of `tolerance` times the trace.

    At least 16 probes are taken, one product each. "Same Target, Different Basins" (2026) estimates traces this way.
    """

    def probe(index: int) -> float:
        signs = random_signs(matrix, seed, "hutchinson", index)
        return float(signs @ matrix(signs))

    return mean_of_probes(probe, tolerance, max_products, progress)


def mean_of_probes(
    probe: Callable[[int], float],
    tolerance: float,
    max_products: int,
    progress: EstimateProgress,
    known: float = 0.0,
    products: int = 0,
) -> Estimate:
    """`known` plus the mean of probes, until its standard error is small or `max_products` are spent.

    A probe takes one product; `products` were spent before.
    """
    samples: list[float] = []
    estimate = Estimate(known, math.inf, products, False)
    while products + len(samples) < max_products and not estimate.converged:
        samples.append(probe(len(samples)))
        value, error = known + sum(samples) / len(samples), standard_error(samples)
        enough = len(samples) >= FEWEST_PROBES and error <= tolerance * abs(value)
        estimate = Estimate(value, error, products + len(samples), enough)
        progress(estimate)
    return estimate


def standard_error(samples: list[float]) -> float:
    """Of the mean; infinite where there are fewer than two."""
    if len(samples) < 2:
        return math.inf
    return float(torch.tensor(samples, dtype=torch.float64).std()) / math.sqrt(len(samples))

"""What a finite number of votes allows: nobody can score below the floor, and the truth itself would not reach 1.

Votes are a sample. A model that knew the true distribution of every item would still differ from the votes that
happened to be cast; without these numbers that distance looks like a fault of the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dissensus import random
from dissensus.metrics.agreement import Kind, entropy
from dissensus.metrics.checks import checked_counts, checked_probs

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BLOCK = 2**21  # entropies held at once, 16 MB


def soft_nll_floor(target: Tensor) -> Tensor:
    """The least soft NLL each item allows, float64 [N]: the entropy of its votes. Only a copy of the votes reaches it."""
    return entropy(target)


def soft_nll_expected(counts: Tensor) -> Tensor:
    """What a model that knew the true p would score on these votes, float64 [N].

    Its expected soft NLL, E[−Σ p̂ log p], is the true entropy. The entropy of m votes falls short of that by about
    (classes − 1) / 2m, which Miller and Madow add back, with the classes that got a vote for those that could: still
    a little low where rare classes were missed.
    """
    counts = checked_counts(counts)
    votes = counts.sum(1)
    return entropy(counts / votes[:, None]) + ((counts > 0).sum(1) - 1) / (2.0 * votes)


def soft_brier_unbiased(probs: Tensor, counts: Tensor) -> Tensor:
    """An unbiased estimate of Σ (q − p)² to the true p, float64 [N]: ‖q − p̂‖² − (1 − ‖p̂‖²) / (m − 1).

    NaN where an item has one vote: the spread of its votes cannot be known. Single items may come out below 0.
    """
    probs = checked_probs(probs)
    counts = checked_counts(counts, probs)
    votes = counts.sum(1).double()
    shares = counts / votes[:, None]
    noise = (1 - shares.square().sum(1)) / (votes - 1)
    return ((probs - shares).square().sum(1) - noise).masked_fill(votes == 1, torch.nan)


def entropy_correlation_ceiling(counts: Tensor, *, halvings: int = 200, seed: int = 0) -> dict[Kind, float | None]:
    """The entropy correlation that a model with the true entropies would reach with votes this few: √(2r / (1 + r)).

    r is the correlation between the entropies of two random halves of each item's votes, averaged over `halvings`
    (Spearman and Brown's formula carries it from half the votes to all of them). Of an odd number the second half gets
    one more. Items with one vote are left out. None where r ≤ 0, or where the entropies of some half do not vary at all.
    """
    table = _canonical(checked_counts(counts).numpy())
    return dict(_ceiling(table.tobytes(), table.shape, halvings, seed))


@lru_cache(maxsize=4)  # the same votes judge a model raw and tempered, and the next model after it
def _ceiling(content: bytes, shape: tuple[int, int], halvings: int, seed: int) -> Mapping[Kind, float | None]:
    table = np.frombuffer(content, dtype=np.int64).reshape(shape)
    disputed = table[table[:, 1] > 0] if table.shape[1] > 1 else table[:0]
    unanimous = len(table) - len(disputed)
    if len(disputed) == 0:
        return {"pearson": None, "spearman": None}
    generator = random.numpy_generator(seed, "probe", "halves")
    reached: dict[Kind, list[Floats]] = {"pearson": [], "spearman": []}
    block = max(1, BLOCK // len(disputed))
    for start in range(0, halvings, block):
        pair = _halved_entropies(disputed, min(block, halvings - start), generator)
        reached["pearson"].append(_correlations(*pair, unanimous))
        first, second = (_midranks(half, unanimous) for half in pair)
        reached["spearman"].append(_correlations(first, second, unanimous))
    return {kind: _spearman_brown(float(np.concatenate(parts).mean())) for kind, parts in reached.items()}


def _spearman_brown(r: float) -> float | None:
    return math.sqrt(2 * r / (1 + r)) if r > 0 else None  # NaN > 0 is false


def _canonical(counts: Ints) -> Ints:
    """Rows that can be halved, each with its largest class first, in an order that does not depend on the given one.

    Entropies do not care which class is which, so neither the order of the items nor that of the classes changes a draw.
    """
    rows = np.sort(counts[counts.sum(1) > 1], 1)[:, ::-1]
    return rows[np.lexsort(rows.T)]


def _halved_entropies(counts: Ints, halvings: int, generator: np.random.Generator) -> tuple[Floats, Floats]:
    """Entropies of both halves of each row [halvings, n], every halving drawn without replacement.

    Class by class from the smallest up: the number of its votes that fall in the first half is hypergeometric.
    """
    votes = counts.sum(1)
    size = votes // 2, votes - votes // 2
    xlogx = np.arange(votes.max() + 1) * np.log(np.maximum(np.arange(votes.max() + 1), 1))
    sums = tuple(np.zeros((halvings, len(counts))) for _ in size)
    wanted = np.tile(size[0], (halvings, 1))  # votes that the first half still lacks
    left = votes.copy()
    for column in range(counts.shape[1] - 1, 0, -1):
        rows = np.flatnonzero(counts[:, column])
        cast = counts[rows, column]
        left[rows] -= cast
        taken = generator.hypergeometric(cast, left[rows], wanted[:, rows])
        wanted[:, rows] -= taken
        sums[0][:, rows] += xlogx[taken]
        sums[1][:, rows] += xlogx[cast - taken]
    sums[0][:] += xlogx[wanted]
    sums[1][:] += xlogx[counts[:, 0] - wanted]
    # Rounded, because the same shares summed in another order, or of another number of votes, must tie.
    first, second = (np.round(np.log(n) - total / n, 10) for n, total in zip(size, sums, strict=True))
    return first, second


def _midranks(values: Floats, zeros: int) -> Floats:
    """Midranks of each row of [R, n], counted as if `zeros` more items with the value 0 stood in it, shifted so that
    those zeros have the value 0 again."""
    distinct = np.unique(np.append(values, 0.0))  # so few that counting beats sorting every row
    place = np.searchsorted(distinct, values)
    ranks = np.empty_like(values)
    for row, places in enumerate(place):
        size = np.bincount(places, minlength=len(distinct))
        size[0] += zeros
        midrank = np.cumsum(size) - (size - 1) / 2
        ranks[row] = (midrank - midrank[0])[places]
    return ranks


def _correlations(first: Floats, second: Floats, zeros: int) -> Floats:
    """Pearson's correlation of each row of two [R, n], with `zeros` more items that are 0 in both; NaN if undefined."""
    n = first.shape[1] + zeros
    mean_first, mean_second = first.sum(1) / n, second.sum(1) / n
    covariance = np.einsum("rn,rn->r", first, second) / n - mean_first * mean_second
    spread_first = np.einsum("rn,rn->r", first, first) / n - mean_first**2
    spread_second = np.einsum("rn,rn->r", second, second) / n - mean_second**2
    flat = np.minimum(spread_first, spread_second) <= 1e-15
    with np.errstate(divide="ignore", invalid="ignore"):
        correlations: Floats = np.where(flat, np.nan, covariance / np.sqrt(spread_first * spread_second))
    return correlations

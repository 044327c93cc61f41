"""What a finite number of votes allows: nobody can score below the floor, and the truth itself would not reach 1.

Votes are a sample. A model that knew the true distribution of every item would still differ from the votes that
happened to be cast; without these numbers that distance looks like a fault of the model. Where the truth is known
(a simulated crowd) it is scored like a model; elsewhere what it would score is estimated, with a range.
`benchmarks/ceilings.py` measures the error of these estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from scipy.special import xlogy
from torch import Tensor

from dissensus import random
from dissensus.metrics.agreement import KINDS, Kind, correlation, entropy
from dissensus.metrics.checks import checked_counts, checked_probs
from dissensus.metrics.vote_mixture import CountsByRow, Floats, Start, VoteMixture, sample

NUMBERS = 2**18  # drawn for each fit, in a number of draws between the next two
LEAST_DRAWS, MOST_DRAWS = 2, 100
NO_DOUBT = 1e-6  # nats: true entropies below it are tied at 0


def soft_nll_floor(target: Tensor) -> Tensor:
    """The least soft NLL each item allows, float64 [N]: the entropy of its votes. Only a copy of the votes reaches it."""
    return entropy(target)


def soft_brier_unbiased(probs: Tensor, counts: Tensor) -> Tensor:
    """An unbiased estimate of Σ (q − p)² to the true p, float64 [N]: ‖q − p̂‖² − (1 − ‖p̂‖²) / (m − 1).

    NaN where an item has one vote: the spread of its votes cannot be known. Single items may come out below 0.
    """
    probs = checked_probs(probs)
    return unchecked_brier_unbiased(probs, checked_counts(counts, probs))


def unchecked_brier_unbiased(probs: Tensor, counts: Tensor) -> Tensor:
    """`soft_brier_unbiased` without its checks."""
    votes = counts.sum(1).double()
    shares = counts / votes[:, None]
    noise = (1 - shares.square().sum(1)) / (votes - 1)
    return ((probs - shares).square().sum(1) - noise).masked_fill(votes == 1, torch.nan)


@dataclass(frozen=True)
class RangedEstimate:
    """A best guess, and the lowest and highest value among the explanations of the votes. None: undefined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class TruthScores:
    """What the true distributions would score on the votes, estimated from the votes alone."""

    soft_nll: RangedEstimate
    entropy_pearson: RangedEstimate
    entropy_spearman: RangedEstimate


def estimate_truth_scores(counts: Tensor) -> TruthScores:
    """What a model that knew every item's true distribution would score on these votes [N, K].

    A `VoteMixture` is fitted to the counts. The soft NLL is its expectation given the votes; a correlation is the mean
    over true distributions drawn given the votes, their entropies against those of the votes. All undefined where no
    item has two votes; correlations, where the entropies of the votes do not vary.
    """
    return estimate_from_rows(checked_counts(counts))


def estimate_from_rows(counts: CountsByRow) -> TruthScores:
    """The same from counts that were checked and may be read in slices alone."""
    table = sample(counts)
    return _estimated(table.tobytes(), table.shape, counts.shape[1])


@lru_cache(maxsize=4)  # the same votes judge the next model, too
def _estimated(content: bytes, shape: tuple[int, int], classes: int) -> TruthScores:
    table = np.frombuffer(content, dtype=np.int64).reshape(shape)
    undefined = RangedEstimate(None, None, None)
    if classes == 1:
        return TruthScores(RangedEstimate(0.0, 0.0, 0.0), undefined, undefined)
    if table.sum(1).max() < 2:
        return TruthScores(undefined, undefined, undefined)
    mixture = VoteMixture(table, classes)
    fits = mixture.fit()
    correlations = {start: _correlations(mixture, weights) for start, weights in fits.items()}
    return TruthScores(
        soft_nll=_ranged({start: mixture.soft_nll(weights) for start, weights in fits.items()}),
        entropy_pearson=_ranged({start: of_start["pearson"] for start, of_start in correlations.items()}),
        entropy_spearman=_ranged({start: of_start["spearman"] for start, of_start in correlations.items()}),
    )


def _ranged(values: dict[Start, float | None]) -> RangedEstimate:
    if values["simple"] is None:
        return RangedEstimate(None, None, None)
    defined = [value for value in values.values() if value is not None]
    return RangedEstimate(values["simple"], min(defined), max(defined))


def _correlations(mixture: VoteMixture, weights: Floats) -> dict[Kind, float | None]:
    """The mean over draws of the correlation between true entropies and those of the votes; None where undefined."""
    of_votes = _entropies(mixture.rows / mixture.votes[:, None])[mixture.row_of_item]
    draws = min(MOST_DRAWS, max(LEAST_DRAWS, NUMBERS // (mixture.items * mixture.classes)))
    generator = random.numpy_generator(0, "probe", "true distributions")
    truths = [_entropies(mixture.draw(weights, generator)) for _ in range(draws)]
    truths = [np.where(truth < NO_DOUBT, 0.0, truth) for truth in truths]
    means: dict[Kind, float | None] = {}
    for kind in KINDS:
        values = [value for truth in truths if (value := correlation(truth, of_votes, kind=kind)) is not None]
        means[kind] = float(np.mean(values)) if values else None
    return means


def _entropies(probs: Floats) -> Floats:
    entropies: Floats = -xlogy(probs, probs).sum(1)
    return entropies

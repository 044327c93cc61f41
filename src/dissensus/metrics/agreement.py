"""How far people agree with each other, and how far a model's doubts are theirs."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dissensus.metrics.checks import checked_counts, checked_log_probs, checked_probs, checked_target

Kind = Literal["pearson", "spearman"]
Floats = NDArray[np.float64]


def entropy(probs: Tensor) -> Tensor:
    """Entropy of each row in nats, float64 [N]."""
    probs = checked_probs(probs)
    return -torch.xlogy(probs, probs).sum(1) + 0.0  # + 0.0: a unanimous item has entropy 0, not -0


def normalised_entropy(probs: Tensor) -> Tensor:
    """Entropy over its largest value log K, 0 to 1; 0 where there is only one class."""
    classes = probs.shape[1]
    return entropy(probs) / (math.log(classes) if classes > 1 else 1.0)


def high_disagreement(probs: Tensor) -> Tensor:
    """The items whose entropy is at or above the 90th percentile, bool [N]. Ties are in: it may be more than a tenth."""
    entropies = entropy(probs)
    return entropies >= float(np.quantile(entropies.numpy(), 0.9))


def entropy_correlation(probs: Tensor, target: Tensor, *, kind: Kind) -> float | None:
    """Correlation over items of the model's entropy with the people's (002: Pearson; 003: Spearman).

    None where one of the two does not vary. For Spearman, entropies that differ by rounding alone are tied.
    """
    probs = checked_probs(probs)
    target = checked_target(target, probs)
    return correlation(entropy(probs).numpy(), entropy(target).numpy(), kind=kind)


def correlation(first: Floats, second: Floats, *, kind: Kind) -> float | None:
    """Pearson's correlation of two lists, or Spearman's: Pearson's of their midranks. None where one is constant."""
    if kind == "spearman":
        first, second = midranks(without_rounding(first)), midranks(without_rounding(second))
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    first, second = first - first.mean(), second - second.mean()
    # Unit vectors first: the squares of entropies near 1e-200 would underflow.
    first, second = first / np.abs(first).max(), second / np.abs(second).max()
    return float(np.clip(first @ second / math.sqrt(first @ first) / math.sqrt(second @ second), -1, 1))


def partial_correlation(first: Floats, second: Floats, given: Floats, *, kind: Kind) -> float | None:
    """What is left of the correlation of two lists when a third is held fixed: that of their residuals on it.

    Spearman's is that of the midranks. None where one list does not vary, or the third explains one of the two wholly.
    """
    both, one, other = (correlation(a, b, kind=kind) for a, b in ((first, second), (first, given), (second, given)))
    if both is None or one is None or other is None:
        return None
    left = (1 - one**2) * (1 - other**2)
    return float(np.clip((both - one * other) / math.sqrt(left), -1, 1)) if left > 1e-12 else None


def midranks(values: Floats) -> Floats:
    """Ranks from 1; equal values share the mean of their ranks."""
    _, place, size = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(size) - (size - 1) / 2)[place]


def second_best_accuracy(log_probs: Tensor, target: Tensor, *, well_defined: bool = False) -> float | None:
    """001's SBA: how often the model's second choice is the people's.

    The second choice is `argsort(kind="stable")[-2]`, so among equals the higher class index counts as preferred: of a
    unanimous item the people's "second choice" is such a tie-break. `well_defined` keeps the items whose people have a
    strict first, second and third. None where no item is left, or there is one class.
    """
    log_probs = checked_log_probs(log_probs)
    people = checked_target(target, log_probs).numpy()
    if log_probs.shape[1] < 2:
        return None
    agree = _second(log_probs.numpy()) == _second(people)
    if well_defined:
        ranked = np.sort(people, 1)[:, ::-1][:, :3]
        agree = agree[(ranked[:, :-1] > ranked[:, 1:]).all(1)]
    return float(agree.mean()) if len(agree) else None


def _second(values: Floats) -> NDArray[np.int64]:
    return values.argsort(1, kind="stable")[:, -2]


def krippendorff_alpha(counts: Tensor) -> float | None:
    """Krippendorff's alpha for nominal labels: 1 is perfect agreement, 0 what chance gives.

    Items with one vote pair with nobody and are left out. None where all remaining votes are for one class (chance
    agreement is then perfect too) or no item remains.

    >>> krippendorff_alpha(torch.tensor([[2, 0], [0, 2], [1, 1]]))
    0.4444444444444444
    """
    table = _paired(counts)
    votes, totals = table.sum(1), table.sum(0)
    everyone = int(totals.sum())
    expected = everyone**2 - int((totals**2).sum())  # ordered pairs of different labels among all votes
    if expected == 0:
        return None
    observed = float(((votes**2 - (table**2).sum(1)) / (votes - 1)).sum())
    return 1 - (everyone - 1) * observed / expected


def pairwise_agreement(counts: Tensor) -> float | None:
    """The chance that two people asked about the same item said the same, averaged over items with two votes or more."""
    table = _paired(counts)
    if len(table) == 0:
        return None
    votes = table.sum(1)
    return float(((table * (table - 1)).sum(1) / (votes * (votes - 1))).mean())


def _paired(counts: Tensor) -> NDArray[np.int64]:
    table = checked_counts(counts).numpy()
    paired: NDArray[np.int64] = table[table.sum(1) > 1]
    return paired


def majority(shares: Tensor) -> Tensor:
    """The class with the largest share (or probability, or logit), int64 [N]; ties go to the lowest class index."""
    return torch.from_numpy(shares.numpy().argmax(1))  # NumPy promises the first maximum, torch does not


def without_rounding(values: Floats) -> Floats:
    """Cut to 32 significant bits: equal sums that were added in another order differ in the last bits, and must tie.

    >>> [0.1 + 0.2 == 0.3, bool(np.equal(*without_rounding(np.array([0.1 + 0.2, 0.3]))))]
    [False, True]
    """
    mantissa, exponent = np.frexp(values)
    cut: Floats = np.ldexp(np.round(np.ldexp(mantissa, 32)), exponent - 32)
    return cut

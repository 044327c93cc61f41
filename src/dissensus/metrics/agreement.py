"""Where people disagree, and whether a model is in doubt on the same items."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dissensus.metrics.checks import checked_log_probs, checked_probs, checked_target
from dissensus.metrics.proper import p_log_p

Kind = Literal["pearson", "spearman"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def entropy(probs: Tensor) -> Tensor:
    """Entropy of each row in nats, float64 [N]."""
    probs = checked_probs(probs)
    return entropy_of_logs(p_log_p(probs))


def entropy_of_logs(logs: Tensor) -> Tensor:
    """The same from `p_log_p` of the rows."""
    return -logs.sum(1) + 0.0  # + 0.0: a unanimous item has entropy 0, not -0


def normalised_entropy(probs: Tensor) -> Tensor:
    """Entropy over its largest value log K, 0 to 1; 0 where there is only one class."""
    classes = probs.shape[1]
    return entropy(probs) / (math.log(classes) if classes > 1 else 1.0)


def high_disagreement(probs: Tensor) -> Tensor:
    """The items whose entropy is at or above the 90th percentile, bool [N]. Ties are in: it may be more than a tenth.

    The same shares in another order of classes tie, although rounding makes their entropies differ.
    """
    entropies = without_rounding(entropy(probs).numpy())
    return torch.from_numpy(entropies >= np.quantile(entropies, 0.9))


def entropy_correlation(probs: Tensor, target: Tensor, *, kind: Kind) -> float | None:
    """Correlation over items between the model's entropy and the people's.

    "Soft-Label Training Preserves Epistemic Uncertainty" (2025) reports Pearson's, "Same Target, Different Basins" (2026)
    Spearman's. None where one of the two does not vary. For Spearman, entropies that differ by rounding alone are tied.
    """
    probs = checked_probs(probs)
    target = checked_target(target, probs)
    return correlation(entropy(probs).numpy(), entropy(target).numpy(), kind=kind)


def correlation(first: Floats, second: Floats, *, kind: Kind) -> float | None:
    """Pearson's correlation of two lists, or Spearman's: Pearson's of their midranks. None where one is constant."""
    if kind == "spearman":
        first, second = ranks(first), ranks(second)
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    first, second = first - first.mean(), second - second.mean()
    # Unit vectors first: the squares of entropies near 1e-200 would underflow.
    first, second = first / np.abs(first).max(), second / np.abs(second).max()
    return float(np.clip(first @ second / math.sqrt(first @ first) / math.sqrt(second @ second), -1, 1))


def partial_correlation(first: Floats, second: Floats, given: Floats, *, kind: Kind) -> float | None:
    """The correlation of two lists when a third is held fixed: that of their residuals on it.

    Spearman's is that of the midranks. None where one list does not vary, or the third explains one of the two fully.
    """
    pairs = ((first, second), (first, given), (second, given))
    together, with_first, with_second = (correlation(a, b, kind=kind) for a, b in pairs)
    if together is None or with_first is None or with_second is None:
        return None
    unexplained = (1 - with_first**2) * (1 - with_second**2)
    if unexplained <= 1e-12:
        return None
    return float(np.clip((together - with_first * with_second) / math.sqrt(unexplained), -1, 1))


def ranks(values: Floats) -> Floats:
    """The midranks of values of which some differ by rounding alone: those are tied."""
    return midranks(without_rounding(values))


def midranks(values: Floats) -> Floats:
    """Ranks from 1; equal values share the mean of their ranks."""
    _, index, size = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(size) - (size - 1) / 2)[index]


def second_best_accuracy(log_probs: Tensor, target: Tensor, *, well_defined: bool = False) -> float | None:
    """How often the model's second choice is the people's (SBA of Peterson et al. 2019).

    The second choice is `argsort(kind="stable")[-2]`, so among equals the higher class index is preferred: the people's
    "second choice" on a unanimous item is such a tie-break. `well_defined` keeps the items on which the people's first,
    second and third choice have different shares. None where no item is left, or there is one class.
    """
    agree = second_best_agreement(log_probs, target, well_defined=well_defined)
    kept = agree[~agree.isnan()]
    return float(kept.mean()) if len(kept) else None


def second_best_agreement(log_probs: Tensor, target: Tensor, *, well_defined: bool = False) -> Tensor:
    """`second_best_accuracy` item by item: 1 where the second choices agree, 0 where not, NaN for items left out."""
    log_probs = checked_log_probs(log_probs)
    people = checked_target(target, log_probs).numpy()
    if log_probs.shape[1] < 2:
        return torch.full((len(people),), math.nan, dtype=torch.float64)
    second, strict = second_choice(people)
    agree = (second_choice(log_probs.numpy())[0] == second).astype(np.float64)
    if well_defined:
        agree[~strict] = math.nan
    return torch.from_numpy(agree)


def second_choice(values: Floats) -> tuple[Ints, NDArray[np.bool_]]:
    """`argsort(kind="stable")[-2]` of each row of [N, K], K > 1, and whether its first three values differ strictly.

    Found by looking for the last maximum twice: linear in K.

    >>> second_choice(np.array([[0.2, 0.5, 0.3], [0.0, 1.0, 0.0]]))
    (array([2, 2]), array([ True, False]))
    """
    left, every, last = values[:, ::-1].copy(), np.arange(len(values)), values.shape[1] - 1
    places, largest = [], []
    for _ in range(min(3, values.shape[1])):
        places.append(left.argmax(1))
        largest.append(left[every, places[-1]])
        left[every, places[-1]] = -np.inf
    second: Ints = last - places[1]
    lost = np.isneginf(largest[1])  # nothing but -inf was left, and the place that was struck out looked like the rest
    second[lost] = values[lost].argsort(1, kind="stable")[:, -2]
    return second, np.all([before > after for before, after in pairwise(largest)], axis=0)


def top_class(values: Tensor) -> Tensor:
    """The class with the largest value in each row, int64 [N] on the CPU; ties go to the lowest class index.

    The one argmax of the project: for predictions as for votes. NumPy promises the first maximum, torch does not.

    >>> top_class(torch.tensor([[0.2, 0.4, 0.4]])).tolist()
    [1]
    """
    return torch.from_numpy(values.detach().cpu().numpy().argmax(1))


def majority(shares: Tensor) -> Tensor:
    """The class that most people chose, int64 [N]: the `top_class` of their shares."""
    return top_class(shares)


def without_rounding(values: Floats) -> Floats:
    """Cut to 32 significant bits: sums of the same numbers in another order differ in the last bits, and must tie.

    >>> [0.1 + 0.2 == 0.3, bool(np.equal(*without_rounding(np.array([0.1 + 0.2, 0.3]))))]
    [False, True]
    """
    mantissa, exponent = np.frexp(values)
    cut: Floats = np.ldexp(np.round(np.ldexp(mantissa, 32)), exponent - 32)
    return cut

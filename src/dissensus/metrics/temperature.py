"""One temperature, fitted on some held-out items and judged on others: every method gets it before a comparison.

Guo et al., "On calibration of modern neural networks", 2017. The held-out items are split into two stratified halves;
each half is judged with the temperature fitted on the other, so that every item is scored and none tunes its own score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from dissensus import random
from dissensus.errors import InputError
from dissensus.metrics.checks import checked_gold, checked_target

COLDEST, HOTTEST = 0.01, 100.0
Calibration = Literal["tempered_votes", "tempered_gold"]


@dataclass(frozen=True)
class Temperature:
    """What logits are divided by. `note` says why it is not a minimum inside the bounds, and is empty where it is."""

    value: float
    note: str = ""


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Tempered log-probabilities, float64 [N, K]. Item i has `temperatures[half[i]]`, fitted on the other half."""

    log_probs: Tensor
    temperatures: tuple[Temperature, Temperature]
    half: Tensor


def fit_temperature(logits: Tensor, target: Tensor) -> Temperature:
    """The temperature with the least mean cross-entropy to `target`: float [N, K] distributions or int64 [N] labels.

    The loss is convex in 1/T, so Newton's method inside a shrinking bracket finds its one minimum. It may lie at a bound
    (0.01 or 100), as it does where the top logit is right for every item, or for none: `note` then says so.
    """
    z, p = _checked(logits, target)
    z = z - z.max(1, keepdim=True).values  # shifts no softmax, and keeps the products below small
    low, high = 1 / HOTTEST, 1 / COLDEST
    if bool((z == 0).all()):
        return Temperature(1.0, "the logits of each item are equal: no temperature changes anything")
    if _slope(z, p, low)[0] >= 0:
        return Temperature(HOTTEST, f"flatter is better, up to the bound {HOTTEST:g}")
    if _slope(z, p, high)[0] <= 0:
        return Temperature(COLDEST, f"sharper is better, down to the bound {COLDEST:g}")
    inverse = 1.0
    for _ in range(200):
        slope, curvature = _slope(z, p, inverse)
        low, high = (inverse, high) if slope < 0 else (low, inverse)
        step = inverse - slope / curvature if curvature > 0 else math.inf
        following = step if low <= step <= high else math.sqrt(low * high)
        if abs(following - inverse) <= 1e-12 * inverse:
            break
        inverse = following
    return Temperature(1 / following)


def _slope(z: Tensor, p: Tensor, inverse: float) -> tuple[float, float]:
    """First and second derivative of the mean loss by 1/T."""
    q = torch.softmax(z * inverse, 1)
    mean = (q * z).sum(1)
    return float((mean - (p * z).sum(1)).mean()), float(((q * z.square()).sum(1) - mean.square()).mean())


def stratified_halves(strata: Tensor, rows: Tensor, seed: int) -> Tensor:
    """0 or 1 for each item, int64 [N]: halves of the whole and of each stratum, to within one item.

    Keyed by the items' rows in the whole data set, so that an item is in the same half for every method and in any order.
    """
    order = np.lexsort((random.uniform(seed, "split", "halves", rows=rows.cpu()), strata.cpu().numpy()))
    half = np.empty(len(rows), dtype=np.int64)
    half[order] = np.arange(len(rows)) % 2
    return torch.from_numpy(half)


def cross_fit(logits: Tensor, target: Tensor, *, strata: Tensor, rows: Tensor, seed: int) -> CrossFit:
    """Each half of the items tempered with the temperature of the other half.

    `strata` int64 [N] are balanced between the halves; `rows` [N] are the items' rows in the whole data set.
    """
    if len(logits) < 2:
        raise InputError(
            f"{len(logits)} items cannot be split into two halves",
            where="temperature",
            hint="Hold out at least 2 items",
            state="",
        )
    logits, target = logits.detach().cpu().double(), target.detach().cpu()
    half = stratified_halves(strata, rows, seed)
    fitted_on = [fit_temperature(logits[half == side], target[half == side]) for side in (0, 1)]
    temperatures = fitted_on[1], fitted_on[0]
    divisor = torch.tensor([t.value for t in temperatures], dtype=torch.float64)[half]
    return CrossFit(torch.log_softmax(logits / divisor[:, None], 1), temperatures, half)


def tempered(logits: Tensor, people: Tensor, labels: Tensor, *, rows: Tensor, seed: int) -> dict[Calibration, CrossFit]:
    """Both calibrations that a report shows: to the votes, and to the labels alone, for users who have no votes."""
    return {
        "tempered_votes": cross_fit(logits, people, strata=labels, rows=rows, seed=seed),
        "tempered_gold": cross_fit(logits, labels, strata=labels, rows=rows, seed=seed),
    }


def _checked(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if logits.ndim != 2 or 0 in logits.shape or not bool(torch.isfinite(logits).all()):
        raise InputError(
            f"{list(logits.shape)} logits are not finite [items, classes]",
            where="temperature",
            hint="Drop the items that have NaN or infinity",
            state="",
        )
    z = logits.detach().to("cpu", torch.float64)
    if target.ndim == 2:
        return z, checked_target(target, z)
    return z, torch.nn.functional.one_hot(checked_gold(target, z), z.shape[1]).double()

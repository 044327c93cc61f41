"""One temperature, fitted on some held-out items and judged on others: every method gets it before a comparison.

Guo et al., "On calibration of modern neural networks", 2017. The held-out items are split into two stratified halves;
each half is judged with the temperature fitted on the other, so that every item is scored and none tunes its own score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from dissensus import random
from dissensus.errors import InputError
from dissensus.metrics.checks import checked_gold, checked_target
from dissensus.metrics.row_blocks import LogProbs, Progress, Rows, blocks, silent
from dissensus.metrics.threads import torch_threads

COLDEST, HOTTEST = 0.01, 100.0
Calibration = Literal["tempered_votes", "tempered_gold"]


@dataclass(frozen=True)
class Temperature:
    """What logits are divided by. `note` says why it is not a minimum inside the bounds, and is empty where it is."""

    value: float
    note: str = ""


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Logits [N, K], tempered. Item i has `temperatures[half[i]]`, fitted on the other half."""

    logits: Tensor
    temperatures: tuple[Temperature, Temperature]
    half: Tensor

    @property
    def rows(self) -> LogProbs:
        """Tempered log-probabilities, float64 [N, K], made as their rows are asked for."""
        values = torch.tensor([temperature.value for temperature in self.temperatures], dtype=torch.float64)
        return LogProbs(self.logits, values[self.half])

    @cached_property
    def log_probs(self) -> Tensor:
        """All of them."""
        return self.rows[:]


def fit_temperature(logits: Tensor, target: Rows, chosen: Tensor | None = None, tell: Progress = silent) -> Temperature:
    """The temperature with the least mean cross-entropy to `target`: float [N, K] distributions or int64 [N] labels.

    Of all items, or of those `chosen`: int64, their rows. The loss is convex in 1/T, so Newton's method inside a
    shrinking bracket finds its one minimum. It may lie at a bound (0.01 or 100), as it does where the top logit is right
    for every item, or for none: `note` then says so.
    """
    loss = _Loss(logits, target, torch.arange(len(logits)) if chosen is None else chosen, tell)
    low, high = 1 / HOTTEST, 1 / COLDEST
    if loss.is_flat:
        return Temperature(1.0, "the logits of each item are equal: no temperature changes anything")
    if loss.slope(low)[0] >= 0:
        return Temperature(HOTTEST, f"flatter is better, up to the bound {HOTTEST:g}")
    if loss.slope(high)[0] <= 0:
        return Temperature(COLDEST, f"sharper is better, down to the bound {COLDEST:g}")
    inverse = 1.0
    for _ in range(200):
        slope, curvature = loss.slope(inverse)
        low, high = (inverse, high) if slope < 0 else (low, inverse)
        step = inverse - slope / curvature if curvature > 0 else math.inf
        following = step if low <= step <= high else math.sqrt(low * high)
        if abs(following - inverse) <= 1e-12 * inverse:
            break
        inverse = following
    return Temperature(1 / following)


class _Loss:
    """The mean cross-entropy of some items as a function of 1/T, computed in blocks of them.

    Its slope is the mean logit that the model expects less the one that people name. The latter is the same for every T:
    `target` is read once.
    """

    def __init__(self, logits: Tensor, target: Rows, chosen: Tensor, tell: Progress) -> None:
        if logits.ndim != 2 or 0 in logits.shape:
            raise _not_finite(logits)
        self._logits, self._chosen, self._tell = logits, chosen, tell
        self.is_flat, of_people = True, 0.0
        for block in self._blocks():
            rows, z = self._chosen[block], self._shifted(block)
            if not bool(torch.isfinite(z).all()):
                raise _not_finite(logits)
            self.is_flat = self.is_flat and bool((z == 0).all())
            if len(target.shape) == 2:
                p = checked_target(_taken(target, rows), z, first=int(rows[0]))
                of_people += float((p * z).sum())
            else:
                labels = checked_gold(_taken(target, rows), z)
                of_people += float(z.gather(1, labels[:, None]).sum())
        self._of_people = of_people / len(chosen)

    def slope(self, inverse: float) -> tuple[float, float]:
        """First and second derivative by 1/T."""
        of_model = spread = 0.0
        for block in self._blocks():
            z = self._shifted(block)
            odds = (z * inverse).exp_()  # at most 1; torch.softmax is ten times slower on a few classes in float64
            total = odds.sum(1)
            mean = odds.mul_(z).sum(1).div_(total)
            of_model += float(mean.sum())
            spread += float((odds.mul_(z).sum(1).div_(total) - mean.square()).sum())
        return of_model / len(self._chosen) - self._of_people, spread / len(self._chosen)

    def _blocks(self) -> Iterator[slice]:
        for block in blocks((len(self._chosen), self._logits.shape[1])):
            yield block
            self._tell("fitting temperatures", block.stop, len(self._chosen))

    def _shifted(self, block: slice) -> Tensor:
        """Logits less the largest of each item: that shifts no softmax, and keeps products small."""
        z = self._logits[self._chosen[block]].detach().to("cpu", torch.float64)
        return z.sub_(z.amax(1, keepdim=True))


def _taken(target: Rows, rows: Tensor) -> Tensor:
    """Some rows, in any order, of what may only be read in slices: then the few between them are read, too."""
    if isinstance(target, Tensor):
        return target[rows]
    first = int(rows.min())
    return target[first : int(rows.max()) + 1][rows - first]


def _not_finite(logits: Tensor) -> InputError:
    return InputError(
        f"{list(logits.shape)} logits are not finite [items, classes]",
        where="temperature",
        hint="Drop the items that have NaN or infinity",
        state="",
    )


def stratified_halves(strata: Tensor, rows: Tensor, seed: int) -> Tensor:
    """0 or 1 for each item, int64 [N]: halves of the whole and of each stratum, to within one item.

    Keyed by the items' rows in the whole data set, so that an item is in the same half for every method and in any order.
    """
    order = np.lexsort((random.uniform(seed, "split", "halves", rows=rows.cpu()), strata.cpu().numpy()))
    half = np.empty(len(rows), dtype=np.int64)
    half[order] = np.arange(len(rows)) % 2
    return torch.from_numpy(half)


@torch_threads(1)
def cross_fit(
    logits: Tensor, target: Rows, *, strata: Tensor, rows: Tensor, seed: int, tell: Progress = silent
) -> CrossFit:
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
    half = stratified_halves(strata, rows, seed)
    fitted_on = [fit_temperature(logits, target, torch.nonzero(half == side)[:, 0], tell) for side in (0, 1)]
    return CrossFit(logits, (fitted_on[1], fitted_on[0]), half)


def tempered(
    logits: Tensor, people: Rows, labels: Tensor, *, rows: Tensor, seed: int, tell: Progress = silent
) -> dict[Calibration, CrossFit]:
    """Both calibrations that a report shows: to the votes, and to the labels alone, for users who have no votes."""
    return {
        "tempered_votes": cross_fit(logits, people, strata=labels, rows=rows, seed=seed, tell=tell),
        "tempered_gold": cross_fit(logits, labels, strata=labels, rows=rows, seed=seed, tell=tell),
    }

"""Comparing two methods over seeds, splits or items, without claiming more than the design can show.

Differences are `first − second`, paired by position. Intervals are two-sided at `level` whatever the alternative. A
number that the data cannot give (one pair, differences that do not vary) is None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from dissensus import random
from dissensus.errors import InputError
from dissensus.metrics.agreement import without_rounding

__all__ = [
    "Interval",
    "MeanSd",
    "Power",
    "Sensitivity",
    "TTest",
    "WilcoxonTest",
    "corrected_t",
    "holm",
    "mean_sd",
    "paired_bootstrap",
    "paired_t",
    "power",
    "sensitivity",
    "wilcoxon",
]

Alternative = Literal["two-sided", "less", "greater"]
Floats = NDArray[np.float64]

MOST_PAIRS = 500
LEAST_TO_RESAMPLE = 20  # a percentile interval of fewer values is too short: 95% would cover 74% of 3 values, 85% of 5
BLOCK = 2**22  # resampled values held at once, 32 MB


@dataclass(frozen=True)
class MeanSd:
    """Mean and sample standard deviation (over n − 1; None for one value)."""

    mean: float
    sd: float | None
    n: int


@dataclass(frozen=True)
class TTest:
    """A paired t test and its interval for the mean difference."""

    mean_difference: float
    low: float | None
    high: float | None
    statistic: float | None
    p: float | None
    n: int


@dataclass(frozen=True)
class WilcoxonTest:
    """An exact signed-rank test. `statistic` is the rank sum of the positive differences; `zeros` of the n were 0."""

    mean_difference: float
    statistic: float
    p: float
    n: int
    zeros: int


@dataclass(frozen=True)
class Interval:
    """An interval for the mean difference, and how it was made."""

    mean_difference: float
    low: float | None
    high: float | None
    n: int
    method: Literal["bootstrap", "t"]


@dataclass(frozen=True)
class Power:
    """The smallest p that a design can reach, whatever the results. `seeds_needed` could reach `level` at all."""

    best_p: float
    best_p_after_holm: float
    can_be_significant: bool
    seeds_needed: int
    sentence: str


@dataclass(frozen=True)
class Sensitivity:
    """What a design of resampled splits can find: `effect` is in standard deviations of the paired differences.

    A true difference of that size is found, after Holm over `cells` tests, with probability `chance`.
    """

    effect: float
    splits: int
    cells: int
    chance: float

    def difference(self, sd: float) -> float:
        """In the units of a score whose paired differences vary by `sd` from split to split."""
        return self.effect * sd


def mean_sd(values: ArrayLike) -> MeanSd:
    """Mean ± sd of one method's runs."""
    array = _checked(values)
    return MeanSd(float(array.mean()), float(array.std(ddof=1)) if len(array) > 1 else None, len(array))


def paired_t(
    first: ArrayLike, second: ArrayLike, *, alternative: Alternative = "two-sided", level: float = 0.95
) -> TTest:
    """Student's paired t. For runs that differ in their seed alone: resampled splits overlap, and need `corrected_t`."""
    return corrected_t(first, second, test_to_train=0.0, alternative=alternative, level=level)


def corrected_t(
    first: ArrayLike,
    second: ArrayLike,
    *,
    test_to_train: float,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> TTest:
    """Nadeau & Bengio's t for resampled splits (2003): the variance of the mean is s² (1/n + test size / train size).

    Splits that share items give correlated results; the plain t takes them for independent and finds too much.
    """
    difference = _differences(first, second)
    mean, n = float(difference.mean()), len(difference)
    if np.ptp(difference) == 0:
        return TTest(mean, None, None, None, None, n)
    error = float(difference.std(ddof=1)) * math.sqrt(1 / n + test_to_train)
    reach = float(stdtrit(n - 1, (1 + level) / 2)) * error
    below = float(stdtr(n - 1, mean / error))
    above = float(stdtr(n - 1, -mean / error))
    p = {"less": below, "greater": above, "two-sided": 2 * min(below, above)}[_known(alternative)]
    return TTest(mean, mean - reach, mean + reach, mean / error, p, n)


def wilcoxon(first: ArrayLike, second: ArrayLike, *, alternative: Alternative = "two-sided") -> WilcoxonTest:
    """Wilcoxon's signed-rank test, exact with ties and zeros: all 2ⁿ signs of the ranks that occurred are counted.

    Zero differences are dropped before ranking (Wilcoxon's own rule, SciPy's default); tied ones share midranks, and
    differences that only rounding makes unequal are tied. SciPy's "exact" takes the ranks to be 1…n: false with ties.
    """
    exact = _differences(first, second)
    difference = without_rounding(exact)
    if len(difference) > MOST_PAIRS:
        raise InputError(
            f"{len(difference)} pairs are too many to count all signs",
            where="wilcoxon",
            hint=f"Compare up to {MOST_PAIRS} seeds or splits; for items use paired_bootstrap",
            state="",
        )
    moved = difference[difference != 0]
    size = np.abs(moved)
    doubled = (size[:, None] > size).sum(1) + (size[:, None] >= size).sum(1) + 1  # twice the midrank: a whole number
    chance = np.ones(1)  # of each value of the doubled rank sum; dyadic, so exact in float64 up to some 50 pairs
    for rank in doubled:
        chance = (np.pad(chance, (0, rank)) + np.pad(chance, (rank, 0))) / 2
    reached = int(doubled[moved > 0].sum())
    below, above = float(chance[: reached + 1].sum()), float(chance[reached:].sum())
    p = {"less": below, "greater": above, "two-sided": min(1.0, 2 * min(below, above))}[_known(alternative)]
    return WilcoxonTest(float(exact.mean()), reached / 2, p, len(difference), len(difference) - len(moved))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the given order: the chance of any false claim stays below the level.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    ordered = sorted(range(len(p_values)), key=lambda cell: p_values[cell])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, cell in enumerate(ordered):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[cell]))
        adjusted[cell] = highest
    return adjusted


def paired_bootstrap(
    first: ArrayLike, second: ArrayLike, *, draws: int = 10_000, level: float = 0.95, seed: int = 0
) -> Interval:
    """Percentile interval of the mean difference, pairs resampled with replacement; of fewer than 20 pairs, Student's.

    [n] resamples seeds or items. [seeds, items] resamples items, each with its mean over the seeds: the interval is over
    the test items one might have drawn, given these runs.
    """
    ours, theirs = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if ours.ndim == 2 and ours.shape == theirs.shape:
        ours, theirs = ours.mean(0), theirs.mean(0)
    difference = _differences(ours, theirs)
    n = len(difference)
    if n < LEAST_TO_RESAMPLE:
        test = paired_t(ours, theirs, level=level)
        return Interval(test.mean_difference, test.low, test.high, n, "t")
    generator = random.numpy_generator(seed, "probe", "bootstrap")
    block = max(1, BLOCK // n)
    means = [
        difference[generator.integers(n, size=(min(block, draws - start), n))].mean(1) for start in range(0, draws, block)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(difference.mean()), float(low), float(high), n, "bootstrap")


def power(seeds: int, cells: int = 1, *, alternative: Alternative = "two-sided", level: float = 0.05) -> Power:
    """What the exact Wilcoxon test can reach at best with this many pairs, alone and after Holm over `cells` tests.

    >>> print(power(5, 12, alternative="less").sentence)  # doctest: +NORMALIZE_WHITESPACE
    5 seeds, one-sided: p is at best 0.03125; with Holm over 12 cells at best 0.375: nothing can be significant at 0.05.
    It takes 8 seeds.
    """
    if seeds < 1 or cells < 1:
        raise InputError(
            f"{seeds} seeds and {cells} cells are no design", where="power", hint="Give at least 1", state=""
        )
    sides = 2 if _known(alternative) == "two-sided" else 1
    best = min(1.0, sides * 2.0**-seeds)
    after = min(1.0, cells * best)
    needed = next(n for n in range(1, 1100) if sides * cells * 2.0**-n <= level)
    sentence = f"{seeds} seed{'s' * (seeds > 1)}, {'two' if sides == 2 else 'one'}-sided: p is at best {best:.4g}"
    if cells > 1:
        sentence += f"; with Holm over {cells} cells at best {after:.4g}"
    if after <= level:
        sentence += f": significance at {level:g} is possible."
    else:
        sentence += f": nothing can be significant at {level:g}. It takes {needed} seeds."
    return Power(best, after, after <= level, needed, sentence)


def sensitivity(
    splits: int, *, test_to_train: float, cells: int = 1, chance: float = 0.8, level: float = 0.05
) -> Sensitivity:
    """The smallest difference that `corrected_t` finds, two-sided, before anything is computed.

    (t of 1 − level / (2 · cells) + t of `chance`) · √(1/n + test size / train size), the usual sum of two quantiles.
    Every cell is taken to be the first that Holm decides, so the truth is a little better. More splits of the same items
    cannot push it below the second term under the root: from some point on only more items help.

    >>> round(sensitivity(15, test_to_train=0.25).effect, 2), round(sensitivity(1000, test_to_train=0.25).effect, 2)
    (1.7, 1.4)
    """
    if splits < 2 or cells < 1:
        raise InputError(
            f"{splits} splits and {cells} cells are no design",
            where="sensitivity",
            hint="Give at least 2 splits",
            state="",
        )
    quantiles = float(stdtrit(splits - 1, 1 - level / (2 * cells))) + float(stdtrit(splits - 1, chance))
    return Sensitivity(quantiles * math.sqrt(1 / splits + test_to_train), splits, cells, chance)


def _known(alternative: Alternative) -> Alternative:
    if alternative not in ("two-sided", "less", "greater"):
        raise InputError(f"{alternative!r} is not two-sided, less or greater", where="alternative", state="")
    return alternative


def _differences(first: ArrayLike, second: ArrayLike) -> Floats:
    ours, theirs = _checked(first), _checked(second)
    if ours.shape != theirs.shape:
        raise InputError(f"{len(ours)} values cannot be paired with {len(theirs)}", where="comparison", state="")
    return ours - theirs


def _checked(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0 or not np.isfinite(array).all():
        raise InputError(
            "a comparison needs one finite number per run",
            where="comparison",
            hint="Leave out the runs that have no score",
            state="",
        )
    return array

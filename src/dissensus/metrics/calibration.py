"""Does a confidence of 0.8 mean right four times out of five? The event is "the top class is the label"."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dissensus.metrics.agreement import top_class
from dissensus.metrics.checks import checked_events, checked_gold, checked_log_probs
from dissensus.metrics.smooth import cosines, mean_absolute, root_of_falling, smoothed, sum_equal

Binning = Literal["width", "mass"]
Floats = NDArray[np.float64]

NARROWEST = 1e-5  # kernel of smooth_ece: half as wide costs twice the time
FEW = 3  # items under the kernel: a curve that rests on fewer says nothing


def top_label(log_probs: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
    """The largest probability of each item, float64 [N], and whether its class is the label, bool [N].

    Equal top probabilities go to the lowest class index.
    """
    log_probs = checked_log_probs(log_probs)
    top = top_class(log_probs)
    confidence = log_probs.gather(1, top[:, None])[:, 0].exp().clamp(max=1)
    return confidence, top == checked_gold(gold, log_probs)


def accuracy(log_probs: Tensor, gold: Tensor) -> float:
    """The share of items whose top class is the label."""
    return float(top_label(log_probs, gold)[1].double().mean())


def confidence_right(confidence: Tensor, correct: Tensor) -> float | None:
    """Mean confidence over the items that are right; None where none is."""
    confidence, correct = checked_events(confidence, correct)
    return float(confidence[correct].mean()) if bool(correct.any()) else None


def confidence_wrong(confidence: Tensor, correct: Tensor) -> float | None:
    """Mean confidence over the items that are wrong; None where none is."""
    confidence, correct = checked_events(confidence, correct)
    return confidence_right(confidence, ~correct)


def ece(confidence: Tensor, correct: Tensor, *, binning: Binning, bins: int) -> float:
    """Expected calibration error: |confidence − accuracy| of each bin, weighted by its share of the items.

    `width`: equal intervals, closed on the right, 0 in the first. `mass`: equal numbers of items, by stable sorting and
    `array_split`; where equal confidences lie on both sides of a border, it depends on the order of the items.
    """
    confidence, correct = checked_events(confidence, correct)
    gap = (confidence - correct.double()).numpy()
    if binning == "mass":
        sums = [gap[rows].sum() for rows in _mass_bins(confidence, bins)]
    else:
        edges = np.arange(1, bins) / bins  # correctly rounded, unlike linspace: 3/10 is the 0.3 of a 0.3
        sums = list(np.bincount(np.searchsorted(edges, confidence.numpy()), gap, minlength=bins))
    return float(np.abs(sums).sum() / len(gap))


def _mass_bins(confidence: Tensor, bins: int) -> list[NDArray[np.int64]]:
    order: NDArray[np.int64] = confidence.numpy().argsort(kind="stable")
    return [rows for rows in np.array_split(order, bins) if len(rows)]


@dataclass(frozen=True)
class BrierDecomposition:
    """score = reliability − resolution + uncertainty + within_bin_variance − within_bin_covariance."""

    score: float
    reliability: float
    resolution: float
    uncertainty: float
    within_bin_variance: float
    within_bin_covariance: float


def brier_decomposition(confidence: Tensor, correct: Tensor, *, bins: int = 15) -> BrierDecomposition:
    """The Brier score (f − o)² of "the top class is the label" in five parts, over bins of equal mass.

    The usual three parts sum to the score only if all forecasts of a bin are equal; the variance of the forecasts inside
    their bins and their covariance with the outcomes (already doubled here) make up the difference (Stephenson,
    Coelho & Jolliffe, "Two extra components in the Brier score decomposition", 2008).
    """
    confidence, correct = checked_events(confidence, correct)
    forecast, outcome = confidence.numpy(), correct.double().numpy()
    rate, n = outcome.mean(), len(outcome)
    parts = np.zeros(4)
    for rows in _mass_bins(confidence, bins):
        f, o = forecast[rows], outcome[rows]
        inner_f, inner_o = f - f.mean(), o - o.mean()
        parts += [
            len(rows) * (f.mean() - o.mean()) ** 2,
            len(rows) * (o.mean() - rate) ** 2,
            inner_f @ inner_f,
            2 * inner_f @ inner_o,
        ]
    reliability, resolution, variance, covariance = (float(part) for part in parts / n)
    score = float(np.square(forecast - outcome).mean())
    return BrierDecomposition(score, reliability, resolution, float(rate * (1 - rate)), variance, covariance)


def smooth_ece(confidence: Tensor, correct: Tensor) -> float:
    """Calibration error without bins (Błasiok & Nakkiran, "Smooth ECE", 2023).

    The mean absolute value of the residuals, smoothed by a Gaussian of width σ that is reflected at 0 and 1; at the one σ
    that equals the result. σ is at least 1e-5: a smaller value is exact to 1e-5 only.
    """
    confidence, correct = checked_events(confidence, correct)
    return _fixed_point(confidence.numpy(), correct.double().numpy())


def _fixed_point(confidence: Floats, outcome: Floats) -> float:
    position, residual = sum_equal(confidence, outcome - confidence)
    # smECE(σ) never rises with σ and lies between |mean residual| (σ → ∞) and mean |residual| (σ → 0): so does σ*.
    low = high = float(np.abs(residual).sum())
    if high <= NARROWEST:
        return abs(float(residual.sum()))
    while (at_low := mean_absolute(waves := cosines(position, residual, low), low)) < low:
        if low == NARROWEST:
            return at_low
        low, high = max(low / 2, NARROWEST), low
    if low == high:  # all residuals have one sign: smoothing takes nothing away
        return high
    return root_of_falling(lambda sigma: mean_absolute(waves, sigma) - sigma, low, high)


@dataclass(frozen=True)
class SmoothReliability:
    """The curve of a reliability diagram: at each confidence of `grid`, how often such items are right.

    `density` is that of the confidences; `accuracy` is NaN where there are next to none. `sigma` is the kernel's width.
    """

    grid: Floats
    accuracy: Floats
    density: Floats
    sigma: float
    items: int

    @property
    def is_supported(self) -> NDArray[np.bool_]:
        """Where on the grid the kernel covers three items or more: elsewhere the curve is noise, and is not drawn."""
        under_kernel = self.density * self.items * self.sigma * 2 * math.sqrt(math.pi)  # the effective number of items
        return under_kernel >= FEW


def smooth_reliability(confidence: Tensor, correct: Tensor, *, points: int = 201) -> SmoothReliability:
    """The kernel estimate that belongs to `smooth_ece`, at its own σ, but no finer than the grid can show."""
    confidence, correct = checked_events(confidence, correct)
    position, outcome = confidence.numpy(), correct.double().numpy()
    sigma = max(_fixed_point(position, outcome), 1 / (points - 1))
    grid = np.linspace(0, 1, points)
    density = smoothed(cosines(position, np.full(len(position), 1 / len(position)), sigma), sigma, grid)
    right = smoothed(cosines(position, outcome / len(position), sigma), sigma, grid)
    visible = density > 1e-6  # the series is exact to some 1e-14: a ratio of such numbers would be noise
    share = np.clip(np.divide(right, density, out=np.full(points, np.nan), where=visible), 0, 1)
    return SmoothReliability(grid, share, density, sigma, len(position))

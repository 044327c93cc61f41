"""Multinomial logistic regression on soft targets, solved exactly: the baseline that every model has to beat.

    minimise  Σ wᵢ H(pᵢ, softmax(W zᵢ + b)) / Σ wᵢ  +  penalty / 2 · ‖W‖²

over standardised features z; the bias is free. The minimum is that of scikit-learn's LogisticRegression on the votes
expanded to weighted rows, with C = 1 / (penalty · Σ w). Solved in float64 by L-BFGS in the principal axes of the
features, where the curvature is nearly diagonal and known beforehand: scaled by it, the problem is well conditioned and
few steps are enough. L2 does not see rotations, so nothing is approximated, and features beyond the number of items cost
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from dissensus import random
from dissensus.errors import InputError
from dissensus.metrics.agreement import majority
from dissensus.metrics.proper import unchecked_soft_nll
from dissensus.metrics.threads import torch_threads
from dissensus.models.normalise import moments

PENALTIES: tuple[float, ...] = tuple(float(10 ** (quarter / 4)) for quarter in range(8, -25, -1))
"""From 100 to 1e-6, four to a decade, strongest first."""

Scaling = Literal["each", "common"]
"""Each feature divided by its own standard deviation, or all by one number, which keeps what is large large."""

PATIENCE = 3  # penalties that may be worse than the best before a path ends

EXACT, ENOUGH_TO_COMPARE = 1e-7, 1e-4  # tolerances of the gradient of the mean loss, in scaled coordinates
ENOUGH_OF_PENALTY = 0.01  # of it, at most: where items can be separated, only the penalty ends the way to the minimum
MOST_STEPS = 2_000
NEGLIGIBLE = 1e-12  # of the largest variance: directions below it are rounding


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """Logits are x @ weight.T + bias, of features in their own units: weight float64 [K, D], bias [K]."""

    weight: Tensor
    bias: Tensor
    penalty: float

    def log_probs(self, x: Tensor) -> Tensor:
        """Normalised, float64 [N, K]."""
        return torch.log_softmax(x.double() @ self.weight.T + self.bias, 1)


@dataclass(frozen=True, eq=False)
class PenaltySearch:
    """What cross-validation says: the penalty that is chosen, the best one, and the mean soft NLL of each that was tried.

    `log_probs` float64 [N, K] are the predictions of each item by the model that had not seen it, at these two penalties.
    """

    penalty: float
    best: float
    losses: dict[float, float]
    log_probs: dict[float, Tensor]


def class_prior(target: Tensor, weights: Tensor | None = None) -> Tensor:
    """Log of the mean opinion, float64 [K]: what is said of every item by somebody who has not seen it.

    One imagined item with equal shares is added, so that a class nobody has chosen yet is unlikely and not impossible.
    """
    shares = target.double()
    weights = torch.ones(len(shares), dtype=torch.float64) if weights is None else weights.double()
    total = (shares * weights[:, None]).sum(0) + weights.mean() / shares.shape[1]
    return (total / total.sum()).log()


def majority_target(target: Tensor) -> Tensor:
    """One-hot of the most frequent vote, float64 [N, K]; ties go to the lowest class index."""
    return torch.nn.functional.one_hot(majority(target), target.shape[1]).double()


@torch_threads(1)
def fit_logistic(
    x: Tensor, target: Tensor, *, penalty: float, weights: Tensor | None = None, scaling: Scaling = "each"
) -> LogisticFit:
    """The minimum for features [N, D], soft targets [N, K] and the weights of the items [N] (by default equal)."""
    problem, everything = _Problem.of(x, target, weights, scaling), torch.arange(len(x))
    start = problem.start(everything, target)
    return problem.in_feature_units(problem.solve(everything, target, penalty, start, EXACT), penalty)


@torch_threads(1)
def search_penalty(
    x: Tensor,
    target: Tensor,
    folds: Sequence[Tensor],
    *,
    weights: Tensor | None = None,
    scaling: Scaling = "each",
    penalties: Sequence[float] = PENALTIES,
    fold_targets: Sequence[Tensor] | None = None,
    caution: float = 0.0,
    judged_by: Tensor | None = None,
) -> PenaltySearch:
    """The penalty with the least mean soft NLL to `target` [N, K] on items left out.

    With `caution`, it is the next stronger penalty if that is worse by no more than so many standard errors of the
    difference over items: of two that the items cannot tell apart, too strong costs less than too weak.

    `folds` are the rows left out in turn. `fold_targets` has, for each fold, what the items that are kept stand for in
    training, where that is not `target` itself. Penalties are tried from the strongest to the weakest, each starting
    where the last one ended; the path ends where it has become worse three times. Features are scaled by all items, which
    tells a fold nothing of its labels. `judged_by` [N] says how much the loss of each item counts (by default the same).
    """
    problem, target = _Problem.of(x, target, weights, scaling), target.double()
    kept_rows = [rows_outside(fold, len(x)) for fold in folds]
    trained_on = [target[rows] for rows in kept_rows] if fold_targets is None else fold_targets
    solutions = [problem.start(rows, shown) for rows, shown in zip(kept_rows, trained_on, strict=True)]
    scored = torch.cat(list(folds))
    counted = torch.ones(len(scored)).double() if judged_by is None else judged_by[scored] / judged_by[scored].mean()
    told: dict[float, Tensor] = {}
    item_losses: dict[float, Tensor] = {}
    losses: dict[float, float] = {}
    for penalty in sorted(penalties, reverse=True):
        log_probs = torch.full_like(target, torch.nan)
        for index, (kept, left_out) in enumerate(zip(kept_rows, folds, strict=True)):
            solutions[index] = problem.solve(kept, trained_on[index], penalty, solutions[index], ENOUGH_TO_COMPARE)
            log_probs[left_out] = problem.log_probs(left_out, solutions[index])
        told[penalty] = log_probs
        item_losses[penalty] = unchecked_soft_nll(log_probs[scored], target[scored]) * counted
        losses[penalty] = float(item_losses[penalty].mean())
        if min(losses.values()) not in list(losses.values())[-PATIENCE:]:
            break
    chosen, best = _cautious(item_losses, caution), min(losses, key=losses.__getitem__)
    return PenaltySearch(chosen, best, losses, {penalty: told[penalty] for penalty in (chosen, best)})


def _cautious(item_losses: Mapping[float, Tensor], caution: float) -> float:
    """The best penalty, or the next stronger one where that is worse by at most `caution` standard errors."""
    path = sorted(item_losses, reverse=True)
    best = min(path, key=lambda penalty: float(item_losses[penalty].mean()))
    stronger = path[max(0, path.index(best) - 1)]
    excess = item_losses[stronger] - item_losses[best]
    as_good = float(excess.mean()) <= caution * float(excess.std(correction=0)) / len(excess) ** 0.5
    return stronger if as_good else best


def tuned_logistic(x: Tensor, target: Tensor, folds: Sequence[Tensor], *, weights: Tensor | None = None) -> LogisticFit:
    """`fit_logistic` on all items at the penalty that `search_penalty` finds."""
    search = search_penalty(x, target, folds, weights=weights)
    return fit_logistic(x, target, penalty=search.penalty, weights=weights)


def stratified_folds(strata: Tensor, folds: int, seed: int, purpose: str = "folds") -> list[Tensor]:
    """Rows of each fold, ascending: every stratum is dealt to the folds in turn after a shuffle keyed by the rows."""
    labels = strata.numpy()
    draws = random.uniform(seed, "split", purpose, folds, rows=np.arange(len(labels)))
    fold = np.empty(len(labels), dtype=np.int64)
    fold[np.lexsort((draws, labels))] = np.arange(len(labels)) % folds
    return [torch.from_numpy(np.flatnonzero(fold == number)) for number in range(folds) if (fold == number).any()]


@dataclass(frozen=True, eq=False)
class _Problem:
    """Standardised features in their principal axes, float64 [N, R], with what is needed to come back from there."""

    z: Tensor
    variances: Tensor
    axes: Tensor
    mean: Tensor
    std: Tensor
    weights: Tensor

    @classmethod
    def of(cls, x: Tensor, target: Tensor, weights: Tensor | None, scaling: Scaling) -> _Problem:
        _check(x, target, weights)
        mean, std = (part.double() for part in moments(x))
        if scaling == "common":
            varying = (x != x[0]).any(0)
            std = std[varying].square().mean().sqrt().expand_as(std) if bool(varying.any()) else std
        standardised = (x.double() - mean) / std
        variances, axes = _principal_axes(standardised)
        weights = torch.ones(len(x), dtype=torch.float64) if weights is None else weights.double()
        return cls(standardised @ axes, variances, axes, mean, std, weights)

    def start(self, rows: Tensor, target: Tensor) -> Tensor:
        """[K, R + 1]: no weights, and the bias that gives the class prior."""
        prior = class_prior(target, self.weights[rows])
        return torch.cat([torch.zeros(len(prior), self.z.shape[1], dtype=torch.float64), prior[:, None]], 1)

    def solve(self, rows: Tensor, target: Tensor, penalty: float, start: Tensor, tolerance: float) -> Tensor:
        """The minimum on these rows, [K, R + 1]; the last column is the bias."""
        z, target = self.z[rows], target.double()
        weights = self.weights[rows] / self.weights[rows].sum()
        prior = class_prior(target, weights).exp()
        curvature = (prior * (1 - prior))[:, None]
        scale = 1 / torch.cat([curvature * self.variances + penalty, curvature], 1).clamp(min=1e-12).sqrt()

        def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            solution = torch.from_numpy(flat).view_as(scale) * scale
            weight, bias = solution[:, :-1], solution[:, -1]
            log_probs = torch.log_softmax(torch.addmm(bias, z, weight.T), 1)
            value = -(weights @ (target * log_probs).sum(1)) + penalty / 2 * weight.square().sum()
            slope = (log_probs.exp() - target) * weights[:, None]
            gradient = torch.cat([slope.T @ z + penalty * weight, slope.sum(0)[:, None]], 1) * scale
            return float(value), gradient.numpy().ravel()

        tolerance = min(tolerance, ENOUGH_OF_PENALTY * penalty)
        options = {"maxiter": MOST_STEPS, "maxfun": 2 * MOST_STEPS, "gtol": tolerance, "ftol": tolerance**2}
        found = minimize(loss, (start / scale).numpy().ravel(), jac=True, method="L-BFGS-B", options=options)
        return torch.from_numpy(found.x).view_as(scale) * scale

    def log_probs(self, rows: Tensor, solution: Tensor) -> Tensor:
        return torch.log_softmax(torch.addmm(solution[:, -1], self.z[rows], solution[:, :-1].T), 1)

    def in_feature_units(self, solution: Tensor, penalty: float) -> LogisticFit:
        weight = solution[:, :-1] @ self.axes.T / self.std
        bias = solution[:, -1] - weight @ self.mean
        return LogisticFit(weight, bias - bias.mean(), penalty)  # softmax does not see a common shift


def _principal_axes(x: Tensor) -> tuple[Tensor, Tensor]:
    """Variances [R] and axes [D, R] of centred rows, from the smaller of the two matrices of products."""
    items, features = x.shape
    if features <= items:
        variances, axes = torch.linalg.eigh(x.T @ x / items)
        kept = variances > NEGLIGIBLE * variances[-1]
        return variances[kept], axes[:, kept]
    variances, sides = torch.linalg.eigh(x @ x.T / items)
    kept = variances > NEGLIGIBLE * variances[-1]
    variances, sides = variances[kept], sides[:, kept]
    return variances, x.T @ sides / (variances * items).sqrt()


def rows_outside(rows: Tensor, items: int) -> Tensor:
    """All rows but these, ascending."""
    kept = torch.ones(items, dtype=torch.bool)
    kept[rows] = False
    return kept.nonzero().flatten()


def _check(x: Tensor, target: Tensor, weights: Tensor | None) -> None:
    for what in _problems(x, target, weights):
        raise InputError(what, where="logistic regression", state="")


def _problems(x: Tensor, target: Tensor, weights: Tensor | None) -> Iterator[str]:
    if x.ndim != 2 or target.ndim != 2 or len(x) != len(target) or not len(x):
        yield f"features {list(x.shape)} and targets {list(target.shape)} are not [items, features] and [items, classes]"
    if not bool(torch.isfinite(x).all()):
        yield "features have NaN or infinity"
    if weights is not None and (
        weights.shape != (len(x),) or not bool((weights >= 0).all()) or float(weights.sum()) <= 0
    ):
        yield "weights are not one number per item, none negative, with a positive sum"

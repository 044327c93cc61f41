"""Linear models, solved exactly: features standardised each for itself, or brought to one scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from dissensus.models import Classifier, Linear, load_model, moments
from dissensus.training.logistic import LogisticFit, PenaltySearch, Scaling, fit_logistic, rows_outside, search_penalty
from dissensus.training.selection.lesson import CandidateGrid, Lesson
from dissensus.training.stacked.side_by_side import side_by_side

NAMES: dict[Scaling, str] = {"each": "linear, features standardised", "common": "linear, features to one scale"}
CAUTION = 1.0  # standard errors by which the next stronger penalty may be worse than the best
UNSEARCHED_PENALTY = 1.0  # where a single item leaves nothing to choose by


@dataclass(frozen=True, eq=False)
class LinearCandidate:
    """One scaling, one penalty. Every delivery of a target has the same mean, so all have the same solution."""

    scaling: Scaling
    penalty: float
    soft_nll: float
    log_probs: Tensor

    @property
    def name(self) -> str:
        """With the penalty."""
        return f"{NAMES[self.scaling]}, penalty {self.penalty:.2g}"

    def refit(self, lesson: Lesson) -> list[Classifier]:
        """One network: there is nothing random in it."""
        target = lesson.target(torch.arange(len(lesson.data))).probs
        solved = fit_logistic(lesson.x, target, penalty=self.penalty, weights=lesson.weights, scaling=self.scaling)
        return [as_network(solved, lesson.x)]


def linear_candidates(lesson: Lesson, grid: CandidateGrid, folds: Sequence[Tensor]) -> list[LinearCandidate]:
    """Both scalings, each with the penalty that is best on the items left out, the rows of each fold in turn.

    Where the items cannot tell it from the next stronger penalty, both are candidates, and the pool weighs them.
    """
    if not folds:
        penalty = grid.penalties[0] if len(grid.penalties) == 1 else UNSEARCHED_PENALTY
        return [LinearCandidate("each", penalty, math.nan, torch.empty(0))]
    targets = [lesson.target(rows_outside(fold, len(lesson.data))).probs for fold in folds]

    def search(scaling: Scaling, tick: Callable[[int], None]) -> PenaltySearch:  # noqa: ARG001 - a task has a tick
        return search_penalty(
            lesson.x,
            lesson.data.people,
            folds,
            weights=lesson.weights,
            scaling=scaling,
            penalties=grid.penalties,
            fold_targets=targets,
            caution=CAUTION,
            judged_by=lesson.weights,
        )

    tasks = [partial(search, scaling) for scaling in NAMES]
    found = side_by_side(tasks, lesson.processes, lambda ticks: None)  # noqa: ARG005
    return [
        LinearCandidate(scaling, penalty, search.losses[penalty], log_probs)
        for scaling, search in zip(NAMES, found, strict=True)
        for penalty, log_probs in search.log_probs.items()
    ]


def as_network(solved: LogisticFit, x: Tensor) -> Classifier:
    """The same model in float32, which standardises its features by those of x."""
    mean, std = moments(x)
    weight = solved.weight * std.double()
    bias = solved.bias + solved.weight @ mean.double()
    state = {"normalise.mean": mean, "normalise.std": std, "head.weight": weight.float(), "head.bias": bias.float()}
    network = load_model(Linear(), (x.shape[1],), len(bias), state)
    assert isinstance(network, Classifier)
    return network

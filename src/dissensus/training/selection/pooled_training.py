"""From a lesson and a grid to a trained pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dissensus.metrics.proper import unchecked_soft_nll
from dissensus.metrics.temperature import Temperature, fit_temperature, stratified_halves
from dissensus.models import Classifier
from dissensus.models.opinion_pool import OpinionPool, mixture
from dissensus.training.logistic import stratified_folds
from dissensus.training.selection.feature_bounds import feature_bounds
from dissensus.training.selection.lesson import Candidate, CandidateGrid, Lesson, Progress, Trainable, repeated_rows
from dissensus.training.selection.linear_candidates import linear_candidates
from dissensus.training.selection.mlp_candidates import judged_at_one_epoch, mlp_candidates
from dissensus.training.selection.pool_weights import pool_weights
from dissensus.training.selection.vote_weights import vote_weights

FOLDS, MORE_FOLDS, CHEAP_ITEMS = 5, 10, 600
"""Ten folds for fewer items than this: they are cheap there, and networks of 90% are more like those of everything."""

POOLED_MLPS = 2
LEAST_WEIGHT = 0.01  # in the pool; what has less is left out
FEWEST_FOR_MLP = 50  # items: with fewer, MLPs are tried only where no linear model is
FEW_FOR_MLP = 100  # items: with fewer, MLPs are pooled only where they are clearly better
LEAST_GAIN = 1e-3  # nats: a temperature that gains less on items left out is not used


@dataclass(frozen=True, eq=False)
class TrainedPool:
    """The model, its temperature, what was tried, and the mean soft NLL of the pool on items left out (None: unknown)."""

    model: OpinionPool
    temperature: Temperature
    candidates: tuple[Candidate, ...]
    soft_nll: float | None


def train_pool(lesson: Lesson, grid: CandidateGrid, progress: Progress = lambda share, doing: None) -> TrainedPool:  # noqa: ARG005
    """The pool of this grid, trained on these items."""
    items = len(lesson.data)
    bounds = feature_bounds(lesson.x)
    lesson = replace(lesson, data=replace(lesson.data, x=lesson.x.clamp(*bounds)))
    folds = folds_of(lesson)
    lesson = replace(lesson, weights=vote_weights(lesson, folds))
    progress(0.0, "linear models on items left out")
    linear = linear_candidates(lesson, grid, folds) if grid.linear else []
    mlps = []
    if grid.mlps and not (grid.linear and items < FEWEST_FOR_MLP):
        mlps = mlp_candidates(lesson, grid, folds, lambda share, doing: progress(0.2 + 0.55 * share, doing))
    mlps.sort(key=lambda mlp: mlp.soft_nll)
    if folds:
        progress(0.75, "the best MLPs on items left out")
        mlps[:POOLED_MLPS] = [judged_at_one_epoch(mlp, lesson, folds) for mlp in mlps[:POOLED_MLPS]]
    tried: list[Trainable] = [*linear, *mlps]
    pooled: list[Trainable] = [*linear, *mlps[:POOLED_MLPS]]
    if folds and linear and mlps and items < FEW_FOR_MLP and not _clearly_better(pooled, linear, lesson):
        pooled = list(linear)
    weights, temperature, soft_nll = _judged(pooled, lesson) if folds else (_equal(pooled), Temperature(1.0), None)
    weights = torch.where(weights < min(LEAST_WEIGHT, float(weights.max())), 0.0, weights)
    weight_of = dict(zip((candidate.name for candidate in pooled), (weights / weights.sum()).tolist(), strict=True))
    members: list[Classifier] = []
    shares: list[float] = []
    for number, candidate in enumerate(pooled):
        progress(0.8 + 0.2 * number / len(pooled), f"on all items: {candidate.name}")
        if weight := weight_of[candidate.name]:
            networks = candidate.refit(lesson)
            members += networks
            shares += [weight / len(networks)] * len(networks)
    progress(1.0, "trained")
    model = OpinionPool(members, torch.tensor(shares, dtype=torch.float64), bounds).eval()
    candidates = [Candidate(part.name, part.soft_nll, weight_of.get(part.name, 0.0)) for part in tried]
    return TrainedPool(model, temperature, tuple(candidates), soft_nll)


def folds_of(lesson: Lesson) -> list[Tensor]:
    """The rows to leave out in turn; none where there is a single item."""
    items = len(lesson.data)
    folds = min(MORE_FOLDS if items < CHEAP_ITEMS else FOLDS, items)
    return stratified_folds(lesson.data.labels, folds, lesson.seed, "selection") if items > 1 else []


def _judged(pooled: Sequence[Trainable], lesson: Lesson) -> tuple[Tensor, Temperature, float]:
    """The weights, the temperature (1 where it does not help), and the soft NLL, all on items left out."""
    people = lesson.data.people
    weights = pool_weights([candidate.log_probs for candidate in pooled], people, lesson.weights)
    log_probs = mixture([candidate.log_probs for candidate in pooled], weights)
    temperature = useful_temperature(log_probs, people, lesson.data.labels, lesson.seed, lesson.weights)
    return weights, temperature, lesson.mean_loss(torch.log_softmax(log_probs / temperature.value, 1))


def _clearly_better(pooled: Sequence[Trainable], fewer: Sequence[Trainable], lesson: Lesson) -> bool:
    """Whether the pool beats that of fewer members on items left out, by more than a standard error."""
    people = lesson.data.people
    losses = []
    for members in (fewer, pooled):
        log_probs = [member.log_probs for member in members]
        weights = pool_weights(log_probs, people, lesson.weights)
        losses.append(unchecked_soft_nll(mixture(log_probs, weights), people))
    gains = losses[0] - losses[1]
    gains = gains if lesson.weights is None else gains * (lesson.weights / lesson.weights.mean())
    return bool(gains.mean() > gains.std() / len(gains) ** 0.5)


def useful_temperature(
    log_probs: Tensor, people: Tensor, labels: Tensor, seed: int, weights: Tensor | None = None
) -> Temperature:
    """The temperature of predictions [N, K] of items left out; 1 where one half's does not help the other half.

    One that lies at a bound is not used either: its note says that there is something to look at.
    """
    items = torch.arange(len(people))
    if len(people) < 2 or not bool(torch.isfinite(log_probs).all()):
        return Temperature(1.0)
    rows, half = repeated_rows(items, weights, seed), stratified_halves(labels, items, seed)  # no item in both halves
    if min(int((half[rows] == side).sum()) for side in (0, 1)) == 0:
        return Temperature(1.0)
    of_half = [fit_temperature(log_probs, people, rows[half[rows] == side]).value for side in (1, 0)]
    tempered = torch.log_softmax(log_probs / torch.tensor(of_half, dtype=torch.float64)[half][:, None], 1)
    gain = (unchecked_soft_nll(log_probs, people) - unchecked_soft_nll(tempered, people))[rows].mean()
    fitted = fit_temperature(log_probs, people, rows) if float(gain) > LEAST_GAIN else Temperature(1.0)
    return Temperature(1.0, fitted.note) if fitted.note else fitted


def _equal(pooled: Sequence[Trainable]) -> Tensor:
    return torch.full((len(pooled),), 1 / len(pooled), dtype=torch.float64)

"""MLPs of one hidden layer, trained stacked: all folds and weight decays of one dropout at once."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dissensus import random
from dissensus.errors import InputError
from dissensus.metrics.threads import torch_threads
from dissensus.models import Classifier, Mlp, load_model
from dissensus.training import stacked
from dissensus.training.logistic import rows_outside
from dissensus.training.optimisers import AdamW
from dissensus.training.schedules import EarlyStopping
from dissensus.training.selection.lesson import CandidateGrid, Lesson, Progress, repeated_rows

DEFAULT_LR = 1e-3
UNSEARCHED_EPOCHS = 20  # where a single item leaves nothing to choose by
KEPT: tuple[stacked.Checkpoint, ...] = ("last",)
DIVERGED = 3.0  # times the loss of equal shares: no training that works ends there


@dataclass(frozen=True, eq=False)
class MlpCandidate:
    """One dropout and weight decay, for as many epochs as were best on the items left out."""

    head: Mlp
    optimiser: AdamW
    grid: CandidateGrid
    epochs: int
    soft_nll: float = math.nan
    log_probs: Tensor = field(default_factory=lambda: torch.empty(0))

    @property
    def name(self) -> str:
        """With its settings."""
        decay = self.optimiser.weight_decay
        return f"MLP, dropout {self.head.dropout:g}, weight decay {decay:g}, {self.epochs} epochs"

    def with_predictions(
        self, lesson: Lesson, folds: Sequence[Tensor], trained: Sequence[stacked.Trained]
    ) -> MlpCandidate:
        """What the network without each fold says of it."""
        log_probs = torch.full_like(lesson.data.people, torch.nan)
        for fold, network in zip(folds, trained, strict=True):
            with torch.no_grad():
                predicted = _network(self.head, lesson, network.weights["last"]).predict(lesson.x[fold])
            log_probs[fold] = predicted.log_probs
        return replace(self, soft_nll=lesson.mean_loss(log_probs), log_probs=log_probs)

    def refit(self, lesson: Lesson) -> list[Classifier]:
        """One network per seed."""
        rows = repeated_rows(torch.arange(len(lesson.data)), lesson.weights, lesson.seed)
        target, people = lesson.target(rows), lesson.data.people.float()
        seeds = [random.key(lesson.seed, "init", "refit", number) % 2**31 for number in range(self.grid.seeds)]
        members = [
            stacked.Member(
                seed=seed,
                train_rows=rows,
                validation_rows=rows[:1],  # a stack asks for some; nothing is chosen by them here
                labels=lesson.labels(target, seed),
                validation_target=people[rows[:1]],
                optimiser=self.optimiser,
                epochs=self.epochs,
                batch=min(self.grid.batch, len(rows)),
            )
            for seed in seeds
        ]
        trained = _train(lesson, members, self.head)
        for network in trained:
            if problem := divergence(network.curve["train_loss"], people.shape[1]):
                raise diverged(problem, self.optimiser.lr)
        return [_network(self.head, lesson, network.weights["last"]) for network in trained]


def mlp_candidates(
    lesson: Lesson, grid: CandidateGrid, folds: Sequence[Tensor], progress: Progress
) -> list[MlpCandidate]:
    """Every MLP of the grid, judged on the items left out, the rows of each fold in turn."""
    candidates: list[MlpCandidate] = []
    dropouts = sorted({dropout for dropout, _ in grid.mlps})
    for number, dropout in enumerate(dropouts):
        head = Mlp((grid.hidden,), dropout)
        rules = [AdamW(grid.lr or DEFAULT_LR, decay) for shared, decay in grid.mlps if shared == dropout]
        if not folds:
            epochs = UNSEARCHED_EPOCHS if grid.early_stopping else grid.epochs
            candidates += [MlpCandidate(head, rule, grid, epochs) for rule in rules]
            continue

        def tell(done: int, total: int, number: int = number, dropout: float = dropout) -> None:
            progress((number + done / total) / len(dropouts), f"MLPs with dropout {dropout:g} on items left out")

        candidates += _of_one_head(lesson, grid, folds, head, rules, tell)
    return candidates


def _of_one_head(
    lesson: Lesson,
    grid: CandidateGrid,
    folds: Sequence[Tensor],
    head: Mlp,
    rules: Sequence[AdamW],
    tell: Callable[[int, int], None],
) -> list[MlpCandidate]:
    members = [member for fold in folds for member in _without(fold, lesson, grid, rules)]
    trained, classes, candidates = _train(lesson, members, head, tell), len(lesson.data.classes), []
    sizes = [len(fold) for fold in folds]
    for number, rule in enumerate(rules):
        of_folds = trained[number :: len(rules)]
        problems = [divergence(network.curve["train_loss"], classes) for network in of_folds]
        if problem := next(filter(None, problems), ""):
            if grid.lr is not None:
                raise diverged(problem, rule.lr)
            warnings.warn(f"an MLP with dropout {head.dropout:g} is left out: {problem}", stacklevel=2)
            continue
        curve = mean_curve([network.curve["validation_loss"] for network in of_folds], sizes)
        epochs = int(np.argmin(curve)) + 1 if grid.early_stopping else grid.epochs
        candidate = MlpCandidate(head, rule, grid, epochs, float(curve[epochs - 1]))
        if not grid.early_stopping:
            candidate = candidate.with_predictions(lesson, folds, of_folds)
        candidates.append(candidate)
    return candidates


def mean_curve(curves: Sequence[Sequence[float]], sizes: Sequence[int]) -> NDArray[np.float64]:
    """The mean validation loss over folds at each epoch; a fold that stopped early stays where it was.

    >>> mean_curve([[3.0, 1.0, 2.0], [2.0, 2.0]], sizes=[1, 1]).tolist()
    [2.5, 1.5, 2.0]
    """
    longest = max(map(len, curves))
    padded = [[*curve, *[curve[-1]] * (longest - len(curve))] for curve in curves]
    means: NDArray[np.float64] = np.average(np.array(padded), axis=0, weights=sizes)
    return means


def judged_at_one_epoch(candidate: MlpCandidate, lesson: Lesson, folds: Sequence[Tensor]) -> MlpCandidate:
    """The candidate with predictions of items left out that are worth something: all folds end at the same epoch.

    A network that was stopped where it was best for the very items it is judged on looks better than it is, the more so
    the fewer they are; with 60 items per fold it would get half of a pool to which it adds nothing.
    """
    if len(candidate.log_probs):
        return candidate
    fixed = replace(candidate.grid, epochs=candidate.epochs, early_stopping=False)
    members = [member for fold in folds for member in _without(fold, lesson, fixed, [candidate.optimiser])]
    return candidate.with_predictions(lesson, folds, _train(lesson, members, candidate.head))


def _without(fold: Tensor, lesson: Lesson, grid: CandidateGrid, rules: Sequence[AdamW]) -> list[stacked.Member]:
    """A member for each rule that never sees the items of this fold, and stops by its loss on them."""
    people = lesson.data.people.float()
    rows = repeated_rows(rows_outside(fold, len(lesson.data)), lesson.weights, lesson.seed)
    labels = lesson.labels(lesson.target(rows), lesson.seed)
    return [
        stacked.Member(
            seed=lesson.seed,
            train_rows=rows,
            validation_rows=fold,
            labels=labels,
            validation_target=people[fold],
            optimiser=rule,
            stopping=EarlyStopping(grid.patience) if grid.early_stopping else None,
            epochs=grid.epochs,
            batch=min(grid.batch, len(rows)),
        )
        for rule in rules
    ]


def _train(
    lesson: Lesson,
    members: Sequence[stacked.Member],
    head: Mlp,
    tell: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005
) -> list[stacked.Trained]:
    with torch_threads(lesson.processes):
        return stacked.fit(lesson.x, members, head=head, classes=len(lesson.data.classes), keep=KEPT, progress=tell)


def _network(head: Mlp, lesson: Lesson, weights: dict[str, Tensor]) -> Classifier:
    network = load_model(head, (lesson.x.shape[1],), len(lesson.data.classes), weights)
    assert isinstance(network, Classifier)
    return network


def divergence(train_losses: Sequence[float], classes: int) -> str:
    """What shows that a training has diverged; empty where it has not. Overfitting does not: its training loss is small.

    >>> divergence([1.1, 0.9], classes=3), divergence([1.1, float("nan")], classes=3)
    ('', 'training diverged: its loss is nan after epoch 2')
    """
    limit = DIVERGED * math.log(max(2, classes))
    epoch = next((epoch for epoch, loss in enumerate(train_losses) if not math.isfinite(loss)), None)
    if epoch is None and train_losses[-1] > limit:
        epoch = len(train_losses) - 1
    return "" if epoch is None else f"training diverged: its loss is {train_losses[epoch]:.3g} after epoch {epoch + 1}"


def diverged(problem: str, lr: float) -> InputError:
    """The error that says so, and what to do."""
    hint = f"Use a smaller learning rate than {lr:g}; features are standardised, so {DEFAULT_LR:g} is a good start"
    return InputError(problem, where="training", hint=hint)

"""One network of any kind: its number of epochs is chosen on a validation part, then it is trained on everything."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dissensus.metrics.proper import unchecked_soft_nll
from dissensus.metrics.temperature import Temperature
from dissensus.models import Model
from dissensus.training import evaluate, loop
from dissensus.training.optimisers import AdamW
from dissensus.training.schedules import Constant, EarlyStopping
from dissensus.training.selection.lesson import Candidate, Lesson, Progress, repeated_rows
from dissensus.training.selection.mlp_candidates import DEFAULT_LR, diverged, divergence
from dissensus.training.selection.pooled_training import useful_temperature
from dissensus.training.splits import Holdout

VALIDATION = 0.2
DEFAULT_DECAY = 0.01


@dataclass(frozen=True)
class NetworkSettings:
    """`epochs` None: at most `most_epochs`, ended by the loss on a validation part."""

    lr: float = DEFAULT_LR
    weight_decay: float = DEFAULT_DECAY
    batch: int = 64
    epochs: int | None = None
    most_epochs: int = 100
    patience: int = 6
    device: str = "cpu"


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """The network, trained on all items, its temperature, and what it scored on the validation part."""

    model: Model
    temperature: Temperature
    candidates: tuple[Candidate, ...]
    soft_nll: float | None


def train_network(
    lesson: Lesson, build: Callable[[], Model], settings: NetworkSettings, progress: Progress
) -> TrainedNetwork:
    """`build` gives the network at its initial weights, the same each time."""
    train, validation = Holdout(VALIDATION).split(lesson.data.labels, lesson.seed, "validation")
    people = lesson.data.people[validation]
    losses: list[float] = []
    best: dict[str, Tensor] = {}
    most = settings.epochs or settings.most_epochs

    def watch(model: Model, epoch: int) -> float:
        log_probs = evaluate.predict(model, lesson.x[validation].to(settings.device)).log_probs
        losses.append(float(unchecked_soft_nll(log_probs, people).mean()))
        if losses[-1] == min(losses) or settings.epochs is not None:
            best.update(copy.deepcopy(model.state_dict()))
        progress(0.5 * (epoch + 1) / most, "on a part, to choose the epochs")
        return losses[-1]

    stopping = None if settings.epochs is not None else EarlyStopping(settings.patience)
    part = _fitted(lesson, train, build(), settings, most, stopping, watch)
    part.load_state_dict(best)
    log_probs = evaluate.predict(part, lesson.x[validation].to(settings.device)).log_probs
    temperature = useful_temperature(log_probs, people, lesson.data.labels[validation], lesson.seed)
    epochs = settings.epochs or int(np.argmin(losses)) + 1

    def tell(model: Model, epoch: int) -> None:  # noqa: ARG001
        progress(0.5 + 0.5 * (epoch + 1) / epochs, "on all items")

    whole = _fitted(lesson, torch.arange(len(lesson.data)), build(), settings, epochs, None, tell)
    loss = float(unchecked_soft_nll(log_probs, people).mean())
    return TrainedNetwork(whole.eval(), temperature, (Candidate(f"{epochs} epochs", loss, 1.0),), loss)


def _fitted(
    lesson: Lesson,
    rows: Tensor,
    model: Model,
    settings: NetworkSettings,
    epochs: int,
    stopping: EarlyStopping | None,
    watch: Callable[[Model, int], float | None],
) -> Model:
    rows = repeated_rows(rows, lesson.weights, lesson.seed)
    labels = lesson.labels(lesson.target(rows), lesson.seed)
    train_losses: list[float] = []
    model = model.to(settings.device)

    def observe(epoch: int, loss: float) -> float | None:
        train_losses.append(loss)
        if not np.isfinite(loss):  # it will not come back
            raise diverged(divergence(train_losses, len(lesson.data.classes)), settings.lr)
        return watch(model, epoch)

    rule = AdamW(settings.lr, settings.weight_decay)
    how = loop.Settings(rule, Constant(), epochs, settings.batch, stopping=stopping)
    loop.fit(
        model,
        lesson.x[rows].to(settings.device),
        labels,
        how,
        classes=len(lesson.data.classes),
        seed=lesson.seed,
        observe=observe,
    )
    if problem := divergence(train_losses, len(lesson.data.classes)):
        raise diverged(problem, settings.lr)
    return model

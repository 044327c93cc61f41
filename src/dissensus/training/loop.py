"""The one training loop.

Data lie in memory as they are stored (uint8 images, float features) on the device; a batch is two gathers; the labels of
an epoch arrive as one tensor; nothing inside an epoch waits for the device. Everything random is keyed by (seed, epoch,
step), so the state between two epochs is the weights, the optimiser's moments, the watched losses and, where weights are
averaged, their average, and no more.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from dissensus import random
from dissensus.datasets.data import to_float
from dissensus.errors import InputError
from dissensus.labels.delivery import Labels
from dissensus.labels.mixing import Mixing, Unmixed
from dissensus.models import Model
from dissensus.models.model import random_in_training
from dissensus.training.augmentation import Augment, NoAugment
from dissensus.training.averaging import Average, Ema, install, installed, moved
from dissensus.training.distributed import ALONE, Group, Loss
from dissensus.training.optimisers import OptimiserRule
from dissensus.training.precision import DTYPES, PRECISIONS, resolved
from dissensus.training.schedules import EarlyStopping, Schedule

Observe = Callable[[int, float], float | None]
"""(epoch, mean training loss) -> the loss that plateau and stopping watch, or None where nothing is watched."""


@dataclass(frozen=True)
class Settings:
    """How to train: the part of a recipe that the loop reads."""

    optimiser: OptimiserRule
    schedule: Schedule
    epochs: int
    batch: int
    mixing: Mixing = Unmixed()
    augment: Augment = NoAugment()
    stopping: EarlyStopping | None = None
    averaging: Ema | None = None
    precision: str = "float32"

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise InputError(
                f"precision {self.precision!r} is not one of {', '.join(PRECISIONS)}", where="training", state=""
            )
        if self.epochs < 1 or self.batch < 1:
            raise InputError(f"{self.epochs} epochs of batches of {self.batch} train nothing", where="training", state="")


@dataclass
class State:
    """What the next step depends on, beside the weights.

    `total` is the loss summed over the epoch's items so far, `average` the averaged weights.
    """

    epoch: int = 0
    step: int = 0
    total: Tensor | None = None
    watched: list[float] = field(default_factory=list)
    optimiser: dict[str, Any] | None = None
    average: Average | None = None


Pause = Callable[[Callable[[], State]], None]
"""Called after every step with a function that copies the state; it may save that beside the weights, and may raise."""


def fit(
    model: Model,
    x: Tensor,
    labels: Labels,
    settings: Settings,
    *,
    classes: int,
    seed: int,
    observe: Observe,
    state: State | None = None,
    pause: Pause = lambda snapshot: None,  # noqa: ARG005
    compiled: bool = False,
    group: Group = ALONE,
) -> State:
    """Train `model` in place on `x` [N, …], which is on the model's device; go on from `state` where one is given.

    The state that `pause` is offered and the weights of that moment are enough to go on to the same bits. Only the loss
    is compiled, so the module stays the plain one. Where weights are averaged, the model has the average while it is
    observed, and at the end.
    """
    state = state or State()
    loss: Loss = torch.compile(model.loss) if compiled else model.loss
    optimiser = settings.optimiser.build(model.parameters())
    if state.optimiser is not None:
        optimiser.load_state_dict(state.optimiser)
    if state.average is not None:
        state.average = {name: value.to(x.device) for name, value in state.average.items()}
    training = _Training(model, group.joined(model, loss), optimiser, x, settings, classes, seed, group, state)

    while state.epoch < settings.epochs and not (settings.stopping and settings.stopping.stops(state.watched)):
        mean = training.epoch(labels(state.epoch).to(x.device), pause)
        with installed(state.average, model):
            group.agree(model)
            watched = observe(state.epoch, mean)
        if watched is not None:
            state.watched.append(watched)
        state.epoch, state.step, state.total = state.epoch + 1, 0, None
        pause(training.snapshot)
    state.optimiser = optimiser.state_dict()
    if state.average is not None:
        install(state.average, model)
        group.agree(model)
    return state


@dataclass
class _Training:
    """All that a step needs; only `state` and what the model and the optimiser hold change from step to step."""

    model: Model
    loss: Loss
    optimiser: Optimizer
    x: Tensor
    settings: Settings
    classes: int
    seed: int
    group: Group
    state: State

    def snapshot(self) -> State:
        """A copy of the state."""
        state = self.state
        total = None if state.total is None else state.total.cpu().clone()
        moments, average = copy.deepcopy(self.optimiser.state_dict()), copy.deepcopy(state.average)
        return replace(state, total=total, watched=list(state.watched), optimiser=moments, average=average)

    def epoch(self, labels: Tensor, pause: Pause) -> float:
        """One pass over the items, or the rest of one; the mean loss, read from the device once, at the end."""
        model, state, device = self.model, self.state, self.x.device
        model.train()
        if state.step == 0:
            model.start_epoch()
        order = torch.randperm(len(self.x), generator=random.generator(self.seed, "order", state.epoch)).to(device)
        batches = torch.split(order, self.settings.batch)
        cast: AbstractContextManager[object] = nullcontext()
        if (precision := resolved(self.settings.precision, device)) != "float32":
            cast = torch.autocast(device.type, DTYPES[precision])
        total = torch.zeros((), device=device) if state.total is None else state.total.to(device)
        with _dropout_streams(model, self.seed, state.epoch, self.group.rank) as start_step:
            for step in range(state.step, len(batches)):
                inputs, target = self._batch(labels, batches[step], step)
                inputs, target, weight = self.group.share(inputs, target)
                start_step(step)
                with cast:
                    loss = self.loss(inputs, target)
                self._move(loss if weight == 1.0 else loss * weight, step, len(batches))
                model.after_step(inputs, target)
                if self.settings.averaging is not None:
                    rate = self.settings.averaging.rate(state.epoch * len(batches) + step + 1, len(batches))
                    state.average = moved(state.average, model, rate)
                total += loss.detach() * (len(batches[step]) * weight / self.group.world)
                state.step, state.total = step + 1, total
                pause(self.snapshot)
        return float(self.group.total(total.clone())) / len(self.x)

    def _batch(self, labels: Tensor, rows: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """These rows' inputs, augmented and mixed, and their labels: a pure function of the seed, epoch and step."""
        settings, epoch = self.settings, self.state.epoch
        inputs, target = self.x[rows], labels[rows]
        if settings.augment != NoAugment():  # while they are bytes: a quarter of the memory to move
            inputs = settings.augment(inputs, random.generator(self.seed, "augment", epoch, step))
        inputs = to_float(inputs)
        if settings.mixing != Unmixed():
            draw = random.numpy_generator(self.seed, "mix", epoch, step)
            inputs, target = settings.mixing(inputs, target, self.classes, draw)
        return inputs, target

    def _move(self, loss: Tensor, step: int, steps: int) -> None:
        """One step of the optimiser along the loss, at the learning rate of the schedule."""
        settings, state = self.settings, self.state
        factor = settings.schedule.factor(state.epoch + step / steps, settings.epochs, state.watched)
        for parameters in self.optimiser.param_groups:
            parameters["lr"] = settings.optimiser.lr * factor
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()


@contextmanager
def _dropout_streams(model: nn.Module, seed: int, epoch: int, rank: int) -> Iterator[Callable[[int], object]]:
    """A function that puts torch's global generator at the start of a step's dropout stream; a no-op where nothing draws.

    Every process of a group has masks of its own; the first has those of a process on its own.
    """
    if not random_in_training(model):
        yield lambda step: None  # noqa: ARG005
        return
    with random.seeded(seed, "dropout", epoch):  # puts the global generator back afterwards
        own = (rank,) if rank else ()
        yield lambda step: torch.manual_seed(random.key(seed, "dropout", epoch, step, *own))

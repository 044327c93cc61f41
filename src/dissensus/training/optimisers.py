"""Optimisers, learning-rate schedules and weight averages, as values that a spec can hold."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer

from dissensus.store.encoding import table


class OptimiserRule(Protocol):
    """A frozen dataclass with a base learning rate `lr` that builds a torch optimiser."""

    @property
    def lr(self) -> float:
        """The base learning rate, which the schedule scales."""
        ...

    def build(self, parameters: Iterable[Tensor]) -> Optimizer:
        """A fresh optimiser; fused kernels, one call for all parameters, on CPU and GPU alike."""
        ...


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent; weight decay acts on all parameters."""

    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    nesterov: bool = False

    def build(self, parameters: Iterable[Tensor]) -> Optimizer:
        return torch.optim.SGD(
            parameters, self.lr, self.momentum, weight_decay=self.weight_decay, nesterov=self.nesterov, fused=True
        )


@dataclass(frozen=True)
class Adam:
    """Kingma & Ba (2015), with weight decay added to the gradient."""

    lr: float = 1e-3
    weight_decay: float = 0.0

    def build(self, parameters: Iterable[Tensor]) -> Optimizer:
        return torch.optim.Adam(parameters, self.lr, weight_decay=self.weight_decay, fused=True)


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay (Loshchilov & Hutter, 2019)."""

    lr: float = 1e-3
    weight_decay: float = 0.01

    def build(self, parameters: Iterable[Tensor]) -> Optimizer:
        return torch.optim.AdamW(parameters, self.lr, weight_decay=self.weight_decay, fused=True)


class Schedule(Protocol):
    """What the base learning rate is multiplied by."""

    def factor(self, epoch: float, epochs: int) -> float:
        """`epoch` counts finished epochs, with fractions inside one: pure, so a resumed run needs no scheduler state."""
        ...


@dataclass(frozen=True)
class Constant:
    """The base learning rate throughout."""

    def factor(self, epoch: float, epochs: int) -> float:  # noqa: ARG002
        return 1.0


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from 1 to 0, moved every step or every epoch, after `warmup` epochs of linear rise."""

    warmup: float = 0.0
    every: str = "step"

    def factor(self, epoch: float, epochs: int) -> float:
        at = epoch if self.every == "step" else math.floor(epoch)
        if at < self.warmup:
            return at / self.warmup
        return 0.5 * (1 + math.cos(math.pi * (at - self.warmup) / (epochs - self.warmup)))


@dataclass(frozen=True)
class Linear:
    """A straight line from 1 to 0, moved every step, after `warmup` epochs of linear rise."""

    warmup: float = 0.0

    def factor(self, epoch: float, epochs: int) -> float:
        if epoch < self.warmup:
            return epoch / self.warmup
        return (epochs - epoch) / (epochs - self.warmup)


@dataclass(frozen=True)
class Multistep:
    """Multiplied by `gamma` at each milestone (in epochs), after `warmup` epochs of linear rise (000)."""

    milestones: tuple[int, ...] = (100, 150)
    gamma: float = 0.1
    warmup: float = 0.0

    def factor(self, epoch: float, epochs: int) -> float:  # noqa: ARG002
        if epoch < self.warmup:
            return epoch / self.warmup
        return self.gamma ** sum(epoch >= milestone for milestone in self.milestones)


@dataclass(frozen=True)
class Plateau:
    """Multiplied by `gamma` whenever the watched loss has not improved for more than `patience` epochs.

    What it does follows from the losses so far alone, so it too can be recomputed from the curve.
    """

    gamma: float = 0.5
    patience: int = 2
    minimum_improvement: float = 1e-4

    def factor(self, epoch: float, epochs: int) -> float:  # noqa: ARG002 - it depends on the losses alone
        return 1.0

    def after(self, losses: list[float]) -> float:
        """The factor after these epochs' losses."""
        best, bad, factor = math.inf, 0, 1.0
        for loss in losses:
            if loss < best * (1 - self.minimum_improvement):
                best, bad = loss, 0
            else:
                bad += 1
            if bad > self.patience:
                factor, bad = factor * self.gamma, 0
        return factor


@dataclass(frozen=True)
class EarlyStopping:
    """Stop when the watched loss has not improved by `minimum_improvement` for `patience` epochs."""

    patience: int = 5
    minimum_improvement: float = 1e-4

    def stops(self, losses: list[float]) -> bool:
        """Whether training ends after these epochs' losses."""
        best, bad = math.inf, 0
        for loss in losses:
            if loss < best - self.minimum_improvement:
                best, bad = loss, 0
            else:
                bad += 1
        return bad >= self.patience


@dataclass(frozen=True)
class Ema:
    """An exponential average of the weights over the steps, which is what is evaluated and kept.

    `epochs` is its memory: a step's weights count e times less for every so many epochs since. Until it has seen that
    many, it is the plain mean of all steps so far, so that the initial weights do not linger. Batch-norm statistics are
    averaged like weights. Training itself goes on from the weights that are not averaged.
    """

    epochs: float = 1.0

    def rate(self, steps: int, steps_an_epoch: int) -> float:
        """By how much the average moves towards the new weights, when `steps` have been taken with the newest."""
        return max(-math.expm1(-1 / (self.epochs * steps_an_epoch)), 1 / steps)


OPTIMISERS = table(Sgd, Adam, AdamW)
SCHEDULES = table(Constant, Cosine, Linear, Multistep, Plateau)
STOPPINGS = table(EarlyStopping)
AVERAGES = table(Ema)

"""Optimisers, as values that a spec can hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer

from dissensus.store.encoding import table
from dissensus.training.muon import Muon


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


OPTIMISERS = table(Sgd, Adam, AdamW, Muon)

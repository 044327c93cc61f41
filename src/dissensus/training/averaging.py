"""Averaged weights: what is evaluated and kept is a mean over the steps, while training goes on from the last one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from dissensus.store.encoding import table

Average = dict[str, Tensor]
"""Averaged parameters and batch-norm statistics, by their names in the state dict."""


@dataclass(frozen=True)
class Ema:
    """An exponential average of the weights over the steps.

    `epochs` is its memory: a step's weights count e times less for every so many epochs since. Until it has seen that
    many, it is the plain mean of all steps so far, so that the initial weights do not linger. Batch-norm statistics are
    averaged like weights; every other buffer (whitening filters, counters) is that of the network in training.
    """

    epochs: float = 1.0

    def rate(self, steps: int, steps_per_epoch: int) -> float:
        """By how much the average moves towards the new weights, when `steps` have been taken with the newest."""
        return max(-math.expm1(-1 / (self.epochs * steps_per_epoch)), 1 / steps)


def moved(average: Average | None, model: nn.Module, rate: float) -> Average:
    """The average, moved in place towards the present weights; the first is a copy of them."""
    present = _averaged_part(model)
    if average is None:
        return {name: value.clone() for name, value in present.items()}
    torch._foreach_lerp_([average[name] for name in present], list(present.values()), rate)
    return average


@torch.no_grad()
def install(average: Average, model: nn.Module) -> None:
    """Give the model the averaged weights."""
    for name, value in _averaged_part(model).items():
        value.copy_(average[name])


@contextmanager
def installed(average: Average | None, model: nn.Module) -> Iterator[None]:
    """The model has the averaged weights inside the block (its own where there are none), and its own afterwards."""
    if average is None:
        yield
        return
    own = {name: value.clone() for name, value in _averaged_part(model).items()}
    install(average, model)
    try:
        yield
    finally:
        install(own, model)


def _averaged_part(model: nn.Module) -> Average:
    part = {name: value.detach() for name, value in model.named_parameters(remove_duplicate=False)}
    for path, module in model.named_modules():
        if isinstance(module, _BatchNorm) and module.running_mean is not None and module.running_var is not None:
            part[f"{path}.running_mean"], part[f"{path}.running_var"] = module.running_mean, module.running_var
    return part


AVERAGES = table(Ema)

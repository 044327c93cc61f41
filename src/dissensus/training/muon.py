"""Muon (Jordan et al. 2024): the steps of a convolution's kernel are orthogonal matrices: all directions move alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from typing_extensions import override

QUINTIC = (3.4445, -4.7750, 2.0315)
"""The polynomial that a Newton–Schulz step applies to the singular values: steep at 0, and between 0.7 and 1.2 near 1."""


@dataclass(frozen=True)
class Muon:
    """Kernels of convolutions, flattened to [out, in · height · width], step along an orthogonal matrix; the rest by SGD.

    The matrix comes from the kernel's Nesterov momentum by `steps` Newton–Schulz steps, in float32. Weight decay is
    decoupled for kernels: each step also takes `lr · weight_decay` of the kernel away. Everything else (batch norms,
    biases, dense layers) takes Nesterov steps with the `other_` settings. The schedule scales both rates alike.
    """

    lr: float = 0.02
    momentum: float = 0.95
    weight_decay: float = 0.1
    steps: int = 3
    other_lr: float = 0.2
    other_momentum: float = 0.9
    other_weight_decay: float = 5e-4

    def build(self, parameters: Iterable[Tensor]) -> Optimizer:
        every = list(parameters)
        kernels = {
            "params": [parameter for parameter in every if parameter.ndim == 4],
            "momentum": self.momentum,
            "weight_decay": self.weight_decay,
            "steps": self.steps,
            "relative_lr": 1.0,
        }
        others = {
            "params": [parameter for parameter in every if parameter.ndim != 4],
            "momentum": self.other_momentum,
            "weight_decay": self.other_weight_decay,
            "steps": 0,
            "relative_lr": self.other_lr / self.lr,
        }
        return _Stepper([group for group in (kernels, others) if group["params"]], self.lr)


class _Stepper(Optimizer):
    """The loop sets one rate for all groups, so each has its own relative to it. `steps` are of Newton–Schulz; 0: SGD."""

    def __init__(self, groups: list[dict[str, Any]], lr: float) -> None:
        super().__init__(groups, {"lr": lr})

    @override
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None, "the loop computes the gradients itself"
        for group in self.param_groups:
            rate = group["lr"] * group["relative_lr"]
            move = _orthogonal_step if group["steps"] else _sgd_step
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = self.state[parameter]
                    if "momentum_buffer" not in state:
                        state["momentum_buffer"] = torch.zeros_like(parameter)
                    move(parameter, parameter.grad, state["momentum_buffer"], rate, group)


def _orthogonal_step(parameter: Tensor, gradient: Tensor, buffer: Tensor, rate: float, group: dict[str, Any]) -> None:
    flat = _nesterov(gradient, buffer, group["momentum"]).flatten(1)
    # A tall matrix has more rows than its rank: √(rows / columns) keeps the size of what a row computes.
    stretch = max(1.0, flat.shape[0] / flat.shape[1]) ** 0.5
    parameter.mul_(1 - rate * group["weight_decay"])
    parameter.add_(orthogonalised(flat, group["steps"]).view_as(parameter), alpha=-rate * stretch)


def _sgd_step(parameter: Tensor, gradient: Tensor, buffer: Tensor, rate: float, group: dict[str, Any]) -> None:
    decayed = gradient.add(parameter, alpha=group["weight_decay"])
    parameter.add_(_nesterov(decayed, buffer, group["momentum"]), alpha=-rate)


def _nesterov(gradient: Tensor, buffer: Tensor, momentum: float) -> Tensor:
    """Move the buffer, and look ahead along it."""
    buffer.mul_(momentum).add_(gradient)
    return gradient.add(buffer, alpha=momentum)


def orthogonalised(matrix: Tensor, steps: int) -> Tensor:
    """`matrix` with its singular values moved towards 1 by `steps` Newton–Schulz steps; its directions stay."""
    a, b, c = QUINTIC
    tall = matrix.shape[0] > matrix.shape[1]
    wide = matrix.float().mT if tall else matrix.float()
    x: Tensor = wide / wide.norm().clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if tall else x).to(matrix.dtype)

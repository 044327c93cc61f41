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
"""The polynomial that Newton–Schulz steps apply to the singular values: steep at 0, and near 1 for all of (0, 1]."""


@dataclass(frozen=True)
class Muon:
    """Kernels of convolutions, flattened to [out, in · height · width], step along an orthogonal matrix; the rest by SGD.

    The matrix comes from the kernel's Nesterov momentum by `steps` Newton–Schulz steps, in float32. Weight decay is
    decoupled for kernels: each step also takes `lr · weight_decay` of the kernel away. Everything else (batch norms,
    biases, dense layers) takes Nesterov steps with `other_lr` and `other_weight_decay`; the schedule scales both rates
    alike.
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
        kernels = [one for one in every if one.ndim == 4]
        others = [one for one in every if one.ndim != 4]
        groups: list[dict[str, Any]] = [
            {"params": kernels, "scale": 1.0, "momentum": self.momentum, "weight_decay": self.weight_decay},
            {
                "params": others,
                "scale": self.other_lr / self.lr,
                "momentum": self.other_momentum,
                "weight_decay": self.other_weight_decay,
            },
        ]
        kept = [{**group, "steps": self.steps if group["params"] is kernels else 0} for group in groups]
        return _Stepper([group for group in kept if group["params"]], self.lr)


class _Stepper(Optimizer):
    """Each group has a rate relative to `lr`, which the loop sets for all; groups with `steps` are orthogonalised."""

    def __init__(self, groups: list[dict[str, Any]], lr: float) -> None:
        super().__init__(groups, {"lr": lr})

    @override
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None, "the loop computes the gradients itself"
        for group in self.param_groups:
            rate, momentum, decay = group["lr"] * group["scale"], group["momentum"], group["weight_decay"]
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                if not group["steps"]:
                    gradient = gradient.add(parameter, alpha=decay)
                state = self.state[parameter]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                moving = state["momentum_buffer"].mul_(momentum).add_(gradient)
                ahead = gradient.add(moving, alpha=momentum)
                if group["steps"]:
                    flat = ahead.flatten(1)
                    # A tall matrix has more rows than its rank: √(rows / columns) keeps the size of what a row computes.
                    stretch = max(1.0, flat.shape[0] / flat.shape[1]) ** 0.5
                    ahead = orthogonalised(flat, group["steps"]).mul_(stretch).view_as(parameter)
                    parameter.mul_(1 - rate * decay)
                parameter.add_(ahead, alpha=-rate)


def orthogonalised(matrix: Tensor, steps: int) -> Tensor:
    """`matrix` with all singular values moved towards 1 by `steps` Newton–Schulz steps; its directions stay."""
    a, b, c = QUINTIC
    tall = matrix.shape[0] > matrix.shape[1]
    wide = matrix.float().mT if tall else matrix.float()
    x: Tensor = wide / wide.norm().clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if tall else x).to(matrix.dtype)

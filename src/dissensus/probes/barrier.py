"""The barrier between two models: how far the loss rises on the straight line between their weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dissensus.datasets.data import to_float
from dissensus.errors import InputError
from dissensus.models.model import Model


@dataclass(frozen=True)
class BarrierProfile:
    """`losses` are those along the line, `height` how far they rise above the straight line between the two ends'."""

    height: float
    losses: tuple[float, ...]


def barrier(
    model: Model,
    state_a: Mapping[str, Tensor],
    state_b: Mapping[str, Tensor],
    loss: Callable[[Model], float],
    *,
    points: int = 21,
    reestimate: Tensor | None = None,
    batch: int = 500,
) -> BarrierProfile:
    """The largest L(θ_α) − [(1 − α)·L(θ_0) + α·L(θ_1)] over `points` of the straight line between two sets of weights.

    Batch-norm statistics are interpolated like weights; or, given training inputs `reestimate` [N, …] as they are stored,
    measured anew at every point, both ends included: the mean over batches of each batch's own moments. `loss` is
    called with a model in eval mode.
    """
    if points < 2:
        raise InputError(f"{points} points are no line", where="barrier", hint="Use at least the two ends", state="")
    shapes_a, shapes_b = ({name: part.shape for name, part in state.items()} for state in (state_a, state_b))
    if shapes_a != shapes_b:
        raise InputError("the two sets of weights are of different models", where="barrier", state="")
    between = copy.deepcopy(model).eval()
    alphas = [point / (points - 1) for point in range(points)]
    losses = []
    for alpha in alphas:
        between.load_state_dict({name: _interpolated(state_a[name], state_b[name], alpha) for name in state_a})
        if reestimate is not None:
            _reestimate_batch_norm(between, reestimate, batch)
        losses.append(loss(between))
    line = [(1 - alpha) * losses[0] + alpha * losses[-1] for alpha in alphas]
    return BarrierProfile(max(value - straight for value, straight in zip(losses, line, strict=True)), tuple(losses))


def _interpolated(a: Tensor, b: Tensor, alpha: float) -> Tensor:
    return torch.lerp(a, b, alpha) if a.is_floating_point() else a  # what is counted is not interpolated


@torch.no_grad()
def _reestimate_batch_norm(model: Model, x: Tensor, batch: int) -> None:
    norms = [part for part in model.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean over batches, in place of a moving one
        norm.train()
    device = next(model.parameters()).device
    for part in torch.tensor_split(x, math.ceil(len(x) / batch)):  # of equal size, since each weighs the same
        model.predict(to_float(part).to(device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()

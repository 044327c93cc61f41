"""Grad-CAM: where in an image a model looks, and whether two models look at the same places."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from dissensus.datasets.data import to_float
from dissensus.errors import InputError
from dissensus.models.model import Model
from dissensus.probes.requirements import last_stage_of


def grad_cam(model: Model, x: Tensor, *, layer: str | None = None, batch: int = 250) -> Tensor:
    """Where the model looks for the class it predicts: maps [N, h, w], 0 or more (Selvaraju et al., 2017).

    Each channel of an activation [N, C, h, w], weighted by the mean over its cells of the predicted logit's gradient;
    summed; negative values cut. The activation is the output of the submodule named `layer`, by default of the model's
    last stage; the map has its size. In eval mode, on a copy of the model.
    """
    fixed = copy.deepcopy(model).eval().requires_grad_(False)
    stage = last_stage_of(fixed, "grad_cam") if layer is None else fixed.get_submodule(layer)
    activations: list[Tensor] = []
    stage.register_forward_hook(lambda _module, _inputs, output: activations.append(output))
    maps = []
    for images in torch.split(x, batch):
        activations.clear()
        pixels = to_float(images).detach().requires_grad_()  # so that there is a graph, though no weight asks for one
        logits = fixed.predict(pixels).logits
        activation = activations[-1]
        if activation.ndim != 4 or activation.shape[2] * activation.shape[3] < 2:
            raise InputError(
                f"the activation {list(activation.shape)} is not a map of several cells",
                where="grad_cam",
                hint="Name a convolutional layer, or use larger images",
                state="",
            )
        (slope,) = torch.autograd.grad(logits.amax(1).sum(), activation)
        weighted = slope.mean((2, 3), keepdim=True) * activation.detach()
        maps.append(weighted.sum(1).relu().cpu())
    return torch.cat(maps)


@dataclass(frozen=True, eq=False)
class Stability:
    """The correlation of the two maps of each kept item; `kept` [N] is false where a map was all zero or constant."""

    correlation: Tensor
    kept: Tensor

    @property
    def left_out(self) -> int:
        """How many items have no correlation."""
        return int((~self.kept).sum())


def stability(maps_a: Tensor, maps_b: Tensor) -> Stability:
    """Pearson over each map's own cells [N, h, w] between two models' maps of the same items; float64 [kept].

    >>> a, b = torch.tensor([[[0.0, 4.0]], [[0.0, 0.0]]]), torch.tensor([[[5.0, 6.0]], [[0.0, 1.0]]])
    >>> result = stability(a, b)
    >>> result.correlation.round(decimals=6).tolist(), result.left_out
    ([1.0], 1)
    """
    if maps_a.shape != maps_b.shape or maps_a.ndim != 3:
        raise InputError(
            f"{list(maps_a.shape)} and {list(maps_b.shape)} are not maps [N, h, w] of the same items",
            where="stability",
            state="",
        )
    a, b = maps_a.double().flatten(1), maps_b.double().flatten(1)
    kept = (a.amax(1) > a.amin(1)) & (b.amax(1) > b.amin(1))
    a, b = a[kept], b[kept]
    a, b = a - a.mean(1, keepdim=True), b - b.mean(1, keepdim=True)
    correlation = (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1))
    return Stability(correlation.clamp(-1, 1), kept)

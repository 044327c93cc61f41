"""Do two models see the same? Their features compared (003, figure 12), and where in an image they look (figure 9)."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dissensus.datasets.data import to_float
from dissensus.errors import InputError


def linear_cka(x: Tensor, y: Tensor, *, unbiased: bool = False) -> float:
    """Centred kernel alignment of two models' features of the same items, [N, D] and [N, E] (Kornblith et al., 2019).

    1 where they differ by rotation and scale only. The plain value, which papers print, is biased upwards: of unrelated
    features it is near 1 where N is not much larger than D and E. `unbiased` uses HSIC₁ (Song et al., 2012), near 0 then,
    and possibly below it. Works on D × E products, never on N × N.

    >>> x = torch.tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0], [5.0, 3.0], [0.0, 4.0]])
    >>> round(linear_cka(x, 3 * x.flip(1) + 7), 6)
    1.0
    """
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y):
        raise InputError(f"{list(x.shape)} and {list(y.shape)} are not features of the same items", where="cka", state="")
    if len(x) < 4:
        raise InputError(f"{len(x)} items are too few", where="cka", hint="Compare on four or more", state="")
    x, y = (part.double() - part.double().mean(0) for part in (x, y))
    hsic = _hsic_unbiased if unbiased else _hsic_biased
    own_x, own_y = hsic(x, x), hsic(y, y)
    if own_x <= 0 or own_y <= 0:
        raise InputError(
            "one model's features do not vary over these items",
            where="cka",
            hint="Compare on more items",
            state="",
        )
    return hsic(x, y) / math.sqrt(own_x * own_y)


def _hsic_biased(x: Tensor, y: Tensor) -> float:
    """(N − 1)² HSIC₀ of centred features under the linear kernel: the factor cancels in CKA."""
    return float((x.T @ y).square().sum())


def _hsic_unbiased(x: Tensor, y: Tensor) -> float:
    """N(N − 3) HSIC₁. The rows of a Gram matrix of centred features sum to 0, so that of its three terms only the
    diagonals and ‖XᵀY‖² are left: no Gram matrix is needed."""
    n = len(x)
    diagonal_x, diagonal_y = x.square().sum(1), y.square().sum(1)
    crossed = n / (n - 2) * (diagonal_x @ diagonal_y) - diagonal_x.sum() * diagonal_y.sum() / ((n - 1) * (n - 2))
    return float((x.T @ y).square().sum() - crossed)


def grad_cam(model: nn.Module, x: Tensor, *, layer: str | None = None, batch: int = 250) -> Tensor:
    """Where the model looks for the class it predicts: maps [N, h, w], 0 or more (Selvaraju et al., 2017).

    Each channel of an activation [N, C, h, w], weighted by the mean over its cells of the predicted logit's gradient;
    summed; negative values cut. The activation is the output of the submodule named `layer`; by default that of the last
    part of `model.body` that still has more than one cell: in a residual network, the one before global pooling. The map
    has the activation's own size. In eval mode, on a copy of the model.
    """
    fixed = copy.deepcopy(model).eval().requires_grad_(False)
    activations: list[Tensor] = []
    watched = [fixed.get_submodule(layer)] if layer else list(fixed.get_submodule("body").children())
    for part in watched:
        part.register_forward_hook(lambda _module, _inputs, output: activations.append(output))
    maps = []
    for images in torch.split(x, batch):
        activations.clear()
        pixels = to_float(images).detach().requires_grad_()  # so that there is a graph, though no weight asks for one
        logits = fixed.predict(pixels).logits  # type: ignore[operator]
        spatial = [one for one in activations if one.ndim == 4 and one.shape[2] * one.shape[3] > 1]
        if not spatial:
            raise InputError(
                "no activation of this model is a map",
                where="grad_cam",
                hint="Name a convolutional layer, or use a convolutional model",
                state="",
            )
        (slope,) = torch.autograd.grad(logits.amax(1).sum(), spatial[-1])
        weighted = slope.mean((2, 3), keepdim=True) * spatial[-1].detach()
        maps.append(weighted.sum(1).relu().cpu())
    return torch.cat(maps)


@dataclass(frozen=True, eq=False)
class Stability:
    """Of each kept item, the correlation of its two maps; `kept` [N] is false where a map was all zero or constant."""

    correlation: Tensor
    kept: Tensor

    @property
    def left_out(self) -> int:
        """How many items have no correlation."""
        return int((~self.kept).sum())


def stability(maps_a: Tensor, maps_b: Tensor) -> Stability:
    """Pearson over each map's own cells [N, h, w] between two models' maps of the same items; float64 [kept].

    >>> a, b = torch.tensor([[[0.0, 4.0]], [[0.0, 0.0]]]), torch.tensor([[[5.0, 6.0]], [[0.0, 1.0]]])
    >>> found = stability(a, b)
    >>> found.correlation.round(decimals=6).tolist(), found.left_out
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

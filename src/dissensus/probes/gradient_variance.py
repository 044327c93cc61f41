"""The noise that a sampled label puts on the gradient of the last layer."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from dissensus import random
from dissensus.errors import InputError
from dissensus.metrics.checks import checked_probs


def last_layer_gradient_variance(target: Tensor, features: Tensor, *, bias: bool = True, scale: float = 1.0) -> Tensor:
    """The variance of each item's gradient when its label is drawn from `target` [N, K]; float64 [N].

    For penultimate features h [N, D], the trace of the covariance of the gradient by weights and bias is
    (1 − ‖p‖²)(1 + ‖h‖²), whatever the model predicts ("Same Target, Different Basins", 2026, equation 7); without the
    1 + where there is no bias, and times `scale`² where the layer's output is multiplied by that. It grows with
    disagreement by construction, so its correlation with vote entropy is no finding about training.

    >>> last_layer_gradient_variance(torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([[3.0], [3.0]])).tolist()
    [5.0, 0.0]
    """
    p, h = _checked(target, features)
    return scale**2 * (1 - p.square().sum(1)) * (h.square().sum(1) + (1 if bias else 0))


def sampled_gradient_variance(head: nn.Module, target: Tensor, features: Tensor, *, draws: int, seed: int) -> Tensor:
    """The same by experiment, float64 [N]: `draws` labels per item, and the spread of the gradients by autograd.

    `head` turns features into logits and may be any module: this is what checks `last_layer_gradient_variance`.
    """
    p, h = _checked(target, features)
    fixed = copy.deepcopy(head).to("cpu", torch.float64)
    parameters = {name: parameter.detach() for name, parameter in fixed.named_parameters()}

    def loss(values: dict[str, Tensor], feature: Tensor, label: Tensor) -> Tensor:
        logits: Tensor = functional_call(fixed, values, (feature[None],))
        return cross_entropy(logits, label[None])

    gradient = vmap(grad(loss), (None, None, 0))
    labels = torch.arange(p.shape[1])
    counts = torch.from_numpy(random.numpy_generator(seed, "probe", "labels").multinomial(draws, p.numpy())).double()
    variances = []
    for feature, label_counts in zip(h, counts, strict=True):
        by_label = torch.cat([part.flatten(1) for part in gradient(parameters, feature, labels).values()], 1)
        mean = label_counts @ by_label / draws
        variances.append(label_counts @ (by_label - mean).square().sum(1) / (draws - 1))
    return torch.stack(variances)


def _checked(target: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    p, h = checked_probs(target, where="target"), features.detach().to("cpu", torch.float64)
    if h.ndim != 2 or len(h) != len(p):
        raise InputError(f"features {list(h.shape)} are not [{len(p)} items, width]", where="features", state="")
    return p, h

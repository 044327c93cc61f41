"""The Hessian of the loss at a trained model, as a matrix that can only be multiplied with vectors.

It is over all trainable parameters, of the mean cross-entropy to the people on the items given, without weight decay, in
eval mode (batch-norm statistics frozen), in the model's own precision.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jvp
from torch.nn.functional import cross_entropy

from dissensus.datasets.data import to_float
from dissensus.errors import InputError
from dissensus.metrics.checks import checked_probs
from dissensus.models.model import Model


class HessianOperator:
    """Of the mean cross-entropy to `target` [N, K] on `x` [N, …], as a function from vectors [size] to vectors [size].

    A product goes through the items in micro-batches, so memory is bounded by `micro_batch` and the size of the model.
    It is the gradient of a directional derivative (reverse over forward). On ResNet-20 with 32×32 images, channels-last,
    one thread, that takes 0.85 of the time of forward over reverse and 0.77 of that of double backward.
    """

    def __init__(self, model: Model, x: Tensor, target: Tensor, *, micro_batch: int = 50) -> None:
        if len(x) != len(target):
            raise InputError(f"{len(x)} inputs but {len(target)} targets", where="Hessian", state="")
        self._loss = _SoftCrossEntropy(copy.deepcopy(model).eval())
        if x.ndim == 4:
            self._loss.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._parameters = {name: p.detach() for name, p in self._loss.named_parameters() if p.requires_grad}
        self._loss.requires_grad_(False)
        self._sizes = [p.numel() for p in self._parameters.values()]
        self.size = sum(self._sizes)
        if self.size == 0:
            raise InputError("the model has no trainable parameters", where="Hessian", state="")
        first = next(iter(self._parameters.values()))
        self.dtype, self.device = first.dtype, first.device
        _warm_forward_mode()
        self._x, self._target, self._micro_batch = x, checked_probs(target, where="target"), micro_batch

    def __call__(self, vector: Tensor) -> Tensor:
        """The Hessian times a vector over the trainable parameters, in the order of `model.parameters()`."""
        pieces = zip(self._parameters.items(), torch.split(vector, self._sizes), strict=True)
        direction = {name: piece.view(p.shape) for (name, p), piece in pieces}
        product = torch.zeros_like(vector)
        for rows in torch.split(torch.arange(len(self._x)), self._micro_batch):
            inputs = to_float(self._x[rows]).to(self.device, self.dtype)
            target = self._target[rows].to(self.device, self.dtype)
            share = len(rows) / len(self._x)
            product += share * torch.cat([part.reshape(-1) for part in self._product_on(inputs, target, direction)])
        return product

    def _product_on(self, inputs: Tensor, target: Tensor, direction: Mapping[str, Tensor]) -> list[Tensor]:
        """The product with the Hessian of one micro-batch: one tensor per parameter."""

        def loss(parameters: dict[str, Tensor]) -> Tensor:
            value: Tensor = functional_call(self._loss, parameters, (inputs, target))
            return value

        def slope(parameters: dict[str, Tensor]) -> Tensor:
            along: Tensor = jvp(loss, (parameters,), (direction,))[1]
            return along

        curvature = grad(slope)(self._parameters)
        return [curvature[name] for name in self._parameters]


class _SoftCrossEntropy(nn.Module):
    """The loss as a module's forward, which is what `functional_call` can call."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(self.model.predict(x).logits, target)


@cache
def _warm_forward_mode() -> None:
    """Torch's forward mode calls, once, its own deprecated `torch.jit`: that warning is not the user's to read."""
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)
        forward_ad.make_dual(torch.zeros(()), torch.zeros(()))  # type: ignore[no-untyped-call]

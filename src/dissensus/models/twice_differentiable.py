"""Convolutions and batch norms whose gradients have fast gradients, for losses that contain one (a gradient penalty).

PyTorch differentiates the gradient of a convolution by a convolution with kernels as large as the maps, and that of batch
norm by some thirty reductions over the batch. Both have a short form.

A convolution's input gradient is dx = Wᵀ dy. The gradient of ⟨v, dx⟩ is W v for dy, and for W the ordinary weight
gradient with v as the input.

Batch norm: with x̂ = (x − μ) r, n values per channel and P = I − (1 1ᵀ + x̂ x̂ᵀ) / n, the input gradient is dx = γ r P dy.
P is symmetric, so that the gradient of ⟨v, dx⟩ is

    γ r P v                                               for dy,
    −(γ r² / n) (P v ⟨dy, x̂⟩ + P dy ⟨v, x̂⟩ + x̂ ⟨v, P dy⟩)   for x,
    r ⟨v, P dy⟩                                           for γ.

The first is batch norm's ordinary backward pass of v, which also gives ⟨v, x̂⟩ and the sum of v.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import conv2d
from typing_extensions import override


class _Scope:
    """Whether a backward pass wants the gradients of inputs alone, which a Python function is not told."""

    inputs_only = False


_scope = _Scope()


@contextmanager
def inputs_only() -> Iterator[None]:
    """Inside, backward passes skip the weights of these convolutions."""
    _scope.inputs_only = True
    try:
        yield
    finally:
        _scope.inputs_only = False


class TwiceDifferentiableConv(nn.Conv2d):
    """`nn.Conv2d`, with fast second derivatives."""

    @override
    def forward(self, input: Tensor) -> Tensor:
        """[B, C, H, W] to [B, C', H', W']."""
        if not torch.is_grad_enabled():
            return super().forward(input)
        weight, device = self.weight, input.device.type
        if torch.is_autocast_enabled(device):  # which would cast inside of the function, where backward cannot see it
            input, weight = (value.to(torch.get_autocast_dtype(device)) for value in (input, weight))  # noqa: A001
        how = (self.stride, self.padding, self.dilation, self.groups)
        y: Tensor = _Conv.apply(input, weight, how)  # type: ignore[no-untyped-call]
        return y if self.bias is None else y + self.bias.to(y.dtype)[:, None, None]


class TwiceDifferentiableBatchNorm(nn.BatchNorm2d):
    """`nn.BatchNorm2d`; in training mode with fast second derivatives."""

    @override
    def forward(self, input: Tensor) -> Tensor:
        """[B, C, H, W] to the same."""
        if not self.training or not torch.is_grad_enabled():
            return super().forward(input)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        normed: Tensor = _Norm.apply(  # type: ignore[no-untyped-call]
            input, self.weight, self.bias, self.running_mean, self.running_var, self.momentum, self.eps
        )
        return normed


def make_twice_differentiable(network: nn.Module) -> None:
    """Give the convolutions and batch norms of a network fast second derivatives. Nothing else of them changes."""
    for part in network.modules():
        if type(part) is nn.Conv2d and part.padding_mode == "zeros" and not isinstance(part.padding, str):
            part.__class__ = TwiceDifferentiableConv
        if type(part) is nn.BatchNorm2d and part.affine and part.track_running_stats and part.momentum is not None:
            part.__class__ = TwiceDifferentiableBatchNorm


class _Conv(Function):
    @staticmethod
    @override
    def forward(ctx: Any, x: Tensor, weight: Tensor, how: Any) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.how = how
        return conv2d(x, weight, None, *how)

    @staticmethod
    @override
    def backward(ctx: Any, dy: Tensor) -> Any:
        wants_x, wants_weight, _ = ctx.needs_input_grad
        wanted = (wants_x, wants_weight and not _scope.inputs_only)
        return *_ConvGradient.apply(dy, *ctx.saved_tensors, ctx.how, wanted), None  # type: ignore[no-untyped-call]


class _ConvGradient(Function):
    """From dy to the gradients of input and weight, where they are wanted."""

    @staticmethod
    @override
    def forward(ctx: Any, dy: Tensor, x: Tensor, weight: Tensor, how: Any, wanted: tuple[bool, bool]) -> Any:
        ctx.save_for_backward(dy, x, weight)
        ctx.how = how
        ctx.set_materialize_grads(False)
        return _conv_backward(dy, x, weight, how, *wanted)

    @staticmethod
    @override
    def backward(ctx: Any, v: Tensor | None, v_weight: Tensor | None) -> Any:
        (dy, x, weight), how = ctx.saved_tensors, ctx.how
        grad_dy, grad_x, grad_weight = None, None, None
        if v is not None:
            grad_dy = conv2d(v, weight, None, *how)
            _, grad_weight = _conv_backward(dy, v, weight, how, False, True)
        if v_weight is not None:
            grad_dy = _sum(grad_dy, conv2d(x, v_weight, None, *how))
            grad_x, _ = _conv_backward(dy, x, v_weight, how, True, False)
        return grad_dy, grad_x, grad_weight, None, None


def _conv_backward(dy: Tensor, x: Tensor, weight: Tensor, how: Any, wants_x: bool, wants_weight: bool) -> Any:
    """Ordinary: the gradients of input and weight."""
    stride, padding, dilation, groups = how
    return torch.ops.aten.convolution_backward(
        dy, x, weight, None, stride, padding, dilation, False, (0, 0), groups, [wants_x, wants_weight, False]
    )[:2]


class _Norm(Function):
    @staticmethod
    @override
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        momentum: float,
        eps: float,
    ) -> Tensor:
        y, mean, scale = torch.native_batch_norm(x, weight, bias, running_mean, running_var, True, momentum, eps)
        ctx.save_for_backward(x, weight, mean, scale)
        ctx.eps = eps
        return y

    @staticmethod
    @override
    def backward(ctx: Any, dy: Tensor) -> Any:
        return *_NormGradient.apply(dy, *ctx.saved_tensors, ctx.eps), None, None, None, None  # type: ignore[no-untyped-call]


class _NormGradient(Function):
    """From dy to the gradients of input, weight and bias."""

    @staticmethod
    @override
    def forward(ctx: Any, dy: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, eps: float) -> Any:
        dx, dweight, dbias = _norm_backward(dy, x, weight, mean, scale, eps)
        ctx.save_for_backward(dy, x, weight, mean, scale, dx, dweight, dbias)
        ctx.eps = eps
        ctx.set_materialize_grads(False)
        return dx, dweight, dbias

    @staticmethod
    @override
    def backward(ctx: Any, v: Tensor | None, v_weight: Tensor | None, v_bias: Tensor | None) -> Any:
        dy, x, weight, mean, scale, dx, dweight, dbias = ctx.saved_tensors
        n = x.numel() // x.shape[1]
        grad_dy, grad_x, grad_weight = None, None, None
        if v is not None:
            grad_dy, v_dot_x, v_sum = _norm_backward(v, x, weight, mean, scale, ctx.eps)
            v_dot_dy = (v * dy).sum((0, 2, 3), dtype=scale.dtype)
            projected = v_dot_dy - (v_sum * dbias + v_dot_x * dweight) / n  # ⟨v, P dy⟩
            along_x = -weight * scale**3 * projected / n
            grad_x = _wide(-scale * dweight / n, x) * grad_dy
            grad_x.addcmul_(_wide(-scale * v_dot_x / n, x), dx)
            grad_x.addcmul_(_wide(along_x, x), x).add_(_wide(-along_x * mean, x))
            grad_weight = scale * projected
        if v_weight is not None or v_bias is not None:
            zero = torch.zeros_like(weight)
            by_weight, by_bias = (zero if given is None else given for given in (v_weight, v_bias))
            normed = (x - _wide(mean, x)) * _wide(scale, x)
            grad_dy = _sum(grad_dy, _wide(by_weight, x) * normed + _wide(by_bias, x))
            of_dweight, _, _ = _norm_backward(dy, x, by_weight, mean, scale, ctx.eps)
            grad_x = _sum(grad_x, of_dweight)
        return grad_dy, grad_x, grad_weight, None, None, None


def _norm_backward(dy: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, eps: float) -> Any:
    """Ordinary: the gradients of input, weight and bias."""
    return torch.ops.aten.native_batch_norm_backward(
        dy, x, weight, None, None, mean, scale, True, eps, [True, True, True]
    )


def _wide(per_channel: Tensor, x: Tensor) -> Tensor:
    return per_channel.to(x.dtype)[:, None, None]


def _sum(first: Tensor | None, second: Tensor) -> Tensor:
    return second if first is None else first + second

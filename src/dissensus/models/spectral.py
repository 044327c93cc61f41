"""The spectral norm of layers, and a bound on it.

The norm of a convolution is that of the linear map it is, on images of the size that it sees: power iteration applies
the convolution and its adjoint, to several directions at once: the largest singular values of a convolution lie close
together, and a single direction is slow to turn from one that was the largest to one that is now. The norm of its
weights reshaped to a matrix, which `torch.nn.utils.spectral_norm` takes, is another number: it may be off by the side
of the kernel in either direction of interest.
"""

from __future__ import annotations

import copy
import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear
from torch.nn.grad import conv2d_input
from typing_extensions import override

Layer = nn.Conv2d | nn.Linear

TINY = 1e-12
DIRECTIONS = 8


class SpectralBound(nn.Module):
    """Keeps every convolution and dense layer of a network at a spectral norm of at most `bound`.

    A layer within the bound is left as it is; one beyond it is scaled back to it. The directions of power iteration are
    kept from call to call, in the state dict, so that few iterations per call are enough while weights change slowly.
    An estimated norm is never above the true one, so that a layer may be beyond the bound by what the estimate lacks.
    """

    def __init__(self, network: nn.Module, shape: tuple[int, ...], bound: float) -> None:
        super().__init__()
        self.bound = bound
        self.names: list[str] = []
        for name, input_shape in _input_shapes(network, shape).items():
            count = min(DIRECTIONS, math.prod(input_shape))
            directions = _orthonormal(torch.randn(count, *input_shape[1:]))
            self.register_buffer(f"directions_{len(self.names)}", directions)
            self.names.append(name)

    @torch.no_grad()
    def hold(self, network: nn.Module, iterations: int = 1) -> None:
        """Scale back the layers of this network that are beyond the bound."""
        for layer, norm in zip(self._layers(network), self.norms(network, iterations), strict=True):
            layer.weight.mul_((self.bound / norm.clamp_min(TINY)).clamp_max(1.0))

    @torch.no_grad()
    def norms(self, network: nn.Module, iterations: int = 1) -> list[Tensor]:
        """The estimated spectral norm of each layer in `names`, after more iterations from where the last ones ended."""
        norms = []
        for index, layer in enumerate(self._layers(network)):
            directions = cast("Tensor", getattr(self, f"directions_{index}"))
            for _ in range(iterations):
                directions.copy_(_orthonormal(_adjoint(layer, _apply(layer, directions), directions.shape)))
            norms.append(torch.linalg.matrix_norm(_apply(layer, directions).flatten(1), 2))
        return norms

    def _layers(self, network: nn.Module) -> list[Layer]:
        return [cast("Layer", network.get_submodule(name)) for name in self.names]

    @override
    def extra_repr(self) -> str:
        return f"bound={self.bound}, layers={len(self.names)}"


def _orthonormal(directions: Tensor) -> Tensor:
    """Directions [k, …] of the same span, of length 1 and at right angles to each other."""
    basis: Tensor = torch.linalg.qr(directions.flatten(1).T)[0]
    return basis.T.reshape(directions.shape)


def _apply(layer: Layer, x: Tensor) -> Tensor:
    """The layer without its bias: a linear map."""
    if isinstance(layer, nn.Linear):
        return linear(x, layer.weight)
    return conv2d(x, layer.weight, None, layer.stride, layer.padding, layer.dilation, layer.groups)


def _adjoint(layer: Layer, y: Tensor, input_shape: torch.Size) -> Tensor:
    """The transposed map, from outputs to inputs of `input_shape`."""
    if isinstance(layer, nn.Linear):
        return linear(y, layer.weight.T)
    how = (layer.stride, layer.padding, layer.dilation, layer.groups)
    back: Tensor = conv2d_input(input_shape, layer.weight, y, *how)  # type: ignore[no-untyped-call]
    return back


def _input_shapes(network: nn.Module, shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The shape of a single input of every convolution and dense layer, by the layer's name, found without computing."""
    shapes_only = copy.deepcopy(network).eval().to("meta")
    shapes: dict[str, tuple[int, ...]] = {}

    def note(name: str, inputs: tuple[Tensor, ...]) -> None:
        shapes[name] = tuple(inputs[0].shape)

    for name, part in shapes_only.named_modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            part.register_forward_pre_hook(lambda _, inputs, name=name: note(name, inputs))
    shapes_only(torch.empty(1, *shape, device="meta"))
    return shapes

"""The first layer of every network, so that whatever acts on inputs, attacks above all, works in their own units."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from typing_extensions import override


class Normalise(nn.Module):
    """(x - mean) / std per channel of images [B, C, H, W] or per feature of [B, D]; saved with the weights."""

    mean: Tensor
    std: Tensor

    def __init__(self, shape: tuple[int, ...], mean: Tensor, std: Tensor) -> None:
        super().__init__()
        if mean.shape != shape[:1] or std.shape != shape[:1]:
            raise ValueError(
                f"inputs {shape} need {shape[0]} means and stds, not {tuple(mean.shape)}, {tuple(std.shape)}"
            )
        self.shape = shape
        broadcast = (shape[0], *(1 for _ in shape[1:]))
        self.register_buffer("mean", mean.detach().float().reshape(broadcast).clone())
        self.register_buffer("std", std.detach().float().reshape(broadcast).clone())

    @override
    def forward(self, x: Tensor) -> Tensor:
        """The same shape, centred and scaled."""
        return (x - self.mean) / self.std


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and std for `Normalise`, float32: per channel of images [N, C, H, W], per feature of [N, D].

    uint8 images are measured in [0, 1], as networks see them. What never varies gets std 1. Give it training rows only.

    >>> mean, std = moments(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))
    >>> mean.tolist(), std.tolist()
    ([2.0, 5.0], [1.0, 1.0])
    """
    others = [axis for axis in range(x.ndim) if axis != 1]
    values = x.double() / 255 if x.dtype == torch.uint8 else x.double()
    std, mean = torch.std_mean(values, dim=others, correction=0)
    return mean.float(), torch.where(std > 0, std, 1.0).float()

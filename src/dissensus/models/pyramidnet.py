"""PyramidNet: Han, Kim & Kim, Deep Pyramidal Residual Networks (CVPR 2017).

`PyramidNet()` is PyramidNet-110 with α = 270, `pyramidnet_basic_110_270` of Peterson et al. 2019: 54 blocks, each 5
channels wider than the one before it, from 16 to 286; 28,485,477 parameters for ten classes (the paper prints
28.3M). A block is norm–convolution–norm–ReLU–convolution–norm, without a ReLU at its start; its shortcut has no
weights: it is averaged where the map is halved, and new channels are zeros.

Deviation from the repository: the last bias starts as PyTorch's (there: 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import pad, relu
from typing_extensions import override

from dissensus.models.classifier import Classifier
from dissensus.models.normalise import Normalise
from dissensus.models.stages import DropoutBlock, blocks_per_stage, convolution, first_stride, pooled_classifier


@dataclass(frozen=True)
class PyramidNet:
    """`depth` layers; `width` channels in the stem, and `alpha` more at the end, added in equal steps per block."""

    depth: int = 110
    alpha: int = 270
    width: int = 16
    spec_name: ClassVar[str] = "pyramidnet"
    published: ClassVar[str] = "pyramidnet_basic_110_270 (Han et al. 2017)"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """For images of `shape` [C, H, W] (without the batch)."""
        blocks = blocks_per_stage(self.depth, layers=2, others=2)
        wide_in = self.width
        layers: list[nn.Module] = [convolution(shape[0], wide_in, 3), nn.BatchNorm2d(wide_in)]
        for number in range(3 * blocks):
            width = round(self.width + self.alpha * (number + 1) / (3 * blocks))
            layers.append(PyramidBlock(wide_in, width, first_stride(number // blocks, number % blocks)))
            wide_in = width
        layers += [nn.BatchNorm2d(wide_in), nn.ReLU()]
        return pooled_classifier(Normalise(shape, mean, std), layers, wide_in, classes)


class PyramidBlock(DropoutBlock):
    """Two 3×3 convolutions between three batch norms, with a single ReLU, and a shortcut padded with zero channels."""

    def __init__(self, wide_in: int, wide_out: int, stride: int) -> None:
        super().__init__()
        self.added = wide_out - wide_in
        self.norm1 = nn.BatchNorm2d(wide_in)
        self.conv1 = convolution(wide_in, wide_out, 3, stride)
        self.norm2 = nn.BatchNorm2d(wide_out)
        self.conv2 = convolution(wide_out, wide_out, 3)
        self.norm3 = nn.BatchNorm2d(wide_out)
        self.shortcut = nn.AvgPool2d(stride, ceil_mode=True) if stride != 1 else nn.Identity()

    @override
    def forward(self, x: Tensor) -> Tensor:
        """[B, wide_in, H, W] to [B, wide_out, H / stride, W / stride]."""
        inner = self.dropout(relu(self.norm2(self.conv1(self.norm1(x)))))
        padded = pad(self.shortcut(x), (0, 0, 0, 0, 0, self.added))
        result: Tensor = self.norm3(self.conv2(inner)) + padded
        return result

"""DenseNet: Huang, Liu, van der Maaten & Weinberger, Densely Connected Convolutional Networks (CVPR 2017).

`DenseNet()` is DenseNet-BC-100 with growth rate 12, `densenet_BC_100_12` of Peterson et al. 2019: 3 stages of 16 layers,
each a 1×1 convolution to 48 channels and a 3×3 convolution to 12 new ones; between stages a 1×1 convolution halves the
channels, and an average pooling the map. 769,162 parameters for ten classes (the paper: 0.8M).

Deviation from the repository: the last bias starts as PyTorch's (there: 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import relu
from typing_extensions import override

from dissensus.models.classifier import Classifier
from dissensus.models.normalise import Normalise
from dissensus.models.stages import DropoutBlock, blocks_per_stage, convolution, pooled_classifier

BOTTLENECK = 4  # channels inside a layer per new one


@dataclass(frozen=True)
class DenseNet:
    """`depth` layers with `growth` new channels each; between stages, a share `compression` of the channels is kept."""

    depth: int = 100
    growth: int = 12
    compression: float = 0.5
    spec_name: ClassVar[str] = "densenet"
    published: ClassVar[str] = "densenet_BC_100_12 (Huang et al. 2017)"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """For images of `shape` [C, H, W] (without the batch)."""
        blocks = blocks_per_stage(self.depth, layers=2, others=4)
        width = 2 * self.growth
        layers: list[nn.Module] = [convolution(shape[0], width, 3)]
        for stage in range(3):
            if stage > 0:
                kept = int(width * self.compression)
                layers += [nn.BatchNorm2d(width), nn.ReLU(), convolution(width, kept, 1)]
                layers.append(nn.AvgPool2d(2, ceil_mode=True))
                width = kept
            for _ in range(blocks):
                layers.append(DenseLayer(width, self.growth))
                width += self.growth
        layers += [nn.BatchNorm2d(width), nn.ReLU()]
        return pooled_classifier(Normalise(shape, mean, std), layers, width, classes)


class DenseLayer(DropoutBlock):
    """1×1 and 3×3 convolutions, each after batch norm and ReLU; the new channels are put behind the old ones."""

    def __init__(self, wide_in: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(wide_in)
        self.conv1 = convolution(wide_in, BOTTLENECK * growth, 1)
        self.norm2 = nn.BatchNorm2d(BOTTLENECK * growth)
        self.conv2 = convolution(BOTTLENECK * growth, growth, 3)

    @override
    def forward(self, x: Tensor) -> Tensor:
        """[B, wide_in, H, W] to [B, wide_in + growth, H, W]."""
        inner = self.conv1(relu(self.norm1(x)))
        return torch.cat([x, self.conv2(self.dropout(relu(self.norm2(inner))))], 1)

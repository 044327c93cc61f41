"""Wide residual networks: Zagoruyko & Komodakis, Wide Residual Networks (BMVC 2016).

`WideResNet()` is WRN-28-10, `wrn_28_10` of Peterson et al. 2019: 3 stages of 4 pre-activation blocks with 160, 320 and
640 channels, without dropout; 36,479,194 parameters for ten classes. Where a block changes the number of channels, its
shortcut is a 1×1 convolution of the activated input.

Deviation: batch norms start at weight 1 (in the repository uniform in [0, 1]), the last bias as PyTorch's (there: 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import relu
from typing_extensions import override

from dissensus.models.classifier import Classifier
from dissensus.models.normalise import Normalise
from dissensus.models.stages import DropoutBlock, blocks_per_stage, convolution, first_stride, pooled_classifier


@dataclass(frozen=True)
class WideResNet:
    """`depth` layers; `width` times `base` channels in the first stage, twice as many in each that follows."""

    depth: int = 28
    width: int = 10
    base: int = 16
    spec_name: ClassVar[str] = "wrn"
    published: ClassVar[str] = "wrn_28_10 (Zagoruyko & Komodakis 2016)"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """For images of `shape` [C, H, W] (without the batch)."""
        blocks = blocks_per_stage(self.depth, layers=2, others=4)
        wide_in = self.base
        layers: list[nn.Module] = [convolution(shape[0], wide_in, 3)]
        for stage in range(3):
            width = self.base * self.width * 2**stage
            for block in range(blocks):
                layers.append(WideBlock(wide_in, width, first_stride(stage, block)))
                wide_in = width
        layers += [nn.BatchNorm2d(wide_in), nn.ReLU()]
        return pooled_classifier(Normalise(shape, mean, std), layers, wide_in, classes)


class WideBlock(DropoutBlock):
    """Two 3×3 convolutions, each after batch norm and ReLU. A projected shortcut starts from the activated input."""

    def __init__(self, wide_in: int, wide_out: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(wide_in)
        self.conv1 = convolution(wide_in, wide_out, 3, stride)
        self.norm2 = nn.BatchNorm2d(wide_out)
        self.conv2 = convolution(wide_out, wide_out, 3)
        self.projection = convolution(wide_in, wide_out, 1, stride) if stride != 1 or wide_in != wide_out else None

    @override
    def forward(self, x: Tensor) -> Tensor:
        """[B, wide_in, H, W] to [B, wide_out, H / stride, W / stride]."""
        active = relu(self.norm1(x))
        shortcut = x if self.projection is None else self.projection(active)
        inner = self.dropout(relu(self.norm2(self.conv1(active))))
        result: Tensor = shortcut + self.conv2(inner)
        return result

"""ResNeXt: Xie, Girshick, Dollár, Tu & He, Aggregated Residual Transformations for Deep Neural Networks (CVPR 2017).

`ResNeXt()` is ResNeXt-29 8×64d, `resnext_29_8x64d` of Peterson et al. 2019: 3 stages of 3 bottleneck blocks whose 3×3
convolution has 8 groups of 64, 128 and 256 channels, and 256, 512 and 1,024 channels between blocks; 34,426,698
parameters for ten classes (the paper: 34.4M). At a batch of 128 use half of the usual learning rate: 0.05.

Deviation from the repository: the last bias starts as PyTorch's (there: 0).
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

EXPANSION = 4  # a block's outputs per channel of one group


@dataclass(frozen=True)
class ResNeXt:
    """`depth` layers; `groups` groups of `width` channels in the first stage, twice as wide in each that follows."""

    depth: int = 29
    groups: int = 8
    width: int = 64
    spec_name: ClassVar[str] = "resnext"
    published: ClassVar[str] = "resnext_29_8x64d (Xie et al. 2017)"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """For images of `shape` [C, H, W] (without the batch)."""
        blocks = blocks_per_stage(self.depth, layers=3, others=2)
        wide_in = self.width
        layers: list[nn.Module] = [convolution(shape[0], wide_in, 3), nn.BatchNorm2d(wide_in), nn.ReLU()]
        for stage in range(3):
            width = self.width * 2**stage
            for block in range(blocks):
                layers.append(GroupedBottleneck(wide_in, width, self.groups, first_stride(stage, block)))
                wide_in = EXPANSION * width
        return pooled_classifier(Normalise(shape, mean, std), layers, wide_in, classes)


class GroupedBottleneck(DropoutBlock):
    """1×1, grouped 3×3 and 1×1 convolutions, each before batch norm; ReLU between them and after the sum."""

    def __init__(self, wide_in: int, width: int, groups: int, stride: int) -> None:
        super().__init__()
        inside, wide_out = groups * width, EXPANSION * width
        self.conv1 = convolution(wide_in, inside, 1)
        self.norm1 = nn.BatchNorm2d(inside)
        self.conv2 = convolution(inside, inside, 3, stride, groups)
        self.norm2 = nn.BatchNorm2d(inside)
        self.conv3 = convolution(inside, wide_out, 1)
        self.norm3 = nn.BatchNorm2d(wide_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or wide_in != wide_out:
            self.shortcut = nn.Sequential(convolution(wide_in, wide_out, 1, stride), nn.BatchNorm2d(wide_out))

    @override
    def forward(self, x: Tensor) -> Tensor:
        """[B, wide_in, H, W] to [B, 4 · width, H / stride, W / stride]."""
        inner = relu(self.norm1(self.conv1(x)))
        inner = self.dropout(relu(self.norm2(self.conv2(inner))))
        return relu(self.norm3(self.conv3(inner)) + self.shortcut(x))

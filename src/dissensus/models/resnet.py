"""Residual networks for 32×32 images: He, Zhang, Ren & Sun, Deep Residual Learning for Image Recognition (CVPR 2016).

ResNet is the CIFAR network of the paper's section 4.2: 3 stages of blocks of two 3×3 convolutions; 16, 32, 64 channels.
`ResNet()` is ResNet-110, `resnet_basic_110` of Peterson et al. 2019: 1,730,714 parameters for ten classes. ResNet20 is
`ResNet(20)` under a name of its own, which specs of older runs have.
Deviation, as in the repository of Peterson et al.: where a stage changes the shape, the shortcut is a 1×1 convolution
with batch norm (the paper's option B) in place of the parameter-free option A. ResNet20 has 272,474 parameters for ten
classes; 269,722 without.

ResNet18 is the ImageNet network (4 stages of 2 blocks, 64 to 512 channels) with the usual stem for small images: a 3×3
convolution of stride 1 in place of 7×7 and stride 2, and no max-pooling: 11,173,962 parameters for ten classes; 701,466
at width 16 and 176,402 at width 8.

All: convolutions have no bias and start from He initialisation (fan out) as in the paper; the last layer starts as
PyTorch does. Normalisation by channel mean and std, where the paper subtracts the per-pixel mean.
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
class ResNet18:
    """ResNet-18 with the CIFAR stem; `width` channels in the first stage, twice as many in each that follows."""

    width: int = 64
    spec_name: ClassVar[str] = "resnet18"
    published: ClassVar[str] = "ResNet-18 with a stem for small images (He et al. 2016)"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """For images of `shape` [C, H, W] (without the batch)."""
        widths = tuple(self.width * 2**stage for stage in range(4))
        return _resnet(Normalise(shape, mean, std), shape[0], classes, widths=widths, blocks=2)


@dataclass(frozen=True)
class ResNet:
    """The CIFAR ResNet of `depth` layers: `width` channels in the first stage, twice as many in each that follows."""

    depth: int = 110
    width: int = 16
    spec_name: ClassVar[str] = "resnet"
    published: ClassVar[str] = "resnet_basic_110 (He et al. 2016)"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """For images of `shape` [C, H, W] (without the batch)."""
        blocks = blocks_per_stage(self.depth, layers=2, others=2)
        widths = (self.width, 2 * self.width, 4 * self.width)
        return _resnet(Normalise(shape, mean, std), shape[0], classes, widths=widths, blocks=blocks)


@dataclass(frozen=True)
class ResNet20:
    """The 20-layer CIFAR ResNet."""

    spec_name: ClassVar[str] = "resnet20"
    published: ClassVar[str] = "ResNet-20 (He et al. 2016)"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """For images of `shape` [C, H, W] (without the batch)."""
        return ResNet(20).build(shape, classes, mean, std)


class ResidualBlock(DropoutBlock):
    """Two 3×3 convolutions and a shortcut: relu(shortcut(x) + norm(conv(relu(norm(conv(x))))))."""

    def __init__(self, wide_in: int, wide_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = convolution(wide_in, wide_out, 3, stride)
        self.norm1 = nn.BatchNorm2d(wide_out)
        self.conv2 = convolution(wide_out, wide_out, 3)
        self.norm2 = nn.BatchNorm2d(wide_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or wide_in != wide_out:
            self.shortcut = nn.Sequential(convolution(wide_in, wide_out, 1, stride), nn.BatchNorm2d(wide_out))

    @override
    def forward(self, x: Tensor) -> Tensor:
        """[B, wide_in, H, W] to [B, wide_out, H / stride, W / stride]."""
        inner = self.dropout(relu(self.norm1(self.conv1(x))))
        return relu(self.norm2(self.conv2(inner)) + self.shortcut(x))


def _resnet(normalise: Normalise, channels: int, classes: int, *, widths: tuple[int, ...], blocks: int) -> Classifier:
    layers: list[nn.Module] = [convolution(channels, widths[0], 3), nn.BatchNorm2d(widths[0]), nn.ReLU()]
    wide_in = widths[0]
    for stage, width in enumerate(widths):
        for block in range(blocks):
            layers.append(ResidualBlock(wide_in, width, first_stride(stage, block)))
            wide_in = width
    return pooled_classifier(normalise, layers, wide_in, classes)

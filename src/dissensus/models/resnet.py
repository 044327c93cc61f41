"""Residual networks for 32×32 images: He, Zhang, Ren & Sun, Deep Residual Learning for Image Recognition (CVPR 2016).

ResNet20 is the CIFAR network of the paper's section 4.2: 3 stages of 3 blocks, 16, 32 and 64 channels.
Deviation: where a stage changes the shape, the shortcut is a 1×1 convolution with batch norm (the paper's option B)
in place of the parameter-free option A: 272,474 parameters for ten classes; 269,722 without.

ResNet18 is the ImageNet network (4 stages of 2 blocks, 64 to 512 channels) with the usual stem for small images: a 3×3
convolution of stride 1 in place of 7×7 and stride 2, and no max-pooling: 11,173,962 parameters for ten classes; 701,466
at width 16 and 176,402 at width 8.

Both: convolutions have no bias and start from He initialisation (fan out) as in the paper; the last layer starts as
PyTorch does. Normalisation by channel mean and std, where the paper subtracts the per-pixel mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn
from torch.nn.functional import relu
from typing_extensions import override

from dissensus.models.classifier import Classifier
from dissensus.models.heads import LinearHead
from dissensus.models.normalise import Normalise


@dataclass(frozen=True)
class ResNet18:
    """ResNet-18 with the CIFAR stem; `width` channels in the first stage, twice as many in each that follows."""

    width: int = 64
    spec_name: ClassVar[str] = "resnet18"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """For images of `shape` [C, H, W] (without the batch)."""
        widths = tuple(self.width * 2**stage for stage in range(4))
        return _resnet(Normalise(shape, mean, std), shape[0], classes, widths=widths, blocks=2)


@dataclass(frozen=True)
class ResNet20:
    """The 20-layer CIFAR ResNet."""

    spec_name: ClassVar[str] = "resnet20"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """For images of `shape` [C, H, W] (without the batch)."""
        return _resnet(Normalise(shape, mean, std), shape[0], classes, widths=(16, 32, 64), blocks=3)


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut: relu(shortcut(x) + norm(conv(relu(norm(conv(x)))))).

    `dropout` comes before the second convolution; it does nothing unless it is replaced.
    """

    def __init__(self, wide_in: int, wide_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(wide_in, wide_out, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(wide_out)
        self.conv2 = nn.Conv2d(wide_out, wide_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(wide_out)
        self.dropout: nn.Module = nn.Identity()
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or wide_in != wide_out:
            projection = nn.Conv2d(wide_in, wide_out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(wide_out))

    @override
    def forward(self, x: Tensor) -> Tensor:
        """[B, wide_in, H, W] to [B, wide_out, H / stride, W / stride]."""
        inner = self.dropout(relu(self.norm1(self.conv1(x))))
        return relu(self.norm2(self.conv2(inner)) + self.shortcut(x))


def _resnet(normalise: Normalise, channels: int, classes: int, *, widths: tuple[int, ...], blocks: int) -> Classifier:
    layers: list[nn.Module] = [
        nn.Conv2d(channels, widths[0], 3, padding=1, bias=False),
        nn.BatchNorm2d(widths[0]),
        nn.ReLU(),
    ]
    wide_in = widths[0]
    for stage, width in enumerate(widths):
        for block in range(blocks):
            layers.append(ResidualBlock(wide_in, width, stride=2 if stage > 0 and block == 0 else 1))
            wide_in = width
    body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    for module in body.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return Classifier(normalise, body, LinearHead(wide_in, classes))

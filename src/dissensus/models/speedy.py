"""A small network for 32×32 images that is quick to train: whitened patches, three stages of 3×3 convolutions.

After Jordan's airbench networks (94% on CIFAR-10 in 3.29 Seconds on a Single A100, arXiv:2404.00498), which go back to
Page (How to Train Your ResNet, 2018). The stem is a fixed 2×2 convolution whose filters whiten the patches of the
training images, each with its negative. A stage is convolution–max-pool–norm–GELU, then convolution–norm–GELU; each
convolution starts by passing its inputs on, with random filters for what channels it adds. At the end every channel's
maximum goes to a linear layer without bias, whose logits are scaled down.

Deviations: stages are narrower (training sees 8,000 images, not 50,000, and time goes into more epochs of a smaller
network); batch norms have weights and PyTorch's momentum; the last pool takes whatever is left of the image. Images
smaller than 32×32 work: a stage does not halve a single pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d
from typing_extensions import override

from dissensus.datasets.data import to_float
from dissensus.models.classifier import Classifier
from dissensus.models.heads import LinearHead
from dissensus.models.normalise import Normalise

PATCH = 2


@dataclass(frozen=True)
class Speedy:
    """`widths` are the channels of the stages, `scale` what logits are multiplied by."""

    widths: tuple[int, ...] = (32, 128, 128)
    scale: float = 1 / 9
    published: ClassVar[str] = "narrower than airbench94 (Jordan 2024)"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """For images of `shape` [C, H, W] (without the batch); its stem waits to be whitened by `prepare`."""
        stem = Whitening(shape[0])
        layers: list[nn.Module] = [stem, nn.GELU()]
        wide_in, side = stem.filters, min(shape[1:]) - PATCH + 1
        for width in self.widths:
            pool = nn.MaxPool2d(2) if side > 1 else nn.Identity()
            layers += [_convolution(wide_in, width), pool, nn.BatchNorm2d(width), nn.GELU()]
            layers += [_convolution(width, width), nn.BatchNorm2d(width), nn.GELU()]
            wide_in, side = width, max(1, side // 2)
        body = nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten())
        head = LinearHead(wide_in, classes, bias=False, scale=self.scale)
        return Whitened(Normalise(shape, mean, std), body, head)


def _convolution(wide_in: int, wide_out: int) -> nn.Conv2d:
    """3×3, without bias; its first outputs start as its inputs, the others as PyTorch's."""
    convolution = nn.Conv2d(wide_in, wide_out, 3, padding=1, bias=False)
    nn.init.dirac_(convolution.weight[:wide_in])
    return convolution


class Whitened(Classifier):
    """A classifier whose body begins with a `Whitening`."""

    @override
    def prepare(self, x: Tensor) -> None:
        """Set the stem by the training images x [N, C, H, W], as they are stored."""
        stem = self.body[0]
        assert isinstance(stem, Whitening)
        stem.whiten(self.normalise(to_float(x)))


class Whitening(nn.Module):
    """All 2×2 patches in the directions of their principal components, scaled to variance 1, each also negated.

    The filters are no parameters: they stay what `whiten` made them. Before that they are the patch's own pixels. The
    negatives keep, behind an activation, what both signs of a component say. Only the biases are trained.
    """

    weight: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        pixels = torch.eye(channels * PATCH**2).reshape(-1, channels, PATCH, PATCH)
        self.filters = 2 * len(pixels)
        self.register_buffer("weight", torch.cat([pixels, -pixels]))
        self.bias = nn.Parameter(torch.zeros(self.filters))

    @torch.no_grad()
    def whiten(self, x: Tensor, floor: float = 5e-4) -> None:
        """By the patches of normalised images [N, C, H, W]; `floor` is added to variances: the last ones are noise.

        A component's sign is arbitrary: its largest entry is made positive, so that machines agree.
        """
        wide = self.filters // 2
        products, n = torch.zeros(wide, wide, dtype=torch.float64, device=x.device), 0
        for images in torch.split(x, 500):  # all patches at once, in float64, would be a gigabyte
            patches = images.unfold(2, PATCH, 1).unfold(3, PATCH, 1).movedim(1, 3).reshape(-1, wide).double()
            products, n = products + patches.T @ patches, n + len(patches)
        variances, directions = torch.linalg.eigh(products / n)
        directions = directions * directions.gather(0, directions.abs().argmax(0, keepdim=True)).sign()
        filters = (directions / torch.sqrt(variances + floor)).T.reshape(wide, -1, PATCH, PATCH)
        self.weight.copy_(torch.cat([filters, -filters]))

    @override
    def forward(self, x: Tensor) -> Tensor:
        """[B, C, H, W] to [B, 8C, H - 1, W - 1]."""
        return conv2d(x, self.weight, self.bias)

"""VGG: Simonyan & Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition (ICLR 2015).

`Vgg()` is the network of Peterson et al. 2019, `vgg_15_BN_64` of the repository pytorch_image_classification: the 13
convolutions of VGG-16, each with batch norm, 64 to 512 channels, max-pooling after every stage, and one linear layer in
place of three; 14,728,266 parameters for ten classes. The repository calls this depth 15; it has 14 layers with
weights.

Convolutions have a bias, as there, though batch norm takes it away again: in training its gradient is 0.

Deviations: batch norms start at weight 1 (there: uniform in [0, 1]), the last bias as PyTorch's (there: 0). Images
smaller than 32×32 work: a stage does not halve a single pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from dissensus.models.classifier import Classifier
from dissensus.models.heads import LinearHead
from dissensus.models.normalise import Normalise
from dissensus.models.stages import initialise

MOST_DOUBLINGS = 3  # the fifth stage is as wide as the fourth


@dataclass(frozen=True)
class Vgg:
    """`layers` convolutions per stage; `width` channels in the first, doubled per stage up to 8 times as many."""

    layers: tuple[int, ...] = (2, 2, 3, 3, 3)
    width: int = 64
    published: ClassVar[str] = "vgg_15_BN_64 (Simonyan & Zisserman 2015)"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """For images of `shape` [C, H, W] (without the batch)."""
        parts: list[nn.Module] = []
        wide_in, height, across = shape
        for stage, count in enumerate(self.layers):
            width = self.width * 2 ** min(stage, MOST_DOUBLINGS)
            for _ in range(count):
                parts += [nn.Conv2d(wide_in, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
                wide_in = width
            if min(height, across) > 1:
                parts.append(nn.MaxPool2d(2))
                height, across = height // 2, across // 2
        body = nn.Sequential(*parts, nn.Flatten())
        initialise(body)
        return Classifier(Normalise(shape, mean, std), body, LinearHead(wide_in * height * across, classes))

"""Pre-activation residual networks: He, Zhang, Ren & Sun, Identity Mappings in Deep Residual Networks (ECCV 2016).

`PreactResNet()` is the paper's ResNet-164 of bottleneck blocks: 3 stages of 18 blocks with 64, 128 and 256 channels, a
quarter of them inside; 1,703,258 parameters for ten classes. The first block of a stage activates its input for the
shortcut too; where the number of channels changes, the shortcut is a 1×1 convolution of that.

Peterson et al. 2019 used `resnet_preact_bottleneck_164` of the repository pytorch_image_classification, whose first
stage is not widened: 16 channels, 4 inside. `PreactResNet(widen_first=False)` is that network: 1,619,290 parameters.

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

EXPANSION = 4  # a bottleneck's outputs per channel inside


@dataclass(frozen=True)
class PreactResNet:
    """`depth` layers; `width` channels in the stem and inside the first stage's blocks, doubled per stage.

    `widen_first=False` leaves the first stage at the stem's channels, as the repository of Peterson et al. 2019 does.
    """

    depth: int = 164
    width: int = 16
    widen_first: bool = True
    spec_name: ClassVar[str] = "resnet_preact"
    published: ClassVar[str] = "resnet_preact_bottleneck_164 (He et al. 2016b)"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """For images of `shape` [C, H, W] (without the batch)."""
        blocks = blocks_per_stage(self.depth, layers=3, others=2)
        wide_in = self.width
        layers: list[nn.Module] = [convolution(shape[0], wide_in, 3)]
        for stage in range(3):
            width = wide_in if stage == 0 and not self.widen_first else EXPANSION * self.width * 2**stage
            for block in range(blocks):
                layers.append(PreactBottleneck(wide_in, width, first_stride(stage, block), share=block == 0))
                wide_in = width
        layers += [nn.BatchNorm2d(wide_in), nn.ReLU()]
        return pooled_classifier(Normalise(shape, mean, std), layers, wide_in, classes)


class PreactBottleneck(DropoutBlock):
    """1×1, 3×3 and 1×1 convolutions, each after batch norm and ReLU.

    With `share`, the shortcut starts from the activated input, and is a 1×1 convolution where the shape changes.
    """

    def __init__(self, wide_in: int, wide_out: int, stride: int, *, share: bool) -> None:
        super().__init__()
        inside = max(1, wide_out // EXPANSION)
        self.share = share
        self.norm1 = nn.BatchNorm2d(wide_in)
        self.conv1 = convolution(wide_in, inside, 1)
        self.norm2 = nn.BatchNorm2d(inside)
        self.conv2 = convolution(inside, inside, 3, stride)
        self.norm3 = nn.BatchNorm2d(inside)
        self.conv3 = convolution(inside, wide_out, 1)
        changes = stride != 1 or wide_in != wide_out
        self.projection: nn.Module = convolution(wide_in, wide_out, 1, stride) if changes else nn.Identity()

    @override
    def forward(self, x: Tensor) -> Tensor:
        """[B, wide_in, H, W] to [B, wide_out, H / stride, W / stride]."""
        active = relu(self.norm1(x))
        inner = relu(self.norm2(self.conv1(active)))
        inner = self.dropout(relu(self.norm3(self.conv2(inner))))
        result: Tensor = self.projection(active if self.share else x) + self.conv3(inner)
        return result

"""Shake-Shake: Gastaldi, Shake-Shake regularization (ICLR 2017 workshop, arXiv:1705.07485).

`ShakeShake()` is Shake-Shake-26 2×64d with shake per image ("Shake-Shake-Image"): 3 stages of 4 blocks with 64, 128 and
256 channels, two branches each; 11,653,978 parameters for ten classes (the paper: 11.7M). In training the branches are
weighed by α and 1 − α in the forward pass and by β and 1 − β in the backward pass, both uniform, drawn for each block
and each image independently; in eval mode by 1/2 and 1/2.

As in the author's code: the stem is a convolution to 16 channels and batch norm without ReLU; a branch is
ReLU–convolution–norm–ReLU–convolution–norm; a shortcut is the input itself without ReLU, or, where the number of
channels changes, ReLU, two 1×1 convolutions side by side, the second of the input shifted by one pixel, and one batch
norm; the last block is followed by ReLU and the mean over the map.

Peterson et al. 2019 used `shake_shake_26_2x64d_SSI_cutout16` of the repository pytorch_image_classification, which
differs: its stem is as wide as the first stage and ends in a ReLU, and no ReLU comes before the last mean.
`ShakeShake(stem=64)` has that width (11,709,514 parameters) and the author's ReLUs. Cutout is an augmentation:
`InTurn((CropFlip(), Cutout(16)))`.

Deviation: the last bias starts as PyTorch's (in both: 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.functional import pad, relu
from typing_extensions import override

from dissensus.models.classifier import Classifier
from dissensus.models.model import RandomInTraining
from dissensus.models.normalise import Normalise
from dissensus.models.stages import DropoutBlock, blocks_per_stage, convolution, first_stride, pooled_classifier


@dataclass(frozen=True)
class ShakeShake:
    """`depth` layers; `width` channels in the first stage (an even number), twice as many in each that follows."""

    depth: int = 26
    width: int = 64
    stem: int = 16
    published: ClassVar[str] = "shake_shake_26_2x64d_SSI (Gastaldi 2017)"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> Classifier:
        """For images of `shape` [C, H, W] (without the batch)."""
        blocks = blocks_per_stage(self.depth, layers=2, others=2)
        layers: list[nn.Module] = [convolution(shape[0], self.stem, 3), nn.BatchNorm2d(self.stem)]
        wide_in = self.stem
        for stage in range(3):
            width = self.width * 2**stage
            for block in range(blocks):
                layers.append(ShakeBlock(wide_in, width, first_stride(stage, block)))
                wide_in = width
        layers.append(nn.ReLU())
        return pooled_classifier(Normalise(shape, mean, std), layers, wide_in, classes)


class ShakeBlock(nn.Module):
    """A shortcut and two branches, which are mixed at random in training."""

    def __init__(self, wide_in: int, wide_out: int, stride: int) -> None:
        super().__init__()
        self.branch1 = ShakeBranch(wide_in, wide_out, stride)
        self.branch2 = ShakeBranch(wide_in, wide_out, stride)
        self.shake = Shake()
        changes = stride != 1 or wide_in != wide_out
        self.shortcut: nn.Module = ShiftedShortcut(wide_in, wide_out, stride) if changes else nn.Identity()

    @override
    def forward(self, x: Tensor) -> Tensor:
        """[B, wide_in, H, W] to [B, wide_out, H / stride, W / stride]."""
        result: Tensor = self.shortcut(x) + self.shake(self.branch1(x), self.branch2(x))
        return result


class ShakeBranch(DropoutBlock):
    """Two 3×3 convolutions, each after ReLU and before batch norm."""

    def __init__(self, wide_in: int, wide_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = convolution(wide_in, wide_out, 3, stride)
        self.norm1 = nn.BatchNorm2d(wide_out)
        self.conv2 = convolution(wide_out, wide_out, 3)
        self.norm2 = nn.BatchNorm2d(wide_out)

    @override
    def forward(self, x: Tensor) -> Tensor:
        """[B, wide_in, H, W] to [B, wide_out, H / stride, W / stride]."""
        inner = self.dropout(relu(self.norm1(self.conv1(relu(x)))))
        result: Tensor = self.norm2(self.conv2(inner))
        return result


class ShiftedShortcut(nn.Module):
    """Half of the outputs see the input, half see it shifted by one pixel to the right and down, so that a stride of 2
    leaves out fewer pixels."""

    def __init__(self, wide_in: int, wide_out: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.conv1 = convolution(wide_in, wide_out // 2, 1)
        self.conv2 = convolution(wide_in, wide_out - wide_out // 2, 1)
        self.norm = nn.BatchNorm2d(wide_out)

    @override
    def forward(self, x: Tensor) -> Tensor:
        """[B, wide_in, H, W] to [B, wide_out, H / stride, W / stride]."""
        active = relu(x)
        shifted = pad(active, (1, -1, 1, -1))
        here, there = (maps[:, :, :: self.stride, :: self.stride] for maps in (active, shifted))
        result: Tensor = self.norm(torch.cat([self.conv1(here), self.conv2(there)], 1))
        return result


class Shake(RandomInTraining):
    """Two batches of maps, mixed per image by weights that differ between the forward and the backward pass.

    Both weights are drawn in the forward pass, on the CPU: who differentiates twice meets the same ones, and so does a
    GPU. In eval mode the result is the mean.
    """

    @override
    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """Two of [B, C, H, W] to one."""
        if not self.training:
            return 0.5 * (first + second)
        ahead, back = torch.rand(2, len(first), 1, 1, 1).to(first.device, first.dtype)
        mixed: Tensor = _Mix.apply(first, second, ahead, back)  # type: ignore[no-untyped-call]
        return mixed


class _Mix(Function):
    """ahead · first + (1 − ahead) · second, differentiated as if the weights were `back` and 1 − `back`."""

    @staticmethod
    @override
    def forward(ctx: Any, first: Tensor, second: Tensor, ahead: Tensor, back: Tensor) -> Tensor:
        ctx.save_for_backward(back)
        return torch.lerp(second, first, ahead)

    @staticmethod
    @override
    def backward(ctx: Any, dy: Tensor) -> Any:
        (back,) = ctx.saved_tensors
        return back * dy, (1 - back) * dy, None, None

"""What convolutional families have in common: convolutions, blocks per stage, and what follows the last block."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from dissensus.errors import InputError
from dissensus.models.classifier import Classifier
from dissensus.models.heads import LinearHead
from dissensus.models.normalise import Normalise


class DropoutBlock(nn.Module):
    """A block with a place for dropout before its last convolution; it does nothing unless it is replaced.

    `McDropout` replaces it. Subclasses call `self.dropout` there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.dropout: nn.Module = nn.Identity()


def convolution(wide_in: int, wide_out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """Without bias, padded so that only the stride changes the size of the map."""
    return nn.Conv2d(wide_in, wide_out, kernel, stride, padding=kernel // 2, groups=groups, bias=False)


def blocks_per_stage(depth: int, *, layers: int, others: int, stages: int = 3) -> int:
    """Of a network with `depth` layers: `layers` per block, and `others` outside the blocks.

    >>> blocks_per_stage(110, layers=2, others=2)
    18
    """
    blocks, rest = divmod(depth - others, layers * stages)
    if rest or blocks < 1:
        step = layers * stages
        raise InputError(
            f"depth {depth} does not fit: it must be {others} and a multiple of {step}",
            where="model",
            hint=f"Use {', '.join(str(others + n * step) for n in (1, 2, 3))}, …",
            state="",
        )
    return blocks


def first_stride(stage: int, block: int) -> int:
    """2 in the first block of every stage but the first, 1 elsewhere."""
    return 2 if stage > 0 and block == 0 else 1


def pooled_classifier(normalise: Normalise, layers: Iterable[nn.Module], width: int, classes: int) -> Classifier:
    """Layers, the mean over the last map's cells, a linear layer.

    Convolutions start from He initialisation (fan out), their biases at 0; the last layer starts as PyTorch does.
    """
    body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    initialise(body)
    return Classifier(normalise, body, LinearHead(width, classes))


def initialise(body: nn.Module) -> None:
    """Convolutions from He initialisation (fan out), their biases at 0."""
    for module in body.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)

"""Last layers: from penultimate features to logits."""

from __future__ import annotations

from torch import Tensor, nn
from typing_extensions import override


class LinearHead(nn.Linear):
    """A linear layer whose outputs are multiplied by `scale`; with a small scale its weights learn more slowly."""

    def __init__(self, features: int, classes: int, *, bias: bool = True, scale: float = 1.0) -> None:
        super().__init__(features, classes, bias=bias)
        self.scale = scale

    @override
    def forward(self, features: Tensor) -> Tensor:
        """[B, features] to [B, classes]."""
        logits = super().forward(features)
        return logits if self.scale == 1 else logits * self.scale

"""Any torch.nn.Module as a Model: normalised inputs in, logits out."""

from __future__ import annotations

import copy

from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from dissensus.errors import InputError
from dissensus.models.model import Model
from dissensus.models.normalise import Normalise, moments
from dissensus.models.predictions import Predictions


class WrappedModule(Model):
    """A copy of the module, behind a layer that standardises inputs [B, D] or [B, C, H, W] by the training inputs x."""

    def __init__(self, module: nn.Module, x: Tensor, classes: int) -> None:
        super().__init__()
        self.normalise = Normalise(tuple(x.shape[1:]), *moments(x))
        self.module, self.classes = copy.deepcopy(module), classes

    @override
    def forward(self, x: Tensor) -> Tensor:
        """Logits [B, K]."""
        logits = self.module(self.normalise(x))
        if not isinstance(logits, Tensor) or logits.shape != (len(x), self.classes):
            shape = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise InputError(
                f"the module gives {shape} for {len(x)} items and {self.classes} classes",
                where="module",
                hint="Its last layer must give one logit per class",
                state="",
            )
        return logits

    @override
    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """Mean cross-entropy."""
        return cross_entropy(self(x), target)

    @override
    def predict(self, x: Tensor) -> Predictions:
        """Logits."""
        return Predictions(self(x))

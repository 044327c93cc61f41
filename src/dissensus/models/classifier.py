"""The ordinary network: normalise, body, head; cross-entropy. Families compose it, and rarely inherit."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from dissensus.models.heads import LinearHead
from dissensus.models.model import Model
from dissensus.models.normalise import Normalise
from dissensus.models.predictions import Predictions


class Classifier(Model):
    """`body` turns normalised inputs into penultimate features [B, D], `head` those into logits [B, K]."""

    head: LinearHead

    def __init__(self, normalise: Normalise, body: nn.Sequential, head: LinearHead) -> None:
        super().__init__()
        self.normalise, self.body, self.head = normalise, body, head

    def features(self, x: Tensor) -> Tensor:
        """Penultimate features [B, D]."""
        features: Tensor = self.body(self.normalise(x))
        return features

    @override
    def forward(self, x: Tensor) -> Tensor:
        """Logits [B, K]."""
        logits: Tensor = self.head(self.features(x))
        return logits

    @override
    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """Mean cross-entropy; to classes by the faster index kernel."""
        return cross_entropy(self(x), target)

    @override
    def predict(self, x: Tensor) -> Predictions:
        """Logits and penultimate features."""
        features = self.features(x)
        return Predictions(self.head(features), features)

    @property
    @override
    def last_stage(self) -> nn.Module | None:
        """Found by the shapes alone: on the meta device nothing is computed."""
        x = torch.empty(1, *self.normalise.shape, device="meta")
        last = None
        for part, shapes_only in zip(self.body, copy.deepcopy(self.body).eval().to("meta", x.dtype), strict=True):
            x = shapes_only(x)
            if x.ndim == 4 and x.shape[2:].numel() > 1:
                last = part
        return last

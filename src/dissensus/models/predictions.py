"""Predictions: what a model says of each item."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Predictions:
    """Logits [N, K]; where the model has them, penultimate features [N, D] and uncertainty [N] (higher is stranger)."""

    logits: Tensor
    features: Tensor | None = None
    uncertainty: Tensor | None = None

    @cached_property
    def log_probs(self) -> Tensor:
        """Normalised log-probabilities, float64 [N, K]."""
        return torch.log_softmax(self.logits.double(), -1)

    def cpu(self) -> Predictions:
        """The same on the CPU."""
        moved = [None if part is None else part.cpu() for part in (self.features, self.uncertainty)]
        return Predictions(self.logits.cpu(), *moved)


def concatenate(parts: list[Predictions]) -> Predictions:
    """Batches of predictions, put one after another."""

    def joined(name: str) -> Tensor | None:
        tensors = [getattr(part, name) for part in parts]
        return None if tensors[0] is None else torch.cat(tensors)

    logits = joined("logits")
    assert logits is not None
    return Predictions(logits, joined("features"), joined("uncertainty"))

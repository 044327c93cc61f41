"""Predictions: what a model says of each item."""

from __future__ import annotations

import math
from collections.abc import Sequence
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


def mean_of(parts: Sequence[Predictions]) -> Predictions:
    """The mean of several distributions per item, as an ensemble's; of one, itself."""
    if len(parts) == 1:
        return parts[0]
    log_probs = torch.stack([part.log_probs for part in parts])
    return Predictions(log_probs.logsumexp(0) - math.log(len(parts)))

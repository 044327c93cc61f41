"""How large a network is, before it is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from dissensus.engine.measures.measure import Measure, MeasureResult, Tell
from dissensus.models import Architecture, new_model
from dissensus.models.flops import forward_flops, loss_flops
from dissensus.store.ledger import Ledger


@dataclass(frozen=True)
class ModelSize(Measure):
    """The parameters of a network for inputs of `shape`, fixed ones included, and FLOPs per item."""

    model: Architecture
    shape: tuple[int, ...] = (3, 32, 32)
    classes: int = 10

    runs: ClassVar[int | None] = 0

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        model = new_model(self.model, torch.zeros(1, *self.shape), self.classes, seed=0)
        parameters = list(model.parameters())
        scores = {
            "parameters": sum(part.numel() for part in parameters),
            "trained": sum(part.numel() for part in parameters if part.requires_grad),
            "prediction_flops": forward_flops(model, self.shape),
            "loss_flops": loss_flops(model, self.shape),
        }
        return MeasureResult(scores, {"uncertainty": model.uncertainty or "predictive entropy"})

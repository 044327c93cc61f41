"""Model and data in, scores out."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dissensus import metrics
from dissensus.datasets.data import to_float
from dissensus.models.predictions import Predictions, concatenate
from dissensus.training.distributed import ALONE, Group


@torch.no_grad()
def predict(model: nn.Module, x: Tensor, batch: int = 500, group: Group = ALONE) -> Predictions:
    """What the model says of each item, in eval mode, batch by batch; the result is on the CPU.

    The processes of a group share the items out, each item to one of them, and all get the whole result.
    """
    model.eval()
    mine = torch.split(x[group.part(len(x))], batch)
    parts = [model.predict(to_float(part)).cpu() for part in mine if len(part)]  # type: ignore[operator]
    return concatenate([part for of_rank in group.gathered(parts) for part in of_rank])  # type: ignore[attr-defined]


def monitored(log_probs: Tensor, target: Tensor, people: Tensor, labels: Tensor) -> dict[str, float]:
    """Three numbers for a curve: cross-entropy to the run's own target, accuracy, KL from the people; all [n, K] but
    labels [n]. Quicker than all there are."""
    return {
        "loss": float(metrics.soft_nll(log_probs, target).mean()),
        "accuracy": float((log_probs.argmax(1) == labels).double().mean()),
        "kl": float(metrics.kl(log_probs, people).mean()),
    }

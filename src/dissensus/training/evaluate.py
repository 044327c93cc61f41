"""A network's predictions for many items, and the few numbers a curve shows of them."""

from __future__ import annotations

import torch
from torch import Tensor

from dissensus import metrics
from dissensus.datasets.data import to_float
from dissensus.metrics.agreement import majority
from dissensus.models import Model
from dissensus.models.predictions import Predictions, concatenate
from dissensus.training.distributed import ALONE, Group


@torch.no_grad()
def predict(model: Model, x: Tensor, batch: int = 500, group: Group = ALONE, *, preview: bool = False) -> Predictions:
    """What the network says of each item, in eval mode, batch by batch; the result is on the CPU.

    With `preview`, as its curve shows it: a single pass where a prediction takes many. The processes of a group share the
    items out, each item to one of them, and all get the whole result.
    """
    model.eval()
    mine = torch.split(x[group.part(len(x))], batch)
    ask = model.preview if preview else model.predict
    parts = [ask(to_float(part)).cpu() for part in mine if len(part)]
    return concatenate([part for parts_of_rank in group.gathered(parts) for part in parts_of_rank])


def monitored(log_probs: Tensor, target: Tensor, people: Tensor, labels: Tensor) -> dict[str, float]:
    """Three numbers per epoch: cross-entropy to the run's own target, accuracy, KL from the people; all [n, K] but
    labels [n]."""
    return {
        "loss": float(metrics.soft_nll(log_probs, target).mean()),
        "accuracy": float((majority(log_probs) == labels).double().mean()),
        "kl": float(metrics.kl(log_probs, people).mean()),
    }

"""Model and data in, scores out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dissensus import metrics
from dissensus.datasets.data import Data, to_float
from dissensus.metrics import temperature as calibrate
from dissensus.models import Model
from dissensus.models.predictions import Predictions, concatenate
from dissensus.store.spec import Json
from dissensus.training.distributed import ALONE, Group


@torch.no_grad()
def predict(model: Model, x: Tensor, batch: int = 500, group: Group = ALONE) -> Predictions:
    """What the model says of each item, in eval mode, batch by batch; the result is on the CPU.

    The processes of a group share the items out, each item to one of them, and all get the whole result.
    """
    model.eval()
    mine = torch.split(x[group.part(len(x))], batch)
    parts = [model.predict(to_float(part)).cpu() for part in mine if len(part)]
    return concatenate([part for of_rank in group.gathered(parts) for part in of_rank])  # type: ignore[attr-defined]


def judge(predictions: Predictions, data: Data, rows: Tensor, seed: int) -> tuple[Json, Json]:
    """All scores of predictions for these rows of the data, raw and tempered; and the temperatures of the two halves.

    Judged against all the votes there are, whatever reached the training. A single item cannot be halved, nor an exact
    probability of 0 be tempered: then only the raw scores are given.
    """
    people, labels = data.people[rows], data.labels[rows]
    gold = labels if data.has_gold else None
    counts = None if data.counts is None else data.counts[rows]
    truth = None if data.truth is None else data.truth[rows]
    can_temper = len(rows) > 1 and bool(torch.isfinite(predictions.logits).all())
    tempered = calibrate.tempered(predictions.logits, people, labels, rows=rows, seed=seed) if can_temper else {}
    judged: dict[str, Tensor] = {"raw": predictions.log_probs}
    judged.update((name, one.log_probs) for name, one in tempered.items())
    scores = {name: metrics.score(one, people, gold=gold, counts=counts, truth=truth) for name, one in judged.items()}
    return scores, {name: [one.value for one in fitted.temperatures] for name, fitted in tempered.items()}


def monitored(log_probs: Tensor, target: Tensor, people: Tensor, labels: Tensor) -> dict[str, float]:
    """Three numbers for a curve: cross-entropy to the run's own target, accuracy, KL from the people; all [n, K] but
    labels [n]. Quicker than `judge`, which gives all there are."""
    return {
        "loss": float(metrics.soft_nll(log_probs, target).mean()),
        "accuracy": float((log_probs.argmax(1) == labels).double().mean()),
        "kl": float(metrics.kl(log_probs, people).mean()),
    }


def record(predictions: Predictions, data: Data, rows: Tensor) -> Mapping[str, NDArray[Any]]:
    """What a run keeps of its predictions: enough to draw and to test with, without the data set."""
    parts = {"rows": rows, "logits": predictions.logits.float(), "people": data.people[rows], "labels": data.labels[rows]}
    if data.counts is not None:
        parts["counts"] = data.counts[rows]
    if data.truth is not None:
        parts["truth"] = data.truth[rows]
    arrays = {name: part.numpy() for name, part in parts.items()}
    return {**arrays, "ids": np.array([data.ids[row] for row in rows.tolist()])}

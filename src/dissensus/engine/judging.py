"""Predictions in; the scores and the arrays that a run keeps out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dissensus import metrics
from dissensus.datasets.data import Data
from dissensus.metrics import temperature as calibrate
from dissensus.models.predictions import Predictions
from dissensus.store.spec import Json


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
    judged.update((name, fitted.log_probs) for name, fitted in tempered.items())
    scores = {
        name: metrics.score(log_probs, people, gold=gold, counts=counts, truth=truth)
        for name, log_probs in judged.items()
    }
    return scores, {name: [half.value for half in fitted.temperatures] for name, fitted in tempered.items()}


def record(predictions: Predictions, data: Data, rows: Tensor) -> Mapping[str, NDArray[Any]]:
    """What a run keeps of its predictions: enough to draw and to test with, without the data set."""
    parts = {"rows": rows, "logits": predictions.logits.float(), "people": data.people[rows], "labels": data.labels[rows]}
    if data.counts is not None:
        parts["counts"] = data.counts[rows]
    if data.truth is not None:
        parts["truth"] = data.truth[rows]
    arrays = {name: part.numpy() for name, part in parts.items()}
    return {**arrays, "ids": np.array([data.ids[row] for row in rows.tolist()])}

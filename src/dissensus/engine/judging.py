"""Predictions in; the scores and the arrays that a run keeps out."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dissensus import metrics
from dissensus.datasets.data import Data
from dissensus.metrics import temperature as calibrate
from dissensus.models.predictions import Predictions
from dissensus.store.run_source import Arrays
from dissensus.store.spec import Json


def judge(predictions: Predictions, data: Data, rows: Tensor, seed: int) -> tuple[Json, Json]:
    """`judge_logits` of these rows of the data, against all the votes there are, whatever reached the training."""
    return judge_logits(
        predictions.logits,
        data.people[rows],
        data.labels[rows],
        rows=rows,
        seed=seed,
        has_gold=data.has_gold,
        counts=None if data.counts is None else data.counts[rows],
        truth=None if data.truth is None else data.truth[rows],
    )


def judge_logits(
    logits: Tensor,
    people: Tensor,
    labels: Tensor,
    *,
    rows: Tensor,
    seed: int,
    has_gold: bool,
    counts: Tensor | None,
    truth: Tensor | None,
) -> tuple[Json, Json]:
    """All scores of predictions, raw and tempered, and the temperatures of the two halves of the items.

    A single item cannot be halved, nor an exact probability of 0 be tempered: then only the raw scores are given.
    """
    log_probs = {"raw": Predictions(logits).log_probs}
    can_temper = len(rows) > 1 and bool(torch.isfinite(logits).all())
    tempered = calibrate.tempered(logits, people, labels, rows=rows, seed=seed) if can_temper else {}
    log_probs.update((name, fitted.log_probs) for name, fitted in tempered.items())
    gold = labels if has_gold else None
    scores = {
        name: metrics.score(judged, people, gold=gold, counts=counts, truth=truth) for name, judged in log_probs.items()
    }
    return scores, {name: [half.value for half in fitted.temperatures] for name, fitted in tempered.items()}


def record(predictions: Predictions, data: Data, rows: Tensor) -> Arrays:
    """What a run keeps of its predictions: enough to draw, to test and to score again, without the data set."""
    parts = {"rows": rows, "logits": predictions.logits.float(), "people": data.people[rows], "labels": data.labels[rows]}
    if data.counts is not None:
        parts["counts"] = data.counts[rows]
    if data.truth is not None:
        parts["truth"] = data.truth[rows]
    arrays = {name: part.numpy() for name, part in parts.items()}
    return {**arrays, "ids": np.array([data.ids[row] for row in rows.tolist()])}

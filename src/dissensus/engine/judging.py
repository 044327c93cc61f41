"""Predictions in; the scores and the arrays that a run keeps out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from dissensus.datasets.data import Data
from dissensus.metrics import temperature as calibrate
from dissensus.metrics.row_blocks import LogProbs, Progress, Rows, blocks, silent
from dissensus.metrics.scoring import METRICS, score_all
from dissensus.models.predictions import Predictions
from dissensus.store.run_source import Arrays
from dissensus.store.spec import Json


def judge(predictions: Predictions, data: Data, rows: Tensor, seed: int, tell: Progress = silent) -> tuple[Json, Json]:
    """`judge_logits` of these rows of the data, against all the votes there are, whatever reached the training.

    Data without votes have the scores that need labels alone.
    """
    if not data.voted:
        return judge_by_labels(predictions.logits, data.labels[rows], rows=rows, seed=seed, tell=tell)
    return judge_logits(
        predictions.logits,
        data.people_rows(rows),
        data.labels[rows],
        rows=rows,
        seed=seed,
        has_gold=data.has_gold,
        counts=data.count_rows(rows),
        truth=None if data.truth is None else data.truth[rows],
        tell=tell,
    )


def judge_by_labels(
    logits: Tensor, labels: Tensor, *, rows: Tensor, seed: int, tell: Progress = silent
) -> tuple[Json, Json]:
    """`judge_logits` where nobody voted: the scores that need labels alone, and the temperatures fitted to labels."""
    as_people = one_hot(labels, logits.shape[1]).double()
    every, fitted = judge_logits(
        logits, as_people, labels, rows=rows, seed=seed, has_gold=True, counts=None, truth=None, tell=tell
    )
    scores = {
        calibration: {metric: value for metric, value in values.items() if _needs_labels_alone(metric)}
        for calibration, values in every.items()
        if calibration != "tempered_votes"
    }
    return scores, {name: halves for name, halves in fitted.items() if name != "tempered_votes"}


def _needs_labels_alone(metric: str) -> bool:
    return metric == "gold" or METRICS[metric].needs == "gold"


def judge_logits(
    logits: Tensor,
    people: Rows,
    labels: Tensor,
    *,
    rows: Tensor,
    seed: int,
    has_gold: bool,
    counts: Rows | None,
    truth: Tensor | None,
    tell: Progress = silent,
) -> tuple[Json, Json]:
    """All scores of predictions, raw and tempered, and the temperatures of the two halves of the items.

    A single item cannot be halved, nor an exact probability of 0 be tempered: then only the raw scores are given.
    Everything is computed in blocks of items: beside `logits`, no matrix of their size is made.
    """
    finite = all(bool(torch.isfinite(logits[block]).all()) for block in blocks(tuple(logits.shape)))
    can_temper = len(rows) > 1 and finite
    tempered = calibrate.tempered(logits, people, labels, rows=rows, seed=seed, tell=tell) if can_temper else {}
    log_probs: dict[str, Rows] = {"raw": LogProbs(logits)}
    log_probs.update((name, fitted.rows) for name, fitted in tempered.items())
    scores = score_all(log_probs, people, labels if has_gold else None, counts, truth, tell)
    return scores, {name: [half.value for half in fitted.temperatures] for name, fitted in tempered.items()}


def record(predictions: Predictions, data: Data, rows: Tensor) -> Arrays:
    """What a run keeps of its predictions: enough to draw, to test and to score again, without the data set."""
    labels = data.labels[rows]
    people = data.people[rows] if data.voted else one_hot(labels, len(data.classes)).double()
    parts = {"rows": rows, "logits": predictions.logits.float(), "people": people, "labels": labels}
    if data.counts is not None:
        parts["counts"] = data.counts[rows]
    if data.truth is not None:
        parts["truth"] = data.truth[rows]
    arrays = {name: part.numpy() for name, part in parts.items()}
    return {**arrays, "ids": np.array([data.ids[row] for row in rows.tolist()])}


def judge_elsewhere(logits: Tensor, data: Data, rows: Tensor, temperatures: Mapping[str, float]) -> Json:
    """Scores of predictions for these rows of data that the model was not made for, by metric.

    Raw scores have the metric's own name; those after dividing the logits by a temperature, which was fitted on the
    model's own held-out items, end in its name: `nll_gold_tempered_votes`. Data without votes have the scores that need
    labels alone.
    """
    ones = torch.ones(len(rows), dtype=torch.float64)
    log_probs: dict[str, Rows] = {"": LogProbs(logits)}
    log_probs.update((f"_{name}", LogProbs(logits, value * ones)) for name, value in temperatures.items())
    labels = data.labels[rows]
    people: Rows = data.people_rows(rows) if data.voted else one_hot(labels, len(data.classes)).double()
    counts = data.count_rows(rows) if data.voted else None
    by_name = score_all(log_probs, people, labels if data.has_gold else None, counts)
    return {
        f"{metric}{name}": value
        for name, scores in by_name.items()
        for metric, value in scores.items()
        if metric != "gold" and (data.voted or _needs_labels_alone(metric))
    }


def one_temperature(logits: Tensor, data: Data, rows: Tensor) -> dict[str, float]:
    """The temperatures fitted on all of these held-out items at once, for judging predictions elsewhere.

    To the votes, where there are votes, and to the labels alone; none where they cannot be fitted.
    """
    if not len(rows) or not bool(torch.isfinite(logits).all()):
        return {}
    targets: dict[str, Rows] = {"tempered_gold": data.labels[rows]}
    if data.voted:
        targets = {"tempered_votes": data.people_rows(rows), **targets}
    return {name: calibrate.fit_temperature(logits, target).value for name, target in targets.items()}

"""Scores of finished runs: a checkpoint judged anew, an ensemble, the winner of a grid."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from dissensus.engine import judging
from dissensus.engine.measures.finished_run import in_all, kept_predictions
from dissensus.engine.measures.measure import Analysis, Outcome
from dissensus.engine.setup import TrainingSetup, trained
from dissensus.errors import InputError
from dissensus.models.predictions import Predictions
from dissensus.store.ledger import Ledger, predictions_name
from dissensus.store.spec import Run, Spec
from dissensus.training import evaluate


def evaluation(of: str, checkpoint: str = "last", flip: bool = False) -> Spec:
    """Measure: score a checkpoint of a run anew, from its weights, on the items it held out.

    With `flip`, of the mean of its probabilities for each image and for its mirror image: a test-time trick, to be
    reported apart from numbers without it.
    """
    return Spec("measure", {"name": "evaluation", "checkpoint": checkpoint, "flip": flip}, {"of": (of,)})


def ensemble(of: tuple[str, ...]) -> Spec:
    """Relate: the mean of several runs' probabilities, scored on the items that all of them held out."""
    return Spec("relate", {"name": "ensemble"}, {"of": of})


def lowest(of: tuple[str, ...], column: str = "validation_loss", tolerance: float = 1e-5) -> Spec:
    """Select: the run of a grid whose curve reaches the lowest value of a column; ties to the first named.

    What is above the lowest by no more than `tolerance`, relative to it, is a tie: runs that differ in a schedule which
    never acted are the same but for rounding, and rounding should not choose between them.
    """
    return Spec("select", {"name": "lowest", "column": column, "tolerance": tolerance}, {"of": of})


def _evaluation(spec: Spec, ledger: Ledger) -> Outcome:
    (run_id,), checkpoint = spec.inputs["of"], spec.settings["checkpoint"]
    stage = TrainingSetup.of(ledger.read(run_id).spec, ledger)
    model, x = trained(run_id, ledger, checkpoint), stage.x(stage.held_out)
    predictions = evaluate.predict(model, x)
    if spec.settings["flip"]:
        if x.ndim != 4:
            raise InputError("only images have a mirror image", where="evaluation", hint="Leave flip out", state="")
        predictions = _mean_of([predictions.logits, evaluate.predict(model, x.flip(3)).logits])
    return _judged(checkpoint, predictions, stage, stage.held_out)


def _ensemble(spec: Spec, ledger: Ledger) -> Outcome:
    stored = [kept_predictions(run_id, ledger, "last") for run_id in spec.inputs["of"]]
    shared = in_all([torch.from_numpy(one["rows"]) for one in stored])
    logits = [torch.from_numpy(one["logits"][np.searchsorted(one["rows"], shared.numpy())]) for one in stored]
    stage = TrainingSetup.of(ledger.read(spec.inputs["of"][0]).spec, ledger)
    return _judged("last", _mean_of(logits), stage, shared)


def _mean_of(logits: list[Tensor]) -> Predictions:
    """The mean of several distributions for each item."""
    log_probs = torch.stack([torch.log_softmax(one.double(), -1) for one in logits])
    return Predictions(log_probs.logsumexp(0) - math.log(len(logits)))


def _lowest(spec: Spec, ledger: Ledger) -> Outcome:
    column, candidates = spec.settings["column"], spec.inputs["of"]
    reached = [_lowest_of(ledger.read(run_id), column) for run_id in candidates]
    tied = min(reached) + spec.settings["tolerance"] * abs(min(reached))
    winner = next(place for place, value in enumerate(reached) if value <= tied)
    facts = {"winner": candidates[winner], "column": column, "reached": dict(zip(candidates, reached, strict=True))}
    return {}, facts, {}


def _lowest_of(run: Run, column: str) -> float:
    values = [value for value in run.curve.get(column, []) if value is not None]
    if not values:
        raise InputError(
            f"run {run.id} has no {column!r} in its curve", where="select", hint=f"Choose among {', '.join(run.curve)}"
        )
    return min(values)


def _judged(checkpoint: str, predictions: Predictions, stage: TrainingSetup, rows: Tensor) -> Outcome:
    scores, temperatures = judging.judge(predictions, stage.data, rows, stage.seed)
    facts = {
        "items": {"evaluation": len(rows)},
        "temperatures": {checkpoint: temperatures},
        "notes": list(stage.data.notes),
    }
    return {checkpoint: scores}, facts, {predictions_name("last"): judging.record(predictions, stage.data, rows)}


ANALYSES: dict[str, Analysis] = {
    "evaluation": _evaluation,
    "ensemble": _ensemble,
    "lowest": _lowest,
}

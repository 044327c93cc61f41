"""What is computed from finished runs: measure (of one), relate (of several), select (of a grid).

A spec of these kinds has settings {"name": …, …} and names its runs under `inputs["of"]`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from dissensus import evaluate
from dissensus.errors import InputError
from dissensus.ledger import Arrays, Ledger
from dissensus.predictions import Predictions
from dissensus.runs import Json, Run, Spec
from dissensus.stage import Stage, trained

Outcome = tuple[Json, Json, dict[str, Arrays]]
"""Scores, facts, arrays."""


def evaluation(of: str, checkpoint: str = "last") -> Spec:
    """Measure: score a checkpoint of a run anew, from its weights, on the items it held out."""
    return Spec("measure", {"name": "evaluation", "checkpoint": checkpoint}, {"of": (of,)})


def ensemble(of: tuple[str, ...]) -> Spec:
    """Relate: the mean of several runs' probabilities, scored on the items that all of them held out."""
    return Spec("relate", {"name": "ensemble"}, {"of": of})


def lowest(of: tuple[str, ...], column: str = "validation_loss") -> Spec:
    """Select: the run of a grid whose curve reaches the lowest value of a column; ties to the first named."""
    return Spec("select", {"name": "lowest", "column": column}, {"of": of})


def compute(spec: Spec, ledger: Ledger) -> Outcome:
    """The outcome of a measure, relate or select spec."""
    name = spec.settings["name"]
    if name not in ANALYSES:
        raise InputError(f"{name!r} is not one of {', '.join(ANALYSES)}", where=f"{spec.kind} spec", state="")
    return ANALYSES[name](spec, ledger)


def _evaluation(spec: Spec, ledger: Ledger) -> Outcome:
    (run_id,), checkpoint = spec.inputs["of"], spec.settings["checkpoint"]
    stage = Stage.of(ledger.read(run_id).spec)
    predictions = evaluate.predict(trained(run_id, ledger, checkpoint), stage.x(stage.held_out))
    return _judged(checkpoint, predictions, stage, stage.held_out)


def _ensemble(spec: Spec, ledger: Ledger) -> Outcome:
    stored = [_predictions(run_id, ledger) for run_id in spec.inputs["of"]]
    shared = np.array(sorted(set.intersection(*(set(one["rows"].tolist()) for one in stored))), dtype=np.int64)
    if len(shared) == 0:
        raise InputError(
            "these runs held out no item in common", where="ensemble", mend="Use runs of one split", state=""
        )
    logits = [torch.from_numpy(one["logits"][np.searchsorted(one["rows"], shared)]) for one in stored]
    log_mean = torch.stack([torch.log_softmax(one.double(), -1) for one in logits]).logsumexp(0) - np.log(len(logits))
    stage = Stage.of(ledger.read(spec.inputs["of"][0]).spec)
    return _judged("last", Predictions(log_mean), stage, torch.from_numpy(shared))


def _lowest(spec: Spec, ledger: Ledger) -> Outcome:
    column, candidates = spec.settings["column"], spec.inputs["of"]
    reached = [_lowest_of(ledger.read(run_id), column) for run_id in candidates]
    winner = int(np.argmin(reached))
    facts = {"winner": candidates[winner], "column": column, "reached": dict(zip(candidates, reached, strict=True))}
    return {}, facts, {}


def _lowest_of(run: Run, column: str) -> float:
    values = [value for value in run.curve.get(column, []) if value is not None]
    if not values:
        raise InputError(
            f"run {run.id} has no {column!r} in its curve", where="select", mend=f"Choose among {', '.join(run.curve)}"
        )
    return min(values)


def _judged(checkpoint: str, predictions: Predictions, stage: Stage, rows: Tensor) -> Outcome:
    scores, temperatures = evaluate.judge(predictions, stage.data, rows, stage.seed)
    facts = {
        "items": {"evaluation": len(rows)},
        "temperatures": {checkpoint: temperatures},
        "notes": list(stage.data.notes),
    }
    return {checkpoint: scores}, facts, {"predictions": evaluate.record(predictions, stage.data, rows)}


def _predictions(run_id: str, ledger: Ledger) -> Arrays:
    arrays = ledger.arrays(run_id, "predictions")
    if arrays is None:
        raise InputError(
            f"the predictions of run {run_id} were not kept",
            where=str(ledger.folder),
            mend="Remove its folder and run it again",
        )
    return arrays


ANALYSES: dict[str, Callable[[Spec, Ledger], Outcome]] = {
    "evaluation": _evaluation,
    "ensemble": _ensemble,
    "lowest": _lowest,
}

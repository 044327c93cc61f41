"""All scores of finished runs, computed anew: of one checkpoint, or of several runs together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dissensus.engine import judging
from dissensus.engine.measures.finished_run import rows_in_all
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell
from dissensus.engine.measures.stored_predictions import StoredPredictions
from dissensus.engine.setup import TrainingSetup, trained
from dissensus.errors import InputError
from dissensus.models.predictions import Predictions
from dissensus.store.ledger import Ledger, predictions_name
from dissensus.training import evaluate


@dataclass(frozen=True)
class Evaluation(Measure):
    """A checkpoint of a run scored anew, from its weights, on the items it held out.

    With `flip`, the mean of its probabilities for each image and for its mirror image: a test-time trick, to be
    reported apart from numbers without it.
    """

    checkpoint: str = "last"
    flip: bool = False

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        (run_id,) = run_ids
        setup = TrainingSetup.of(ledger.read(run_id).spec, ledger)
        model, x = trained(run_id, ledger, self.checkpoint), setup.x(setup.held_out)
        predictions = evaluate.predict(model, x)
        if self.flip:
            if x.ndim != 4:
                raise InputError("only images have a mirror image", where="evaluation", hint="Leave flip out", state="")
            predictions = _mean([predictions.logits, evaluate.predict(model, x.flip(3)).logits])
        return _scored(self.checkpoint, predictions, setup, setup.held_out)


@dataclass(frozen=True)
class Ensemble(Measure):
    """The mean of several runs' probabilities, scored on the items that all of them held out."""

    runs: ClassVar[int | None] = None

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        stored = [StoredPredictions.read(run_id, ledger, "last") for run_id in run_ids]
        shared = rows_in_all([predictions.rows for predictions in stored])
        logits = [predictions.logits[torch.searchsorted(predictions.rows, shared)] for predictions in stored]
        setup = TrainingSetup.of(ledger.read(run_ids[0]).spec, ledger)
        return _scored("last", _mean(logits), setup, shared)


def _mean(logits: list[Tensor]) -> Predictions:
    """The mean of several distributions per item."""
    log_probs = torch.stack([torch.log_softmax(of_run.double(), -1) for of_run in logits])
    return Predictions(log_probs.logsumexp(0) - math.log(len(logits)))


def _scored(checkpoint: str, predictions: Predictions, setup: TrainingSetup, rows: Tensor) -> MeasureResult:
    scores, temperatures = judging.judge(predictions, setup.data, rows, setup.seed)
    facts = {
        "items": {"evaluation": len(rows)},
        "temperatures": {checkpoint: temperatures},
        "notes": list(setup.data.notes),
    }
    arrays = {predictions_name("last"): judging.record(predictions, setup.data, rows)}
    return MeasureResult({checkpoint: scores}, facts, arrays)

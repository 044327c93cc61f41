"""All scores of finished runs, computed anew: of one checkpoint, or of several runs together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dissensus.datasets.data_ref import DataRef
from dissensus.engine import judging
from dissensus.engine.measures.finished_run import FinishedRun, rows_in_all
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell
from dissensus.engine.measures.shifted_data import predict_together
from dissensus.engine.measures.stored_predictions import StoredPredictions
from dissensus.engine.setup import TrainingSetup, loaded, trained
from dissensus.errors import InputError
from dissensus.models.predictions import Predictions, mean_of
from dissensus.store.ledger import Ledger, predictions_name
from dissensus.training import evaluate
from dissensus.training.splits import SplitRule


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
            predictions = mean_of([predictions, evaluate.predict(model, x.flip(3))])
        return _scored(self.checkpoint, predictions, setup, setup.held_out)


@dataclass(frozen=True)
class Ensemble(Measure):
    """The mean of several runs' probabilities, scored on the items that all of them held out."""

    runs: ClassVar[int | None] = None

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        stored = [StoredPredictions.read(run_id, ledger, "last") for run_id in run_ids]
        shared = rows_in_all([predictions.rows for predictions in stored])
        parts = [Predictions(of_run.logits[torch.searchsorted(of_run.rows, shared)]) for of_run in stored]
        setup = TrainingSetup.of(ledger.read(run_ids[0]).spec, ledger)
        return _scored("last", mean_of(parts), setup, shared)


@dataclass(frozen=True)
class SplitScores(Measure):
    """Runs that were trained elsewhere, judged on the held-out part of a split of `data` as a run there would be.

    So a network that saw other items stands beside those that were trained on this split. Of several runs the mean of
    their probabilities is judged: an ensemble. `seed` is that of the split, and of the halves on which a temperature is
    fitted. It has no epochs here: its scores stand where those of the best epoch do.
    """

    data: DataRef
    split: SplitRule
    seed: int = 0
    checkpoint: str = "last"

    runs: ClassVar[int | None] = None

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        data = loaded(self.data)
        _, held_out = self.split.split(data.labels, self.seed)
        runs = [FinishedRun.load(run_id, ledger, self.checkpoint) for run_id in run_ids]
        predictions = predict_together(runs, self.data, held_out, tell)
        scores, temperatures = judging.judge(predictions, data, held_out, self.seed)
        facts = {
            "items": {"evaluation": len(held_out)},
            "classes": list(data.classes),
            "temperatures": {"best": temperatures},
            "notes": list(data.notes),
        }
        return MeasureResult(
            {"best": scores}, facts, {predictions_name("best"): judging.record(predictions, data, held_out)}
        )


def _scored(checkpoint: str, predictions: Predictions, setup: TrainingSetup, rows: Tensor) -> MeasureResult:
    scores, temperatures = judging.judge(predictions, setup.data, rows, setup.seed)
    facts = {
        "items": {"evaluation": len(rows)},
        "temperatures": {checkpoint: temperatures},
        "notes": list(setup.data.notes),
    }
    arrays = {predictions_name("last"): judging.record(predictions, setup.data, rows)}
    return MeasureResult({checkpoint: scores}, facts, arrays)

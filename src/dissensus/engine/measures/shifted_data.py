"""How a run does on images of the same classes from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from dissensus.datasets.data import Data
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.judging import judge_elsewhere, one_temperature
from dissensus.engine.measures.finished_run import FinishedRun, at_most
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell
from dissensus.engine.measures.out_of_distribution import images_like
from dissensus.errors import InputError
from dissensus.models.model import Model
from dissensus.models.predictions import Predictions, concatenate
from dissensus.store.ledger import Ledger
from dissensus.training import evaluate

AT_ONCE = 5000
"""Items between two reports of progress."""


@dataclass(frozen=True)
class ShiftedScores(Measure):
    """Every score of a run on another data set with the same classes: `accuracy`, `nll_gold`, `confidence_wrong`, …

    Where those data have votes, the scores to people too. Beside each raw score stands the one after a temperature that
    was fitted on the run's own held-out items: `nll_gold_tempered_votes`, `nll_gold_tempered_gold`. `items` caps how many
    are judged, drawn by the run's seed.
    """

    data: DataRef
    checkpoint: str = "last"
    items: int | None = None

    spec_name: ClassVar[str] = "shifted"

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        (run_id,) = run_ids
        run = FinishedRun.load(run_id, ledger, self.checkpoint)
        own, held_out = run.setup.data, run.setup.held_out
        shifted, images = images_like(run.x(held_out), self.data)
        check_classes(own.classes, shifted)
        rows = at_most(torch.arange(len(shifted)), self.items, run.seed)
        temperatures = one_temperature(run.predict(held_out).logits, own, held_out)
        predictions = predict_told(run.model, images, rows, tell)
        notes = list(shifted.notes)
        if shifted.digest == own.digest:
            notes.append("These are the run's own data: the items it was trained on are among them.")
        facts = {
            "checkpoint": run.checkpoint,
            "shifted": shifted.name,
            "temperatures": temperatures,
            "items": {"evaluation": len(held_out), "shifted": len(rows)},
            "notes": notes,
        }
        return MeasureResult(judge_elsewhere(predictions.logits, shifted, rows, temperatures), facts)


def predict_told(model: Model, images: torch.Tensor, rows: torch.Tensor, tell: Tell) -> Predictions:
    """The predictions for these rows, telling how many are done."""
    device, parts = next(model.parameters()).device, list[Predictions]()
    for block in torch.split(rows, AT_ONCE):
        parts.append(evaluate.predict(model, images[block].to(device)))
        tell(sum(len(part.logits) for part in parts), len(rows))
    return concatenate(parts)


def check_classes(classes: tuple[str, ...], shifted: Data) -> None:
    """Other classes than the model's cannot be scored."""
    if shifted.classes != classes:
        raise InputError(
            f"its classes are {_some(shifted.classes)}, those of the model {_some(classes)}",
            where=shifted.name,
            hint="Judge data of other classes as out of distribution",
            state="",
        )


def _some(classes: tuple[str, ...]) -> str:
    return ", ".join(classes[:3]) + (", …" if len(classes) > 3 else "")

"""How a run does on images of the same classes from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from dissensus.datasets.data import Data
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.judging import judge_elsewhere, one_temperature
from dissensus.engine.measures.finished_run import FinishedRun, at_most, held_out_in_all
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell
from dissensus.engine.measures.out_of_distribution import images_like
from dissensus.engine.setup import loaded
from dissensus.errors import InputError
from dissensus.models.model import Model
from dissensus.models.predictions import Predictions, concatenate, mean_of
from dissensus.store.ledger import Ledger
from dissensus.training import evaluate

AT_ONCE = 5000
"""Items between two reports of progress."""


@dataclass(frozen=True)
class ShiftedScores(Measure):
    """Every score of a run on another data set with the same classes: `accuracy`, `nll_gold`, `confidence_wrong`, …

    Of several runs, those of an ensemble: the mean of their probabilities. Where those data have votes, the scores to
    people too. Beside each raw score stands the one after a temperature that was fitted on the items that the runs held
    out: `nll_gold_tempered_votes`, `nll_gold_tempered_gold`. `items` caps how many are judged, drawn by the first run's
    seed.
    """

    data: DataRef
    checkpoint: str = "last"
    items: int | None = None

    spec_name: ClassVar[str] = "shifted"
    runs: ClassVar[int | None] = None

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        runs = [FinishedRun.load(run_id, ledger, self.checkpoint) for run_id in run_ids]
        first = runs[0]
        own, held_out = first.setup.data, held_out_in_all(*(run.setup for run in runs))
        shifted = loaded(self.data)
        rows = at_most(torch.arange(len(shifted)), self.items, first.seed)
        predictions = predict_together(runs, self.data, rows, tell)
        inside = mean_of([run.predict(held_out) for run in runs])
        temperatures = one_temperature(inside.logits, own, held_out)
        notes = list(shifted.notes)
        if shifted.digest == own.digest:
            notes.append("These are the run's own data: the items it was trained on are among them.")
        facts = {
            "checkpoint": first.checkpoint,
            "shifted": shifted.name,
            "fitted_temperatures": temperatures,
            "items": {"evaluation": len(held_out), "shifted": len(rows)},
            "notes": notes,
        }
        return MeasureResult(judge_elsewhere(predictions.logits, shifted, rows, temperatures), facts)


def predict_together(runs: Sequence[FinishedRun], ref: DataRef, rows: torch.Tensor, tell: Tell) -> Predictions:
    """The mean of what these runs say of some rows of another data set, whose images and classes must be theirs."""
    parts = []
    for number, run in enumerate(runs):
        shifted, images = images_like(run.x(run.setup.held_out[:1]), ref)
        check_classes(run.setup.data.classes, shifted)
        parts.append(
            predict_told(
                run.model,
                images,
                rows,
                lambda done, total, before=number: tell(before * total + done, len(runs) * total),  # type: ignore[misc]
            )
        )
    return mean_of(parts)


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

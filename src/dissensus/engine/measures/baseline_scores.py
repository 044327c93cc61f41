"""What a model has to beat, on the split of a training run: the class prior, and logistic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from dissensus.datasets.data import Data, to_float
from dissensus.datasets.data_ref import DataRef
from dissensus.engine import judging
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell
from dissensus.engine.setup import loaded
from dissensus.errors import InputError
from dissensus.models.predictions import Predictions
from dissensus.store.encoding import encode
from dissensus.store.ledger import Ledger, predictions_name
from dissensus.training.baselines import BASELINES
from dissensus.training.splits import SplitRule


@dataclass(frozen=True)
class BaselineScores(Measure):
    """A baseline of `training.baselines`, fitted to the training items of a split and judged like a run of `seed`.

    It has no epochs: its scores stand where those of the best epoch of a trained head do.
    """

    data: DataRef
    baseline: str
    split: SplitRule
    seed: int = 0

    runs: ClassVar[int | None] = 0

    def __post_init__(self) -> None:
        if self.baseline not in BASELINES:
            raise InputError(f"{self.baseline!r} is not one of {', '.join(BASELINES)}", where="baseline", state="")

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        data = loaded(self.data)
        x = flat_inputs(data)
        train, held_out = self.split.split(data.labels, self.seed)
        votes = None if data.counts is None else data.counts[train].sum(1).double()
        log_probs = BASELINES[self.baseline](x[train], data.people[train], votes, x[held_out], seed=self.seed)
        predictions = Predictions(log_probs)
        scores, temperatures = judging.judge(predictions, data, held_out, self.seed)
        facts = {
            "items": {"train": len(train), "evaluation": len(held_out)},
            "gold": "given" if data.has_gold else "majority",
            "split": encode(self.split),
            "temperatures": {"best": temperatures},
            "notes": list(data.notes),
        }
        arrays = {predictions_name("best"): judging.record(predictions, data, held_out)}
        return MeasureResult({"best": scores}, facts, arrays)


def flat_inputs(data: Data) -> Tensor:
    """What a linear model sees, [N, D]: features as they are, images as their pixels."""
    if data.x is None:
        raise InputError("these data have no inputs to fit a model to", where=data.name, state="")
    return to_float(data.x).flatten(1)

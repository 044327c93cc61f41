"""How a run does where people disagree, and elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dissensus import metrics
from dissensus.engine.measures.finished_run import kept_checkpoint
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell
from dissensus.engine.measures.stored_predictions import StoredPredictions
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json


@dataclass(frozen=True)
class Slices(Measure):
    """Every score of `metrics.score` on the items of high disagreement, and on the rest of those held out."""

    checkpoint: str = "last"

    cheap: ClassVar[bool] = True

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        (run_id,) = run_ids
        checkpoint = kept_checkpoint(ledger.read(run_id), self.checkpoint)
        stored = StoredPredictions.read(run_id, ledger, checkpoint)
        log_probs, high = stored.log_probs, stored.high_disagreement
        scores: Json = {}
        facts: Json = {"checkpoint": checkpoint, "items": {}}
        for name, chosen in (("high", high), ("rest", ~high)):
            facts["items"][name] = int(chosen.sum())
            if facts["items"][name]:
                of_slice = metrics.score(log_probs[chosen], stored.people[chosen], gold=stored.labels[chosen])
                scores |= {f"{metric}_{name}": value for metric, value in of_slice.items() if metric != "gold"}
        return MeasureResult(scores, facts)

"""Is there a barrier of loss between the weights of two runs?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import ClassVar

from dissensus import metrics
from dissensus.engine.measures.finished_run import at_most, held_out_in_all, load_pair, rows_in_all
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell, finite, series
from dissensus.models.model import Model
from dissensus.probes.barrier import barrier
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json
from dissensus.training import evaluate


@dataclass(frozen=True)
class Barrier(Measure):
    """Soft NLL on the straight line between two runs' weights, on the items that both held out.

    Batch-norm statistics both ways: interpolated like weights, and measured anew on the items that both were trained on
    (at most `training_items` of them).
    """

    checkpoint: str = "best"
    points: int = 21
    training_items: int | None = None

    runs: ClassVar[int | None] = 2

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        first, second = load_pair(run_ids, ledger, self.checkpoint)
        rows = held_out_in_all(first.setup, second.setup)
        trained_on = at_most(rows_in_all([first.setup.train, second.setup.train]), self.training_items, first.seed)
        x, people, points_done = first.x(rows), first.setup.data.people[rows], count(1)

        def loss(model: Model) -> float:
            tell(next(points_done), 2 * self.points)
            return float(metrics.soft_nll(evaluate.predict(model, x).log_probs, people).mean())

        scores: Json = {}
        facts: Json = {
            "checkpoints": [first.checkpoint, second.checkpoint],
            "items": {"evaluation": len(rows), "train": len(trained_on)},
            "x": [point / (self.points - 1) for point in range(self.points)],
        }
        ends = first.model.state_dict(), second.model.state_dict()
        for batch_norm, reestimate in (("interpolated", None), ("reestimated", first.x(trained_on))):
            profile = barrier(first.model, *ends, loss, points=self.points, reestimate=reestimate)
            scores[f"barrier_{batch_norm}"] = finite(profile.height)
            facts[batch_norm] = series(profile.losses)
        return MeasureResult(scores, facts)

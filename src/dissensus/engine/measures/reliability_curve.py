"""How often a run is right at each confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from dissensus import metrics
from dissensus.engine.measures.finished_run import kept_checkpoint
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell, series
from dissensus.engine.measures.stored_predictions import StoredPredictions
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json


@dataclass(frozen=True)
class Reliability(Measure):
    """How often an item is right at each confidence, by a smooth curve, with the smooth ECE that belongs to it.

    Of the held-out items of one run, or of several pooled. On all of them, and on those of high disagreement in each
    run's own evaluation split. The curve has gaps where it would rest on a few items.
    """

    checkpoint: str = "last"
    points: int = 51

    runs: ClassVar[int | None] = None
    cheap: ClassVar[bool] = True

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        stored = [
            StoredPredictions.read(run_id, ledger, kept_checkpoint(ledger.read(run_id), self.checkpoint))
            for run_id in run_ids
        ]
        tops = [predictions.top(predictions.labels) for predictions in stored]
        confidence, correct = (torch.cat(parts) for parts in zip(*tops, strict=True))
        high = torch.cat([predictions.high_disagreement for predictions in stored])
        scores: Json = {}
        facts: Json = {"checkpoints": [predictions.checkpoint for predictions in stored], "items": {}}
        for name, chosen in (("full", torch.ones_like(high)), ("high", high)):
            events = confidence[chosen], correct[chosen]
            fine = metrics.smooth_reliability(*events, points=4 * (self.points - 1) + 1)
            scores[f"smooth_ece_{name}"] = metrics.smooth_ece(*events)
            facts["items"][name] = len(events[0])
            accuracy = np.where(fine.is_supported, fine.accuracy, np.nan)
            facts[name] = {
                "x": series(fine.grid[::4]),
                "y": series(accuracy[::4]),
                "density": series(fine.density[::4]),
                "sigma": fine.sigma,
            }
        return MeasureResult(scores, facts)

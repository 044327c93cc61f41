"""Does a run that names the people's first choice spread the rest as people do?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from dissensus.engine.measures.finished_run import kept_checkpoint
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell, series
from dissensus.engine.measures.stored_predictions import StoredPredictions
from dissensus.metrics.agreement import majority
from dissensus.store.ledger import Ledger


@dataclass(frozen=True)
class RankedShares(Measure):
    """Mean probability of the people's first, second, third … choice: what people gave it, and what the run gives it.

    Over the held-out items on which both have the same first choice (Figure 3B of Peterson et al. 2019). The facts
    `people` and `model` are curves with x, the rank from 1, and y. `total_variation` is the mean over these items of half
    the sum of absolute differences. Among equal shares the lower class index comes first.
    """

    checkpoint: str = "last"

    cheap: ClassVar[bool] = True

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        (run_id,) = run_ids
        stored = StoredPredictions.read(run_id, ledger, kept_checkpoint(ledger.read(run_id), self.checkpoint))
        probs, people = stored.log_probs.exp(), stored.people
        agreeing = majority(people) == majority(probs)
        order = torch.argsort(people[agreeing], dim=1, descending=True, stable=True)
        means = {"people": people[agreeing].gather(1, order), "model": probs[agreeing].gather(1, order)}
        apart = (probs[agreeing] - people[agreeing]).abs().sum(1) / 2
        scores = {"total_variation": float(apart.mean()) if len(apart) else None}
        ranks = [float(rank) for rank in range(1, people.shape[1] + 1)]
        curves = {name: {"x": ranks, "y": series(shares.mean(0))} for name, shares in means.items()}
        items = {"same_first_choice": int(agreeing.sum()), "evaluation": len(agreeing)}
        return MeasureResult(scores, {**curves, "items": items})

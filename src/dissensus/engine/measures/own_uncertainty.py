"""Is a run's own uncertainty higher for images from elsewhere?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from dissensus import metrics
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures.finished_run import FinishedRun, at_most
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell
from dissensus.engine.measures.out_of_distribution import images_like
from dissensus.probes.detectors import predictive_entropy
from dissensus.store.ledger import Ledger
from dissensus.training import evaluate


@dataclass(frozen=True)
class OwnUncertainty(Measure):
    """AUROC of the uncertainty that a run's model gives: the items that it held out against another data set's.

    A model without one is judged by its predictive entropy, as is every model with `score="entropy"`. `auroc` is the one
    that was chosen, and the facts say in words what it is; `auroc_own` and `auroc_entropy` stand beside it. `items` caps
    how many images of either kind are used, drawn by the run's seed.
    """

    data: DataRef
    score: Literal["own", "entropy"] = "own"
    checkpoint: str = "last"
    items: int | None = None

    spec_name: ClassVar[str] = "uncertainty"

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        (run_id,) = run_ids
        run = FinishedRun.load(run_id, ledger, self.checkpoint)
        rows = at_most(run.setup.held_out, self.items, run.seed)
        inside = run.x(rows)
        outside, images = images_like(inside, self.data)
        chosen = at_most(torch.arange(len(images)), self.items, run.seed)
        predictions = []
        for number, x in enumerate((inside, images[chosen].to(inside.device)), start=1):
            predictions.append(evaluate.predict(run.model, x))
            tell(number, 2)
        own = [each.uncertainty for each in predictions]
        scores = {"auroc_entropy": metrics.auroc(*(predictive_entropy(each.logits) for each in predictions))}
        if own[0] is not None and own[1] is not None:
            scores["auroc_own"] = metrics.auroc(own[0].double(), own[1].double())
        judged = "auroc_own" if self.score == "own" and "auroc_own" in scores else "auroc_entropy"
        facts = {
            "checkpoint": run.checkpoint,
            "outside": outside.name,
            "uncertainty": run.model.uncertainty if judged == "auroc_own" else "predictive entropy",
            "items": {"evaluation": len(rows), "outside": len(chosen)},
            "notes": list(outside.notes),
        }
        return MeasureResult({"auroc": scores[judged], **scores}, facts)

"""Do two runs see the same in the items that both held out?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dissensus import metrics
from dissensus.engine.measures.finished_run import FinishedRun, held_out_in_all, load_pair
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell, finite
from dissensus.probes.cka import linear_cka
from dissensus.probes.grad_cam import Stability, grad_cam, stability
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json


@dataclass(frozen=True)
class Cka(Measure):
    """Linear CKA of two runs' penultimate features, as papers print it (biased upwards) and unbiased."""

    checkpoint: str = "last"

    runs: ClassVar[int | None] = 2

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        first, second = load_pair(run_ids, ledger, self.checkpoint)
        rows = held_out_in_all(first.setup, second.setup)
        features = first.features(rows, "cka"), second.features(rows, "cka")
        scores = {"cka": linear_cka(*features), "cka_unbiased": linear_cka(*features, unbiased=True)}
        return MeasureResult(scores, _facts(first, second, len(rows)))


@dataclass(frozen=True)
class GradCam(Measure):
    """The correlation of two runs' Grad-CAM maps for the class that each predicts, averaged over items.

    Over all items that both held out, and over those of them with vote entropy at or above their 90th percentile. `layer`
    names a submodule; None is the model's last stage before pooling.
    """

    checkpoint: str = "last"
    layer: str | None = None

    runs: ClassVar[int | None] = 2

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        first, second = load_pair(run_ids, ledger, self.checkpoint)
        rows = held_out_in_all(first.setup, second.setup)
        high = metrics.high_disagreement(first.setup.data.people[rows])
        a, b = (grad_cam(run.model, run.x(rows), layer=self.layer) for run in (first, second))
        on_all, on_high = stability(a, b), stability(a[high], b[high])
        facts = _facts(first, second, len(rows))
        facts["items"]["high"] = int(high.sum())
        facts["left_out"] = {"all": on_all.left_out, "high": on_high.left_out}
        return MeasureResult({"stability": _mean(on_all), "stability_high": _mean(on_high)}, facts)


def _facts(first: FinishedRun, second: FinishedRun, items: int) -> Json:
    return {"checkpoints": [first.checkpoint, second.checkpoint], "items": {"evaluation": items}}


def _mean(maps: Stability) -> float | None:
    return finite(float(maps.correlation.mean())) if len(maps.correlation) else None

"""In how few items does most of the disagreement lie?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dissensus import metrics
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell, series
from dissensus.engine.setup import loaded
from dissensus.store.ledger import Ledger


@dataclass(frozen=True)
class EntropyConcentration(Measure):
    """Of a data set: the part of all vote entropy that the most disputed `top` of its items hold, and the whole curve.

    The fact `curve` has x, a share of the items, the most disputed first, and y, the part of all vote entropy in them.
    """

    data: DataRef
    top: float = 0.3
    points: int = 51

    runs: ClassVar[int | None] = 0

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        data = loaded(self.data)
        curve = metrics.entropy_concentration(data.people)
        grid = np.linspace(0, 1, self.points)
        scores = {
            "entropy_held": curve.held_by(self.top),
            "items_for_half": curve.needed_for(0.5),
            "items_for_nine_tenths": curve.needed_for(0.9),
            "items_disputed": curve.needed_for(1.0),
        }
        drawn = {"x": series(grid), "y": series(np.interp(grid, curve.share, curve.held))}
        return MeasureResult(scores, {"curve": drawn, "items": {"all": len(data)}, "notes": list(data.notes)})

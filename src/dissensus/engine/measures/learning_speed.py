"""How fast a run learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dissensus.engine.measures.measure import Measure, MeasureResult, Tell
from dissensus.errors import InputError
from dissensus.store.ledger import Ledger
from dissensus.store.run_source import RunSource
from dissensus.store.spec import Json


@dataclass(frozen=True)
class Convergence(Measure):
    """After how many epochs a run's curve came within `share` of its best, and when it was best.

    Within means at most best / share, for a column of which less is better. The first epoch is 1.
    """

    column: str = "soft_nll"
    share: float = 0.95

    cheap: ClassVar[bool] = True

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        return MeasureResult(self.from_records(run_ids, ledger))

    def from_records(self, run_ids: tuple[str, ...], runs: RunSource) -> Json:
        (run_id,) = run_ids
        curve = runs.read(run_id).curve
        values = np.array([np.nan if value is None else value for value in curve.get(self.column, [])], dtype=np.float64)
        if not np.isfinite(values).any():
            raise InputError(
                f"run {run_id} has no {self.column!r} in its curve",
                where="convergence",
                hint=f"Choose among {', '.join(curve)}",
                state="",
            )
        best = float(np.nanmin(values))
        near = np.flatnonzero(values <= best / self.share)  # NaN is not
        return {
            "epochs_to_near_best": int(near[0]) + 1,
            "best_epoch": int(np.nanargmin(values)) + 1,
            "best": best,
            "epochs": len(values),
        }

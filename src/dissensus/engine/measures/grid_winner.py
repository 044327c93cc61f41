"""Which run of a grid is the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dissensus.engine.measures.measure import Measure, MeasureResult, Tell
from dissensus.errors import InputError
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Run


@dataclass(frozen=True)
class Lowest(Measure):
    """The run of a grid whose curve reaches the lowest value of a column; ties to the first named.

    A value that exceeds the lowest by no more than `tolerance`, relative to it, is a tie: runs that differ in a schedule
    which never acted are the same but for rounding, and rounding should not choose between them.
    """

    column: str = "validation_loss"
    tolerance: float = 1e-5

    runs: ClassVar[int | None] = None
    cheap: ClassVar[bool] = True

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        reached = {run_id: self._lowest(ledger.read(run_id)) for run_id in run_ids}
        lowest = min(reached.values())
        tied = lowest + self.tolerance * abs(lowest)
        winner = next(run_id for run_id, value in reached.items() if value <= tied)
        return MeasureResult({}, {"winner": winner, "column": self.column, "reached": reached})

    def _lowest(self, run: Run) -> float:
        values = [value for value in run.curve.get(self.column, []) if value is not None]
        if not values:
            raise InputError(
                f"run {run.id} has no {self.column!r} in its curve",
                where="select",
                hint=f"Choose among {', '.join(run.curve)}",
            )
        return min(values)

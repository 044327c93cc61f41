"""Which run of a grid is the best, and what it scored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dissensus.engine.measures.measure import Measure, MeasureResult, Tell
from dissensus.errors import InputError
from dissensus.store.ledger import Ledger, predictions_name
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
        every = {run_id: self._lowest(ledger.read(run_id)) for run_id in run_ids}
        reached = {run_id: value for run_id, value in every.items() if value is not None}  # the others diverged
        if not reached:
            hint = "Lower the learning rates"
            raise InputError("every run of the grid diverged", where="select", hint=hint, state="")
        lowest = min(reached.values())
        tied = lowest + self.tolerance * abs(lowest)
        winner = next(run_id for run_id, value in reached.items() if value <= tied)
        return MeasureResult({}, {"winner": winner, "column": self.column, "reached": reached})

    def _lowest(self, run: Run) -> float | None:
        if not run.curve.get(self.column):
            raise InputError(
                f"run {run.id} has no {self.column!r} in its curve",
                where="select",
                hint=f"Choose among {', '.join(run.curve)}",
            )
        return min((value for value in run.curve[self.column] if value is not None), default=None)


@dataclass(frozen=True)
class WinnerScores(Measure):
    """The scores and predictions of the run that `Lowest` chooses: of a grid on one split, by the validation loss there.

    The settings are chosen for each split anew, from its training items alone, so that what is held out judges a choice
    that did not see it. `cost` in the facts is that of the whole grid.
    """

    column: str = "validation_loss"

    runs: ClassVar[int | None] = None
    cheap: ClassVar[bool] = True

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        winner = ledger.read(Lowest(self.column).compute(run_ids, ledger, tell).facts["winner"])
        grid = [ledger.read(run_id) for run_id in run_ids]
        differing = [
            name for name, value in winner.spec.settings.items() if any(run.spec.settings[name] != value for run in grid)
        ]
        facts = {
            **winner.facts,
            "winner": winner.id,
            "chosen": {name: winner.spec.settings[name] for name in differing},
            "split": winner.spec.settings["split"],
            "cost": {"gigaflops": sum(map(_gigaflops, grid)), "runs": len(grid)},
        }
        kept = {checkpoint: ledger.predictions(winner.id, checkpoint) for checkpoint in winner.scores}
        arrays = {predictions_name(checkpoint): arrays for checkpoint, arrays in kept.items() if arrays is not None}
        return MeasureResult(winner.scores, facts, arrays)


def _gigaflops(run: Run) -> float:
    """Of the epochs that were trained: fewer than planned where the run stopped early."""
    return float(run.facts["training_flops"] * run.facts["epochs"] / run.spec.settings["epochs"] / 1e9)

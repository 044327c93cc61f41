"""Finished runs as this version sees them: what records alone decide is computed anew, not trusted."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dissensus.engine.measures import measure_of
from dissensus.store.run_source import Arrays, RunSource, Summary
from dissensus.store.spec import Run

__all__ = ["RenewedRuns"]


@dataclass(frozen=True)
class RenewedRuns:
    """The runs of a source. The part of a measure that follows from the records of other runs (a test, a mean, the epoch
    of a curve) is that of this version, whatever the version that computed it said."""

    source: RunSource

    def __contains__(self, run_id: str) -> bool:
        return run_id in self.source

    def ids(self) -> list[str]:
        """The ids of all runs, sorted."""
        return self.source.ids()

    def read(self, run_id: str) -> Run:
        """The record of a run. A measure whose inputs are not there is as it was stored."""
        run = self.source.read(run_id)
        inputs = run.spec.inputs.get("of", ())
        if run.spec.kind == "train" or not inputs or not all(needed in self.source for needed in inputs):
            return run
        renewed = measure_of(run.spec).from_records(inputs, self)
        return replace(run, scores={**run.scores, **renewed}) if renewed else run

    def predictions(self, run_id: str, checkpoint: str) -> Arrays | None:
        """What a run predicted at a checkpoint."""
        return self.source.predictions(run_id, checkpoint)

    def gallery(self, run_id: str) -> Arrays | None:
        """Pictures of the items on which people disagree most."""
        return self.source.gallery(run_id)

    def summaries(self) -> list[Summary]:
        """All runs in short."""
        return self.source.summaries()

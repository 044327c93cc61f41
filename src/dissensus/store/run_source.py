"""What reports and forecasts read: finished runs, wherever they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from dissensus.store.spec import Json, Run

Arrays = Mapping[str, NDArray[Any]]
"""Named arrays: one .npz file."""

_SUMMARISED = ("soft_nll", "kl", "accuracy", "ece_mass_15", "entropy_spearman")


@dataclass(frozen=True)
class Summary:
    """What a list of many runs shows of each; `raw` are some scores of the last epoch, as the model gave them."""

    id: str
    kind: str
    settings: Json
    raw: Json
    seconds: float | None
    flops: float | None
    threads: int | None

    @classmethod
    def of(cls, run: Run) -> Summary:
        """A run in short."""
        raw = run.scores.get("last", {}).get("raw", {})
        return cls(
            run.id,
            run.spec.kind,
            run.spec.settings,
            {name: raw[name] for name in _SUMMARISED if name in raw},
            run.provenance.get("seconds"),
            run.facts.get("training_flops"),
            run.provenance.get("threads"),
        )


class RunSource(Protocol):
    """Finished runs, to be read: a ledger, or a file of records."""

    def __contains__(self, run_id: str) -> bool: ...

    def ids(self) -> list[str]:
        """The ids of all runs, sorted."""

    def read(self, run_id: str) -> Run:
        """The record of a run; an InputError where there is none."""

    def predictions(self, run_id: str, checkpoint: str) -> Arrays | None:
        """What a run predicted at a checkpoint, `last` or `best`; None where it was not kept."""

    def gallery(self, run_id: str) -> Arrays | None:
        """Pictures of the items on which people disagree most; None where they were not kept."""

    def summaries(self) -> list[Summary]:
        """All runs in short, in the order of their ids."""

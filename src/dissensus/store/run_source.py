"""What reports and forecasts read: finished runs, wherever they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from dissensus.errors import InputError
from dissensus.store.spec import Json, Run

Arrays = Mapping[str, NDArray[Any]]
"""Named arrays: one .npz file."""


def check_predictions(arrays: Arrays, run_id: str) -> None:
    """Raise where arrays are not the predictions of a training run, or do not fit together.

    A run keeps `rows`, `labels` and `ids` [N], `logits` and `people` [N, K], and `counts` and `truth` [N, K] if there are
    any. Checksums find damage; this finds arrays of something else.
    """
    kinds = {"rows": "iu", "labels": "iu", "logits": "f", "people": "f", "counts": "iu", "truth": "f", "ids": "U"}
    absent = [name for name in ("rows", "logits", "people", "labels") if name not in arrays]
    problem = f"{', '.join(absent)} are missing" if absent else ""
    if not problem:
        shape = arrays["logits"].shape
        for name in kinds.keys() & arrays.keys():
            expected = shape[:1] if name in ("rows", "labels", "ids") else shape
            if arrays[name].shape != expected or arrays[name].dtype.kind not in kinds[name] or len(shape) != 2:
                problem = f"{name} are {arrays[name].dtype} {list(arrays[name].shape)}"
    if not problem and not (arrays["labels"].size and 0 <= arrays["labels"].min() <= arrays["labels"].max() < shape[1]):
        problem = "labels are outside of the classes"
    if problem:
        raise InputError(
            f"these are no predictions of a run ({problem})",
            where=f"run {run_id}",
            hint="Remove the run, and compute it again",
            state="",
        )


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

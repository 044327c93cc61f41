"""What a table, figure or claim reads from a run's record: typed references, never a path in a string."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dissensus.errors import InputError
from dissensus.store.json_types import misfit
from dissensus.store.spec import Run

__all__ = [
    "BestEpoch",
    "EpochCurve",
    "Fact",
    "Measured",
    "Score",
    "as_type",
    "fact",
    "number",
]

Checkpoint = Literal["last", "best"]
CalibrationName = Literal["raw", "tempered_votes", "tempered_gold"]


@dataclass(frozen=True)
class Score:
    """A metric of a trained network at one checkpoint, raw or tempered."""

    metric: str
    checkpoint: Checkpoint = "last"
    calibration: CalibrationName = "raw"

    @property
    def key(self) -> str:
        """What `results.csv` calls it."""
        return f"{self.checkpoint}.{self.calibration}.{self.metric}"

    @property
    def name(self) -> str:
        """The metric."""
        return self.metric

    def read(self, run: Run) -> Any:
        """The number in this run's record; None where it has none."""
        return _inside(run.scores, (self.checkpoint, self.calibration, self.metric))


@dataclass(frozen=True)
class Measured:
    """A number that a measure gave."""

    score: str

    @property
    def key(self) -> str:
        """What `results.csv` calls it."""
        return self.score

    @property
    def name(self) -> str:
        """The score."""
        return self.score

    def read(self, run: Run) -> Any:
        """The number in this run's record; None where it has none."""
        return run.scores.get(self.score)


@dataclass(frozen=True)
class Fact:
    """A finding that is not a score, by its keys in the record: a size, a word, a list of points."""

    keys: tuple[str, ...]

    @property
    def key(self) -> str:
        """What `results.csv` calls it."""
        return ".".join(("facts", *self.keys))

    @property
    def name(self) -> str:
        """The last of its keys."""
        return self.keys[-1]

    def read(self, run: Run) -> Any:
        """The content in this run's record; None where it has none."""
        return _inside(run.facts, self.keys)


@dataclass(frozen=True)
class EpochCurve:
    """A column of a training curve: one number per epoch."""

    column: str

    @property
    def key(self) -> str:
        """What `results.csv` calls it."""
        return f"curve.{self.column}"

    @property
    def name(self) -> str:
        """The column."""
        return self.column

    def read(self, run: Run) -> Any:
        """The list in this run's record; None where it has none."""
        return run.curve.get(self.column)


@dataclass(frozen=True)
class BestEpoch:
    """The epoch of the checkpoint `best`; the first epoch is 1."""

    @property
    def key(self) -> str:
        """What `results.csv` calls it."""
        return "best_epoch"

    @property
    def name(self) -> str:
        """The same."""
        return "best_epoch"

    def read(self, run: Run) -> Any:
        """The number; None where no best epoch was kept."""
        counted_from_0 = run.facts.get("best_epoch")
        return None if counted_from_0 is None else counted_from_0 + 1


Value = Score | Measured | Fact | EpochCurve | BestEpoch


def _inside(content: Any, keys: Iterable[str]) -> Any:
    """What is under these keys, one inside the other; None where there is nothing."""
    for key in keys:
        content = content.get(key) if isinstance(content, Mapping) else None
    return content


def fact(*keys: str) -> Fact:
    """`fact("bins", "train", "x")` reads `facts["bins"]["train"]["x"]`."""
    return Fact(keys)


def number(value: Value, run: Run | None) -> float | None:
    """A value as a number; None where the run is not finished or has none."""
    return None if run is None else as_type(value, run, float | None)


def as_type(value: Value, run: Run, expected: Any) -> Any:
    """A value that must be of this type; an InputError says which run has something else."""
    content = value.read(run)
    if problem := misfit(content, expected, value.key):
        raise InputError(
            f"the record cannot be shown ({problem})",
            where=f"run {run.id}",
            hint="Use the record that was written, or remove the run and compute it again",
            state="",
        )
    return content

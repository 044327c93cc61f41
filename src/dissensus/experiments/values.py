"""What a table, figure or claim reads from a run's record: typed references, never a path in a string."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dissensus.store.spec import Run

__all__ = [
    "EpochCurve",
    "Fact",
    "Measured",
    "Score",
    "fact",
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
        return run.scores.get(self.checkpoint, {}).get(self.calibration, {}).get(self.metric)


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
        content: Any = run.facts
        for key in self.keys:
            content = (content or {}).get(key)
        return content


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


Value = Score | Measured | Fact | EpochCurve


def fact(*keys: str) -> Fact:
    """`fact("bins", "train", "x")` reads `facts["bins"]["train"]["x"]`."""
    return Fact(keys)


def number(value: Value, run: Run | None) -> float | None:
    """A value as a number; None where the run is not finished or has none."""
    content = None if run is None else value.read(run)
    return None if content is None else float(content)

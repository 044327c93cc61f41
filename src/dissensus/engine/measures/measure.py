"""The Measure seam: what a measure is, and what it gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

from dissensus.datasets.data_ref import DataRef
from dissensus.store.ledger import Ledger
from dissensus.store.run_source import Arrays, RunSource
from dissensus.store.spec import Json

Tell = Callable[[int, int], None]
"""Called with the work done so far and the most that there may be. It may raise, to stop the work."""


@dataclass(frozen=True)
class MeasureResult:
    """What a table or figure shows is in `scores` and `facts`: reports are made from records, which have no arrays."""

    scores: Json
    facts: Json = field(default_factory=dict)
    arrays: dict[str, Arrays] = field(default_factory=dict)


class Measure(Protocol):
    """Something computed from finished runs: a frozen dataclass that is written into a spec, its fields its options.

    `runs` is how many runs it takes, None for one or more. `cheap` says that it reads records and stored predictions
    alone, so that it can be computed anew whenever it is shown.
    """

    runs: ClassVar[int | None] = 1
    cheap: ClassVar[bool] = False

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        """The result for these runs of the ledger. Long work calls `tell` as it goes."""
        ...

    def from_records(self, run_ids: tuple[str, ...], runs: RunSource) -> Json:
        """The scores that the records of these runs alone give: computed anew whenever they are shown."""
        return {}


def with_digests(measure: Measure, digest: Callable[[DataRef], str]) -> Measure:
    """The measure with the digest of every data set that it names filled in."""
    refs = {name: value for name, value in vars(measure).items() if isinstance(value, DataRef)}
    filled = {name: replace(ref, digest=digest(ref)) for name, ref in refs.items()}
    complete: Measure = replace(measure, **filled)  # type: ignore[type-var]
    return complete


def finite(value: float | None) -> float | None:
    """A number that JSON can hold: None where it is NaN or infinite."""
    return None if value is None or not math.isfinite(value) else float(value)


def series(values: Iterable[float]) -> list[float | None]:
    """The numbers of a curve, for JSON."""
    return [finite(float(value)) for value in values]

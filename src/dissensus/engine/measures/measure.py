"""What an analysis gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from dissensus.store.ledger import Ledger
from dissensus.store.run_source import Arrays
from dissensus.store.spec import Json, Spec

Outcome = tuple[Json, Json, dict[str, Arrays]]
"""Scores, facts, arrays. What a table or figure shows is in scores and facts: reports are made from records alone."""

Analysis = Callable[[Spec, Ledger], Outcome]

Tell = Callable[[int, int], None]
"""Told how much of the work is done, and of how much at most. It may raise, to end the work."""

LongAnalysis = Callable[[Spec, Ledger, Tell], Outcome]
"""One that takes minutes."""


def finite(value: float | None) -> float | None:
    """A number that JSON can hold: None where it is NaN or infinite."""
    return None if value is None or not math.isfinite(value) else float(value)


def series(values: Iterable[float]) -> list[float | None]:
    """The numbers of a curve, for JSON."""
    return [finite(float(value)) for value in values]

"""How a spec names data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DataRef:
    """A data set by name, with the options of `datasets.load`. `digest` is of the content; a plan fills it in.

    >>> DataRef("digits", (("votes", 5), ("seed", 1))) == DataRef("digits", (("seed", 1), ("votes", 5)))
    True
    """

    dataset: str
    options: tuple[tuple[str, Any], ...] = ()
    digest: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(sorted(self.options)))

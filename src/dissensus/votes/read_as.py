"""How a file of votes was understood: said before anything is done with it, and kept with the votes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ReadAs"]


@dataclass(frozen=True)
class ReadAs:
    """What a reader decided about a file.

    `columns` says which column (or field) was taken for what: {"item": "tweet_id", "label": "choice"}. `notes` are facts
    that the user should know ("12 rows without a label were skipped"); `warnings` are suspicions, each with the flag that
    settles it. `unnamed` says what the file has no names for: its "items" or its "classes" are then just numbered.

    >>> print(ReadAs("long table", {"item": "tweet_id", "label": "choice"}, ignored=("text",)))
    read as: long table, item=tweet_id, label=choice; ignored text
    """

    layout: str
    columns: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unnamed: tuple[str, ...] = ()

    def __str__(self) -> str:
        roles = "".join(f", {role}={column}" for role, column in self.columns.items())
        left_out = f"; ignored {_some(self.ignored)}" if self.ignored else ""
        return f"read as: {self.layout}{roles}{left_out}"

    def to_json(self) -> dict[str, Any]:
        """For JSON output and reports."""
        return {
            "layout": self.layout,
            "columns": dict(self.columns),
            "ignored": list(self.ignored),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }


def _some(names: tuple[str, ...], most: int = 12) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} others"

"""What the user says about a file of votes, and what is decided about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from dissensus.errors import InputError
from dissensus.votes.assembly import Duplicates
from dissensus.votes.tables import FileTable

Format = Literal["long", "counts", "wide"]
ReadFormat = Literal[Format, "transposed"]
LayoutKind = Literal["long", "counts", "wide", "lists", "ticks"]


@dataclass(frozen=True)
class Wanted:
    """What the user says about a file; None and () where it is left to the content."""

    format: ReadFormat | None = None
    items: str | None = None
    labels: str | None = None
    annotators: str | None = None
    count: str | None = None
    columns: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    classes: tuple[str, ...] | None = None
    drop_empty: bool = False
    duplicates: Duplicates = "error"

    def __post_init__(self) -> None:
        if self.format not in (None, *get_args(ReadFormat)):
            raise InputError(f"format {self.format!r} is not one of {', '.join(get_args(ReadFormat))}")
        if self.duplicates not in get_args(Duplicates):
            raise InputError(f"duplicates {self.duplicates!r} is not one of {', '.join(get_args(Duplicates))}")


@dataclass(frozen=True)
class Layout:
    """What was decided: the column of each role.

    `columns` are the classes of a table of counts or of rows with one tick, or the annotators of a wide table; where
    these are just numbered votes (`label1`), nobody knows who cast them: `anonymous`.
    """

    kind: LayoutKind
    item: str | None = None
    label: str | None = None
    annotator: str | None = None
    count: str | None = None
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    anonymous: bool = False
    separator: str | None = None  # of the votes in a cell, where they are joined
    transposed: bool = False  # a wide table with one row per annotator

    def ignored(self, table: FileTable) -> tuple[str, ...]:
        """The columns that are not used."""
        used = {self.item, self.label, self.annotator, self.count, *self.columns}
        return tuple(name for name in table.names if name not in used)


def check_format(layout: str | None) -> None:
    """Refuse a layout that does not exist."""
    if layout not in (None, *get_args(Format)):
        raise InputError(f"format {layout!r} is not one of {', '.join(get_args(Format))}")

"""What all readers of tables do with labels that are no votes, and with items that have none left."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dissensus.votes.decisions import Wanted
from dissensus.votes.names import label_name
from dissensus.votes.tables import FileTable
from dissensus.votes.votes import Ints

Names = tuple[str, ...]


def listed_classes(table: FileTable, wanted: Wanted) -> Names | None:
    """The classes that the user, the file or the file beside it lists."""
    return wanted.classes if wanted.classes is not None else table.classes


def is_missing(names: Names, wanted: Wanted) -> NDArray[np.bool_]:
    """[K]: whether a label means that there is no vote."""
    marks = {label_name(name) for name in wanted.missing}
    return np.array([name in wanted.missing or label_name(name) in marks for name in names], dtype=bool)


def without_items(item: Ints, items: Names) -> tuple[Ints, Names]:
    """Codes and names without the items that no code names any more."""
    occurring = np.bincount(item, minlength=len(items)) > 0
    new = np.cumsum(occurring) - 1
    return new[item], tuple(name for name, occurs in zip(items, occurring, strict=True) if occurs)


def skipped_notes(dropped: int, marked: int, items: int) -> list[str]:
    """What was left out, in words."""
    parts = [f"{dropped:,} rows without a label were skipped"] * bool(dropped)
    parts += [f"{marked:,} cells that --missing names are no votes"] * bool(marked)
    parts += [f"{items:,} items have no vote and were left out"] * bool(items)
    return parts

"""Cells in which the votes of several people are joined: `cat,dog,cat`. Nobody ticks a box twice; two people do."""

from __future__ import annotations

from collections.abc import Sequence

from dissensus.votes.delimited import CALLED

SEPARATORS = (",", ";", "|")
FEW_PARTS = 20


def parts_of(cell: str, separator: str) -> list[str]:
    """The votes of a cell."""
    return [part.strip() for part in cell.split(separator)]


def separator_of(cells: Sequence[str], people: Sequence[str] | None = None) -> str | None:
    """What joins the votes in cells (without empty ones); None where a cell is one vote.

    The parts are few and come again in other cells, some cell has the same part twice, and where the annotators are
    joined, too, there are as many of them.

    >>> separator_of(["cat,dog,cat", "dog,dog,dog", "cat,cat,dog"]), separator_of(["cat,dog", "dog", "cat"])
    (',', None)
    """
    for separator in SEPARATORS:
        if sum(separator in cell for cell in cells) < 0.5 * len(cells):
            continue
        split = [parts_of(cell, separator) for cell in cells]
        distinct = {part for parts in split for part in parts}
        if "" in distinct or len(distinct) > max(FEW_PARTS, len(cells) / 10) or len(distinct) > len(cells):
            continue
        twice = any(len(set(parts)) < len(parts) for parts in split)
        alike = people is None or [len(parts) for parts in split] == [len(parts_of(names, separator)) for names in people]
        if alike and (twice or people is not None):
            return separator
    return None


def joined_by(separator: str, column: str) -> str:
    """What is said about such a column."""
    return f"the cells of {column!r} hold several votes each, separated by {CALLED[separator]}"

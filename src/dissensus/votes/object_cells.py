"""What objects of whole numbers are: `{"cat": 2, "dog": 1}` counts classes, `{"ann": 2, "bob": 1}` who chose what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from dissensus.votes.evidence import FEW_ROWS, LONGEST_SCALE, MANY_ROWS, counts_or_ratings
from dissensus.votes.roles import looks_like_person

Meaning = Literal["counts", "people"]


def meaning_of(objects: Sequence[Mapping[str, float]]) -> tuple[Meaning | None, str]:
    """What objects of whole numbers map, and why; None where the evidence is thin. Entries without a value are left out.

    >>> meaning_of([{"cat": 2, "dog": 1}, {"cat": 3}, {"dog": 3}, {"dog": 1, "bird": 2}])
    ('counts', 'the numbers of every item sum to 3')
    """
    objects = [cell for cell in objects if cell]
    names = list(dict.fromkeys(name for cell in objects for name in cell))
    if all(map(looks_like_person, names)):
        return "people", "the names are those of people"
    sums = [sum(cell.values()) for cell in objects]
    sizes = {len(cell) for cell in objects}
    if min(sums) == max(sums):
        return "counts", f"the numbers of every item sum to {sums[0]:g}"
    if len(objects) < FEW_ROWS or max(max(cell.values()) for cell in objects) > LONGEST_SCALE:
        return "counts", f"no scale of ratings goes beyond {LONGEST_SCALE - 1}"
    if sizes == {len(names)} or not any(0 in cell.values() for cell in objects):
        matrix = np.array([[float(cell.get(name, 0)) for name in names] for cell in objects])
        kind, reason = counts_or_ratings(matrix)
        if kind == "counts":
            return "counts", reason
        if kind == "wide" and sizes == {len(names)}:
            return "people", reason
    if len(sizes) == 1 and sizes != {len(names)} and sizes != {1} and len(objects) >= MANY_ROWS:
        return "people", f"there are {sizes.pop()} per item, with different sums"
    return None, f"the numbers of an item sum to {min(sums):g} to {max(sums):g}"

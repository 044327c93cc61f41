"""A toy encoder, and texts to encode with it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dissensus.models.encoders import Name

TEXTS = ["a", "banana", "kiwi", "a", "aa", "papaya", "fig", "date"]
VECTORS = [[len(text), text.count("a")] for text in TEXTS]
IDS = [f"item {number}" for number in range(len(TEXTS))]


class Toy:
    """A text becomes (length, number of a's); remembers what it was asked, and breaks where it is told to."""

    reads = "texts"
    batch = 3

    def __init__(self, name: Name) -> None:
        self.provenance = {"encoder": str(Name(name.family, name.model)), "version": "1"}
        self.asked: list[list[str]] = []
        self.breaks_after = math.inf

    def __call__(self, items: Sequence[str]) -> np.ndarray:
        if len(self.asked) >= self.breaks_after:
            raise KeyboardInterrupt
        self.asked.append(list(items))
        return np.array([[len(text), text.count("a")] for text in items], dtype=np.float32)

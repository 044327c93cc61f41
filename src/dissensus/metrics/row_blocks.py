"""Matrices [N, K] read a block of rows at a time: what is made on the way stays in the processor's cache, and no second
matrix of their size is ever made.

Whoever walks over blocks does so on one thread (`metrics.threads`): a block is too small to share, and on a busy machine
two threads take six times as long as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

NUMBERS = 2**16
"""Of one block: half a megabyte in float64."""

Progress = Callable[[str, int, int], None]
"""(what is being done, items done, items in all)"""


class Rows(Protocol):
    """A tensor [N, K], or something that makes the rows of one when they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, K)."""

    def __getitem__(self, rows: slice, /) -> Tensor:
        """These rows."""


def blocks(shape: tuple[int, ...], numbers: int | None = None) -> Iterator[slice]:
    """Slices of the rows of a matrix, in order; each has at most `numbers` numbers, or one row.

    >>> list(blocks((5, 10), numbers=20))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    items, columns = shape
    rows = max(1, (NUMBERS if numbers is None else numbers) // max(1, columns))
    for first in range(0, items, rows):
        yield slice(first, min(first + rows, items))


@dataclass(frozen=True, eq=False)
class LogProbs:
    """Normalised log-probabilities, float64 [N, K], of logits [N, K] over one divisor per item [N], or none."""

    logits: Tensor
    divisor: Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, K)."""
        return tuple(self.logits.shape)

    def __getitem__(self, rows: slice, /) -> Tensor:
        logits = self.logits[rows].detach().to("cpu", torch.float64)
        return log_softmax(logits if self.divisor is None else logits / self.divisor[rows, None])


def log_softmax(logits: Tensor) -> Tensor:
    """As `torch.log_softmax(logits, 1)`, which is six times slower on a few classes in float64."""
    shifted = logits - logits.amax(1, keepdim=True)
    return shifted.sub_(shifted.exp().sum(1, keepdim=True).log_())


def silent(stage: str, done: int, total: int) -> None:
    """Show no progress."""

"""What `score` accepts beside tensors: NumPy arrays, data frames, and votes."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from dissensus.errors import InputError
from dissensus.metrics.row_blocks import Rows

ArrayInput = Tensor | ArrayLike


@runtime_checkable
class CountedVotes(Protocol):
    """Votes, seen from here: this package knows nothing of how they are read."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many people chose each class [N, K]."""
        ...

    @property
    def soft(self) -> NDArray[np.float64]:
        """The share of each class [N, K]."""
        ...


def as_rows(values: Any) -> Rows:
    """A matrix that can be read by blocks of rows: as it is where it makes them on demand, else as a tensor."""
    on_demand = not isinstance(values, Tensor) and hasattr(values, "shape") and not hasattr(values, "__array__")
    rows: Rows = values if on_demand else as_tensor(values)
    return rows


def as_tensor(values: Any) -> Tensor:
    """The same numbers as a tensor; what holds no numbers is refused.

    >>> as_tensor([[0.5, 0.5]])
    tensor([[0.5000, 0.5000]], dtype=torch.float64)
    """
    if isinstance(values, Tensor):
        return values
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{array.dtype} values are not numbers", where="score", state="")
    return torch.tensor(array)

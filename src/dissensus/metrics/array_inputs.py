"""What `score` accepts beside tensors: NumPy arrays, data frames, and votes."""

from __future__ import annotations

from collections.abc import Sequence
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


def by_name(values: Any, like: Any, what: str) -> Any:
    """A data frame with its rows and columns in the order of `like`, votes or another data frame; all else as it is.

    Columns must be the same classes, unless one side just numbers them. `rows_by_name` says which row is which item.
    """
    if not hasattr(values, "columns") or not hasattr(values, "index"):
        return values
    classes, ids = (getattr(like, "classes", None), getattr(like, "items", None))
    if hasattr(like, "columns") and hasattr(like, "index"):
        classes, ids = _names(like.columns), _names(like.index)
    columns = _names(values.columns)
    if classes is not None and len(columns) == len(classes):
        if set(columns) == set(classes):
            values = values.iloc[:, [columns.index(name) for name in classes]]
        elif not _numbered(columns) and not _numbered(list(classes)):
            odd = next(name for name in columns if name not in set(classes))
            raise InputError(f"the column {odd!r} is not one of the classes ({', '.join(classes)})", where=what, state="")
    order = None if ids is None else rows_by_name(values, ids, what)
    return values if order is None else values.iloc[order]


def rows_by_name(frame: Any, ids: Sequence[str], what: str) -> list[int] | None:
    """Which row of a data frame each item is, by the frame's index; None where they come in the same order.

    An index that just numbers the rows, or a part of them, names no items; nor do items that are just numbered. Refused
    where names differ.
    """
    rows = _names(frame.index)
    if rows == list(ids) or len(rows) != len(ids):  # who needs as many rows says so
        return None
    place = {name: row for row, name in enumerate(rows)}
    both = sum(name in place for name in ids)
    if len(place) == len(rows) == both:
        return [place[name] for name in ids]
    numbered = frame.index.dtype.kind in "iu" or _numbered(list(ids))
    if _numbered(rows) or (not both and numbered):
        return None
    raise InputError(
        f"the index names {both:,} of the {len(ids):,} items ({_shown(ids)}), and the others not ({_shown(rows)})",
        where=what,
        hint="Name the rows as the items, or pass the frame's to_numpy() to match them by order",
        state="",
    )


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:2]) + (", …" if len(names) > 2 else "")


def _names(labels: Any) -> list[str]:
    return [str(int(name)) if isinstance(name, float) and name.is_integer() else str(name) for name in labels]


def _numbered(names: list[str]) -> bool:
    return names == [str(index) for index in range(len(names))]


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

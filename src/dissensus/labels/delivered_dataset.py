"""Any map-style dataset of PyTorch, with the labels of the current epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from dissensus.errors import InputError
from dissensus.labels.delivery import Labels

Combine = Callable[[Any, Tensor], Any]
"""(an item of the base dataset, its label) -> what the DataLoader gets"""


class DeliveredDataset(Dataset[Any]):
    """The items of `base` with the labels of the current epoch; call `set_epoch(epoch)` before each epoch.

    `base` is any map-style dataset, `labels` what `soft`, `sampled` or `multipass` gave for the same items in the same
    order. An item of `base` may be the input x, a tuple (x,), a pair (x, old label), or a dictionary: out come
    (x, label), or the dictionary with the label as "labels". For anything else pass `combine(item, label)`.

    The epoch lies in shared memory: workers of a DataLoader see it too, also those that live on
    (`persistent_workers=True`). A change takes effect at once, so change it between epochs.
    """

    def __init__(self, base: Dataset[Any] | Sequence[Any], labels: Labels, *, combine: Combine | None = None) -> None:
        self.base, self.labels, self.combine = base, labels, combine or with_label
        items, labelled = len(base), len(labels(0))  # type: ignore[arg-type]  # map-style datasets have a length
        if items != labelled:
            raise InputError(
                f"{items:,} items in the dataset, and labels for {labelled:,}",
                where="labels",
                hint="Make both of the same items in the same order; `rows=` of a delivery selects some",
                state="",
            )
        self._epoch = torch.zeros((), dtype=torch.int64)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]
        self._current: tuple[int, Tensor] | None = None

    @property
    def epoch(self) -> int:
        """The epoch whose labels are given."""
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Give the labels of this epoch from now on, in all workers."""
        if epoch < 0:
            raise InputError(f"there is no epoch {epoch}", where="set_epoch", hint="Count from 0", state="")
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self.base)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        return self.combine(self.base[index], self._labels_now()[index])

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """A whole batch: bases that fetch many items at once (those of Hugging Face) are asked once."""
        fetch = getattr(self.base, "__getitems__", None)
        items = [self.base[index] for index in indices] if fetch is None else fetch(indices)
        labels = self._labels_now()
        return [self.combine(item, labels[index]) for item, index in zip(items, indices, strict=True)]

    def __getstate__(self) -> dict[str, Any]:  # the labels of an epoch are made again where they are needed
        return {**self.__dict__, "_current": None}

    def _labels_now(self) -> Tensor:
        epoch = int(self._epoch)
        if self._current is None or self._current[0] != epoch:
            self._current = epoch, self.labels(epoch)
        return self._current[1]


def with_label(item: Any, label: Tensor) -> Any:
    """An item of a base dataset with its label, or its label replaced: what `DeliveredDataset` gives by default."""
    if isinstance(item, Mapping):
        return {**item, "labels": label}
    if not isinstance(item, (tuple, list)):
        return item, label
    if len(item) > 2:
        raise InputError(
            f"an item of the dataset has {len(item)} parts, and it is not clear which is the label",
            where="dataset",
            hint="Pass `combine=lambda item, label: …` to put the label where it belongs",
            state="",
        )
    return item[0], label

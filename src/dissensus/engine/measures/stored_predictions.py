"""What a run stored of its predictions for the items it held out, beside what people said of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dissensus import metrics
from dissensus.errors import InputError
from dissensus.models.predictions import Predictions
from dissensus.store.ledger import Ledger
from dissensus.store.run_source import check_predictions


@dataclass(frozen=True, eq=False)
class StoredPredictions:
    """Of one checkpoint: `rows` of the data [N], `logits` and shares of votes `people` [N, K], `labels` and `ids` [N]."""

    checkpoint: str
    rows: Tensor
    logits: Tensor
    people: Tensor
    labels: Tensor
    ids: NDArray[np.str_]

    @classmethod
    def read(cls, run_id: str, ledger: Ledger, checkpoint: str) -> StoredPredictions:
        """Of the run's checkpoint; a run that kept none is refused."""
        arrays = ledger.predictions(run_id, checkpoint)
        if arrays is None:
            raise InputError(
                f"the predictions of run {run_id} were not kept",
                where=str(ledger.folder),
                hint="Remove its folder and run it again",
            )
        check_predictions(arrays, run_id)
        rows, logits, people, labels = (torch.from_numpy(arrays[name]) for name in ("rows", "logits", "people", "labels"))
        return cls(checkpoint, rows, logits, people, labels, arrays["ids"])

    @cached_property
    def log_probs(self) -> Tensor:
        """Normalised, float64 [N, K]."""
        return Predictions(self.logits).log_probs

    @cached_property
    def kl(self) -> Tensor:
        """From people to the run, per item."""
        return metrics.kl(self.log_probs, self.people)

    @property
    def high_disagreement(self) -> Tensor:
        """Whether vote entropy is in the highest tenth, bool [N]."""
        return metrics.high_disagreement(self.people)

    @property
    def one_winner(self) -> Tensor:
        """Whether one class has the most votes, bool [N]."""
        return (self.people == self.people.max(1, keepdim=True).values).sum(1) == 1

    def top(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Confidence, and whether the most probable class is this one, per item."""
        return metrics.top_label(self.log_probs, labels)

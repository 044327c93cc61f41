"""What people said, without any model: how many voted, how far they disagree, and on what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from dissensus import metrics
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell
from dissensus.engine.setup import loaded
from dissensus.errors import InputError
from dissensus.labels.targets import ties
from dissensus.store.ledger import Ledger

BINS = 20
"""Of the histogram of normalised entropies, from 0 to 1."""


@dataclass(frozen=True)
class VoteStatistics(Measure):
    """Of a data set: sizes, the normalised entropy of its items' votes, and its least and most disputed item."""

    data: DataRef

    runs: ClassVar[int | None] = 0

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        data = loaded(self.data)
        if data.counts is None:
            raise InputError("these data have no votes to count", where=data.name, state="")
        entropy = metrics.normalised_entropy(data.people).numpy()
        tied = ties(data, torch.arange(len(data)))
        scores = {
            "classes": len(data.classes),
            "items": len(data),
            "votes_per_item": float(data.counts.sum(1).double().mean()),
            "normalised_entropy": float(entropy.mean()),
            "normalised_entropy_sd": float(entropy.std(ddof=1)) if len(entropy) > 1 else None,
            "unanimous": float((entropy == 0).mean()),
            "tied": tied / len(data),
        }
        items_per_bin, edges = np.histogram(entropy, bins=BINS, range=(0.0, 1.0))
        histogram = {"x": ((edges[:-1] + edges[1:]) / 2).tolist(), "y": (items_per_bin / len(entropy)).tolist()}
        disputed = np.flatnonzero(entropy > 0)
        if not len(disputed):
            raise InputError(
                "people agree on every item", where=data.name, hint="Use data on which they differ", state=""
            )
        extremes = {
            "near consensus": int(disputed[np.argmin(entropy[disputed])]),
            "most disputed": int(np.argmax(entropy)),
        }
        examples = [
            {
                "name": f"{data.name}, item {data.ids[row]}",
                "said": f"{label}: normalised entropy {entropy[row]:.2f} of {int(data.counts[row].sum())} votes",
                "classes": list(data.classes),
                "shares": {"People": data.people[row].tolist()},
            }
            for label, row in extremes.items()
        ]
        return MeasureResult(scores, {"entropies": histogram, "examples": examples, "notes": list(data.notes)})

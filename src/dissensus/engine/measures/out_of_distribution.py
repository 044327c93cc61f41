"""Can a run tell images from elsewhere from those it was made for?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from dissensus import metrics
from dissensus.datasets.data import Data
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures.finished_run import FinishedRun, at_most
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell
from dissensus.engine.setup import loaded
from dissensus.errors import InputError
from dissensus.probes.detectors import DETECTORS, DetectorInput
from dissensus.store.ledger import Ledger
from dissensus.training import evaluate


@dataclass(frozen=True)
class OutOfDistribution(Measure):
    """AUROC of every detector: the items that a run held out against those of another data set.

    `items` caps how many images of `data` are used, drawn by the run's seed. `neighbour` is the k of `knn`, among the
    training items.
    """

    data: DataRef
    checkpoint: str = "last"
    items: int | None = None
    neighbour: int = 50

    spec_name: ClassVar[str] = "ood"

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        (run_id,) = run_ids
        run = FinishedRun.load(run_id, ledger, self.checkpoint)
        inside = run.x(run.setup.held_out)
        outside, images = images_like(inside, self.data)
        chosen = at_most(torch.arange(len(outside)), self.items, run.seed)
        train_features = run.features(run.setup.train, "knn")
        inputs = [
            DetectorInput(run.model, x, evaluate.predict(run.model, x), train_features, self.neighbour)
            for x in (inside, images[chosen].to(inside.device))
        ]
        scores = {f"auroc_{name}": metrics.auroc(*map(detect, inputs)) for name, detect in DETECTORS.items()}
        facts = {
            "checkpoint": run.checkpoint,
            "outside": outside.name,
            "items": {"evaluation": len(inside), "outside": len(chosen), "train": len(run.setup.train)},
            "notes": list(outside.notes),
        }
        return MeasureResult(scores, facts)


def images_like(inside: Tensor, ref: DataRef) -> tuple[Data, Tensor]:
    """A data set, and its images; those of another size than `inside` are refused."""
    outside = loaded(ref)
    if outside.x is None:
        raise InputError("it has no images to compare with", where=outside.name, state="")
    if inside.shape[1:] != outside.x.shape[1:]:
        raise InputError(
            f"its images are {list(outside.x.shape[1:])}, those of the run {list(inside.shape[1:])}",
            where=outside.name,
            hint="Compare images of one size",
            state="",
        )
    return outside, outside.x

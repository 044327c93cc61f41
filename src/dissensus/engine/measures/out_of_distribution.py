"""Can a run tell images from elsewhere from those it was made for? (003, tables 7 to 9)"""

from __future__ import annotations

import torch

from dissensus import metrics
from dissensus.engine.measures.finished_run import Subject, at_most
from dissensus.engine.measures.measure import Analysis, Outcome
from dissensus.engine.setup import loaded
from dissensus.errors import InputError
from dissensus.probes.detectors import DETECTORS, Scene
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json, Spec
from dissensus.training import evaluate


def out_of_distribution(
    of: str,
    data: Json,
    checkpoint: str = "last",
    *,
    items: int | None = None,
    neighbour: int = 50,
) -> Spec:
    """Measure: AUROC of every detector of `ood`, the items that a run held out against those of another data set.

    `data` says which: {"name", "options", "digest"}, as specs name data. `items` caps how many of its images are used,
    drawn by the run's seed. `neighbour` is the k of `knn`, among the training items.
    """
    settings = {
        "name": "ood",
        "data": data,
        "checkpoint": checkpoint,
        "items": items,
        "neighbour": neighbour,
    }
    return Spec("measure", settings, {"of": (of,)})


def _out_of_distribution(spec: Spec, ledger: Ledger) -> Outcome:
    asked, subject = spec.settings, Subject.of(spec.inputs["of"][0], ledger, spec.settings["checkpoint"])
    outside, stage = loaded(asked["data"]), subject.stage
    assert outside.x is not None
    inside = subject.x(stage.held_out)
    if inside.shape[1:] != outside.x.shape[1:]:
        raise InputError(
            f"its images are {list(outside.x.shape[1:])}, those of the run {list(inside.shape[1:])}",
            where=outside.name,
            hint="Compare images of one size",
            state="",
        )
    chosen = at_most(torch.arange(len(outside)), asked["items"], subject.seed)
    train_features = subject.features(stage.train)
    scenes = [
        Scene(subject.model, x, evaluate.predict(subject.model, x), train_features, asked["neighbour"])
        for x in (inside, outside.x[chosen].to(inside.device))
    ]
    scores = {f"auroc_{name}": metrics.auroc(*map(detect, scenes)) for name, detect in DETECTORS.items()}
    facts = {
        "checkpoint": subject.checkpoint,
        "outside": outside.name,
        "items": {"evaluation": len(inside), "outside": len(chosen), "train": len(stage.train)},
        "notes": list(outside.notes),
    }
    return scores, facts, {}


ANALYSES: dict[str, Analysis] = {"ood": _out_of_distribution}

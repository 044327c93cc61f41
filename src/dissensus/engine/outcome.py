"""From a trained network to what its run records: the same for a run of its own and for a member of a stack."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from dissensus.engine import judging
from dissensus.engine.setup import Stage, disputed
from dissensus.labels.targets import ties
from dissensus.models import Model
from dissensus.store.encoding import encode
from dissensus.store.ledger import GALLERY, predictions_name
from dissensus.store.run_source import Arrays
from dissensus.store.spec import Json
from dissensus.training import evaluate
from dissensus.training.distributed import ALONE, Group

PICTURES = 12  # how many of the most disputed evaluation items a run keeps the pictures of

Weights = dict[str, Tensor]
Curve = dict[str, list[float | None]]


@dataclass(frozen=True)
class Outcome:
    """All of a run but its spec. `how` joins the provenance."""

    scores: Json
    facts: Json
    arrays: dict[str, Arrays]
    curve: Curve = field(default_factory=dict)
    weights: dict[str, Weights] = field(default_factory=dict)
    how: Json = field(default_factory=dict)


def versions() -> Json:
    """What this was computed with."""
    return {
        "dissensus": importlib.metadata.version("dissensus"),
        "python": platform.python_version(),
        "torch": str(torch.__version__),  # it is of a class of its own, which a checkpoint cannot hold
        "numpy": np.__version__,
        "threads": torch.get_num_threads(),
    }


def concluded(
    stage: Stage,
    model: Model,
    weights: Mapping[str, Weights],
    curve: Curve,
    best_epoch: int | None,
    flops: int,
    how: Json,
    group: Group = ALONE,
) -> Outcome:
    """Judge every checkpoint on the items that were held out. `model` is borrowed, and left with some of the weights."""
    data, held_out = stage.data, stage.held_out
    facts = {
        "items": {"train": len(stage.train), "evaluation": len(held_out)},
        "classes": list(data.classes),
        "gold": "given" if data.has_gold else "majority",
        "ties": ties(stage.seen(), stage.train) if data.votes is not None else None,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training_flops": flops,
        "epochs": len(curve["train_loss"]),
        "best_epoch": best_epoch,
        "notes": list(data.notes),
    }
    if stage.recipe.chosen is not None:
        facts["chosen"] = {name: encode(getattr(stage.recipe, name)) for name in stage.recipe.chosen.fields}
    if stage.recipe.keep == "curve":
        return Outcome({}, facts, {}, curve, {}, how)
    scores, temperatures = {}, {}
    arrays: dict[str, Arrays] = {}
    x = stage.x(held_out).to(next(model.parameters()).device)
    for checkpoint, state in weights.items():
        model.load_state_dict(state)
        predictions = evaluate.predict(model, x, group=group)
        scores[checkpoint], temperatures[checkpoint] = judging.judge(predictions, data, held_out, stage.seed)
        arrays[predictions_name(checkpoint)] = judging.record(predictions, data, held_out)
    if x.ndim == 4:
        most = disputed(data, held_out, PICTURES)
        arrays[GALLERY] = {"rows": most.numpy(), "x": stage.x(most).numpy()}
    return Outcome(scores, {**facts, "temperatures": temperatures}, arrays, curve, dict(weights), how)

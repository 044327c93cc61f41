"""From a trained network to what its run records: the same for a run alone and for a member of a stack."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from dissensus.engine import judging
from dissensus.engine.setup import TrainingSetup, disputed
from dissensus.labels.targets import ties
from dissensus.models import Model
from dissensus.store.encoding import encode
from dissensus.store.ledger import GALLERY, predictions_name
from dissensus.store.run_source import Arrays
from dissensus.store.spec import Json, Run, Spec
from dissensus.training import evaluate
from dissensus.training.distributed import ALONE, Group
from dissensus.training.precision import instruction_set

PICTURES = 12  # how many of the most disputed evaluation items a run keeps the pictures of

Weights = dict[str, Tensor]
Curve = dict[str, list[float | None]]


@dataclass(frozen=True)
class RunResult:
    """All of a run but its spec. `conditions` (device, layout, …) join the versions in its provenance."""

    scores: Json
    facts: Json
    arrays: dict[str, Arrays]
    curve: Curve = field(default_factory=dict)
    weights: dict[str, Weights] = field(default_factory=dict)
    conditions: Json = field(default_factory=dict)

    def as_run(self, spec: Spec, seconds: float) -> Run:
        """The record of the run, which took so long."""
        provenance = {**versions(), **self.conditions, "seconds": round(seconds, 3)}
        return Run(spec, self.scores, self.curve, self.facts, provenance)


def versions() -> Json:
    """The software that computes here, its threads and the processor's instructions."""
    return {
        "dissensus": importlib.metadata.version("dissensus"),
        "python": platform.python_version(),
        "torch": str(torch.__version__),  # it is of a class of its own, which a checkpoint cannot hold
        "numpy": np.__version__,
        "threads": torch.get_num_threads(),
        "instructions": instruction_set(),
    }


def training_result(
    setup: TrainingSetup,
    model: Model,
    weights: Mapping[str, Weights],
    curve: Curve,
    best_epoch: int | None,
    flops: int,
    conditions: Json,
    group: Group = ALONE,
) -> RunResult:
    """Judge every checkpoint on the items that were held out. `model` ends with the weights of one of them."""
    data, held_out = setup.data, setup.held_out
    facts = {
        "items": {"train": len(setup.train), "evaluation": len(held_out)},
        "classes": list(data.classes),
        "gold": "given" if data.has_gold else "majority",
        "ties": ties(setup.seen(), setup.train) if data.votes is not None else None,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training_flops": flops,
        "epochs": len(curve["train_loss"]),
        "best_epoch": best_epoch,
        "notes": list(data.notes),
    }
    if not data.voted:
        facts["voted"] = False
    if setup.recipe.chosen is not None:
        facts["chosen"] = {name: encode(getattr(setup.recipe, name)) for name in setup.recipe.chosen.fields}
    keep = setup.recipe.keep
    if keep == "curve" or (keep == "best" and "best" not in weights):  # the second diverged from its first epoch on
        return RunResult({}, facts, {}, curve, {}, conditions)
    ended = all(values[-1] is not None for values in curve.values())  # else it diverged after its best epoch
    if (keep == "scores" and "best" in weights) or (keep == "best" and not ended):
        weights = {"best": weights["best"]}
    scores, temperatures = {}, {}
    arrays: dict[str, Arrays] = {}
    x = setup.x(held_out).to(next(model.parameters()).device)
    for checkpoint, state in weights.items():
        model.load_state_dict(state)
        predictions = evaluate.predict(model, x, group=group)
        scores[checkpoint], temperatures[checkpoint] = judging.judge(predictions, data, held_out, setup.seed)
        arrays[predictions_name(checkpoint)] = judging.record(predictions, data, held_out)
    if x.ndim == 4 and data.voted:
        most = disputed(data, held_out, PICTURES)
        arrays[GALLERY] = {"rows": most.numpy(), "x": setup.x(most).numpy()}
    kept_weights = {
        checkpoint: state for checkpoint, state in weights.items() if keep == "all" or keep == checkpoint == "best"
    }
    return RunResult(scores, {**facts, "temperatures": temperatures}, arrays, curve, kept_weights, conditions)

"""Many specs, computed in one call: heads on the same frozen features are trained stacked (002).

Each is still a run of its own in the ledger, with the numbers it would have got alone to within rounding.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator, Sequence

import torch

from dissensus import metrics
from dissensus.engine.outcome import Curve, Outcome, concluded, versions
from dissensus.engine.setup import Stage
from dissensus.labels.delivery import Labels
from dissensus.labels.targets import Target
from dissensus.models import Mlp
from dissensus.models.flops import training_flops
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json, Run, Spec, canonical
from dissensus.training import stacked
from dissensus.training.recipe import Recipe

GroupProgress = Callable[[int, int], None]
"""(epochs done, epochs in all), summed over the group. It may raise, and then nothing more is published."""


def alike(spec: Spec) -> Hashable | None:
    """Specs with the same key can be computed in one call; None is one that needs a call of its own."""
    if spec.kind != "train" or stacked.why_not_stacked(Recipe.of(spec.settings)):
        return None
    return canonical([spec.settings["data"], spec.settings["model"]])


def execute_stacked(
    specs: Sequence[Spec],
    ledger: Ledger,
    threads: int | None = None,
    progress: GroupProgress = lambda done, of: None,  # noqa: ARG005
) -> Iterator[Run]:
    """Train specs of one key in one stack; each is published, and given, as soon as it is judged."""
    if threads is not None:
        torch.set_num_threads(threads)
    started = time.perf_counter()
    stages = [Stage.of(spec, ledger) for spec in specs]
    data, head = stages[0].data, stages[0].recipe.model
    assert isinstance(head, Mlp)
    assert data.x is not None
    wanted = _Wanted(ledger)
    members = [wanted.member(stage) for stage in stages]
    keep: list[stacked.Checkpoint] = ["last", "best"] if any(stage.recipe.keep == "all" for stage in stages) else []
    trained = stacked.fit(
        data.x, members, head=head, classes=len(data.classes), keep=keep, share_prefixes=True, progress=progress
    )
    seconds = time.perf_counter() - started
    for spec, stage, one in zip(specs, stages, trained, strict=True):
        began = time.perf_counter()
        outcome = _outcome(stage, one, len(specs))
        took = seconds / len(specs) + time.perf_counter() - began
        run = Run(
            spec, outcome.scores, outcome.curve, outcome.facts, {**versions(), **outcome.how, "seconds": round(took, 3)}
        )
        ledger.publish(run, outcome.arrays, outcome.weights)
        yield run


class _Wanted:
    """Members as their stages ask for them. Those that ask for the same get the very same tensors, to share work by."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._labels: dict[str, Labels] = {}
        self._targets: dict[str, Target] = {}
        self._monitors: dict[str, dict[str, stacked.Monitor]] = {}
        self._rows: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def member(self, stage: Stage) -> stacked.Member:
        recipe, spec = stage.recipe, stage.recipe.spec(stage.data, stage.seed).settings
        assert stage.validation is not None
        split = _key(spec, "split", "validation", "seed")
        train, validation = self._rows.setdefault(split, (stage.train, stage.validation))
        seen = split + _key(spec, "target", "votes")
        said = seen + _key(spec, "delivery")
        if said not in self._labels:
            self._labels[said] = recipe.delivery.labels(stage.target(train, self._ledger), stage.seed)
        if seen not in self._targets:
            self._targets[seen] = stage.target(validation, self._ledger)
        watched = seen + _key(spec, "monitored", "keep")
        if watched not in self._monitors:
            parts = dict(stage.monitored()) or ({"evaluation": stage.held_out} if recipe.keep == "all" else {})
            self._monitors[watched] = {
                part: stacked.Monitor(rows, stage.target(rows, self._ledger).probs, *stage.judged_by(rows))
                for part, rows in parts.items()
            }
        return stacked.Member(
            stage.seed,
            train,
            validation,
            self._labels[said],
            self._targets[seen].probs,
            recipe.optimiser,
            recipe.schedule,
            recipe.stopping,
            recipe.epochs,
            recipe.batch,
            self._monitors[watched],
        )


def _outcome(stage: Stage, one: stacked.Trained, company: int) -> Outcome:
    model = stage.model()
    weights = {
        name: one.weights[name] for name in ("last", *(["best"] if stage.recipe.best else [])) if name in one.weights
    }
    flops = training_flops(model, tuple(stage.x(stage.train).shape[1:]), len(stage.train) * stage.recipe.epochs)
    how = {"device": "cpu", "channels_last": False, "compiled": False, "stacked": company}
    best_epoch = one.best_epoch if stage.recipe.best else None
    return concluded(stage, model, weights, _curve(stage, one), best_epoch, flops, how)


def _curve(stage: Stage, one: stacked.Trained) -> Curve:
    """The columns that a run of its own has; what is not finite is None."""
    columns = dict(one.curve)
    if "evaluation" in one.monitored:
        people, _ = stage.judged_by(stage.held_out)
        doubt = float(metrics.entropy(people).mean())
        columns["soft_nll"] = [kl + doubt for kl in one.monitored["evaluation"]["kl"]]
        columns["accuracy"] = one.monitored["evaluation"]["accuracy"]
    for part, _ in stage.monitored():
        columns.update((f"{name}_on_{part}", values) for name, values in one.monitored[part].items())
    return {name: [value if math.isfinite(value) else None for value in values] for name, values in columns.items()}


def _key(settings: Json, *names: str) -> str:
    return canonical([settings[name] for name in names])

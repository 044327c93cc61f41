"""Many specs, computed in one call: heads on the same frozen features are trained as one stack.

Each is still a run of its own in the ledger, with the numbers it would have got alone, to within rounding.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterator, Sequence

import torch

from dissensus import metrics
from dissensus.engine.divergence import DivergedError, refuse_divergence, refuse_explosion
from dissensus.engine.run_result import Curve, RunResult, training_result
from dissensus.engine.setup import TrainingSetup
from dissensus.labels.delivery import Labels
from dissensus.labels.targets import Target
from dissensus.models import Mlp
from dissensus.models.flops import training_flops
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json, Run, Spec, canonical
from dissensus.training import stacked
from dissensus.training.recipe import Recipe


def stack_key(spec: Spec) -> Hashable | None:
    """Specs with the same key can be trained in one stack; None is one that is computed alone."""
    if spec.kind != "train" or stacked.why_not_stacked(Recipe.of(spec.settings)):
        return None
    return canonical([spec.settings["data"], spec.settings["model"]])


def execute_stacked(
    specs: Sequence[Spec],
    ledger: Ledger,
    threads: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005
    diverged: Callable[[Spec, DivergedError], None] = lambda spec, error: None,  # noqa: ARG005
) -> Iterator[Run]:
    """Train specs of one key in one stack; each is published, and yielded, as soon as it is judged. `diverged` is told of
    those that have no result.

    `progress` gets the epochs done and the epochs in all, summed over the stack. Where it raises, nothing more is
    published.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    started = time.perf_counter()
    setups = [TrainingSetup.of(spec, ledger) for spec in specs]
    data, head = setups[0].data, setups[0].recipe.model
    assert isinstance(head, Mlp)
    assert data.x is not None
    factory = _MemberFactory(ledger)
    members = [factory.member(setup) for setup in setups]
    keep: list[stacked.Checkpoint] = ["last", "best"] if any(setup.recipe.keep != "curve" for setup in setups) else []
    trained = stacked.fit(
        data.x, members, head=head, classes=len(data.classes), keep=keep, share_prefixes=True, progress=progress
    )
    training_seconds = (time.perf_counter() - started) / len(specs)
    for spec, setup, member in zip(specs, setups, trained, strict=True):
        began = time.perf_counter()
        try:
            result = _result(setup, member, len(specs))
        except DivergedError as error:
            diverged(spec, error)
            continue
        run = result.as_run(spec, training_seconds + time.perf_counter() - began)
        ledger.publish(run, result.arrays, result.weights)
        yield run


class _MemberFactory:
    """Makes the members of a stack. Those that need the same data get the very same tensors, so that work is shared."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._labels: dict[str, Labels] = {}
        self._targets: dict[str, Target] = {}
        self._monitors: dict[str, dict[str, stacked.Monitor]] = {}
        self._rows: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def member(self, setup: TrainingSetup) -> stacked.Member:
        recipe, settings = setup.recipe, setup.recipe.spec(setup.data, setup.seed).settings
        assert setup.validation is not None
        split = _key(settings, "split", "validation", "seed")
        train, validation = self._rows.setdefault(split, (setup.train, setup.validation))
        target = split + _key(settings, "target", "votes")
        labels = target + _key(settings, "delivery")
        if labels not in self._labels:
            self._labels[labels] = recipe.delivery.labels(setup.target(train, self._ledger), setup.seed)
        if target not in self._targets:
            self._targets[target] = setup.target(validation, self._ledger)
        monitors = target + _key(settings, "monitored", "keep")
        if monitors not in self._monitors:
            parts = dict(setup.monitored()) or ({} if recipe.keep == "curve" else {"evaluation": setup.held_out})
            self._monitors[monitors] = {
                part: stacked.Monitor(rows, setup.target(rows, self._ledger).probs, *setup.people_and_labels(rows))
                for part, rows in parts.items()
            }
        return stacked.Member(
            setup.seed,
            train,
            validation,
            self._labels[labels],
            self._targets[target].probs,
            recipe.optimiser,
            recipe.schedule,
            recipe.stopping,
            recipe.epochs,
            recipe.batch,
            self._monitors[monitors],
        )


def _result(setup: TrainingSetup, member: stacked.Trained, stack_size: int) -> RunResult:
    curve = _curve(setup, member)
    for epoch, loss in enumerate(curve["train_loss"], start=1):
        refuse_divergence(setup.recipe, epoch, loss)
    refuse_explosion(setup.recipe, curve)
    model = setup.model()
    kept = ("last", "best") if setup.recipe.best else ("last",)
    weights = {name: member.weights[name] for name in kept if name in member.weights}
    flops = training_flops(model, tuple(setup.x(setup.train).shape[1:]), len(setup.train) * setup.recipe.epochs)
    conditions = {"device": "cpu", "channels_last": False, "compiled": False, "stacked": stack_size}
    best_epoch = member.best_epoch if setup.recipe.best else None
    return training_result(setup, model, weights, curve, best_epoch, flops, conditions)


def _curve(setup: TrainingSetup, member: stacked.Trained) -> Curve:
    """The columns that a run alone has; what is not finite is None."""
    columns = dict(member.curve)
    if "evaluation" in member.monitored:
        people, _ = setup.people_and_labels(setup.held_out)
        entropy = float(metrics.entropy(people).mean())
        columns["soft_nll"] = [kl + entropy for kl in member.monitored["evaluation"]["kl"]]
        columns["accuracy"] = member.monitored["evaluation"]["accuracy"]
    for part, _ in setup.monitored():
        columns.update((f"{name}_on_{part}", values) for name, values in member.monitored[part].items())
    return {name: [value if math.isfinite(value) else None for value in values] for name, values in columns.items()}


def _key(settings: Json, *names: str) -> str:
    return canonical([settings[name] for name in names])

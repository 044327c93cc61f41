"""One spec in, one run out."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from dissensus.engine import measures
from dissensus.engine.divergence import refuse_divergence, refuse_explosion
from dissensus.engine.events import EpochProgress, StopRequested
from dissensus.engine.run_result import Curve, RunResult, training_result, versions
from dissensus.engine.setup import TrainingSetup, own_loss
from dissensus.labels.targets import Target
from dissensus.metrics.agreement import majority
from dissensus.metrics.proper import unchecked_soft_nll
from dissensus.models import Model
from dissensus.models.flops import training_flops
from dissensus.store import checkpoints
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json, Run, Spec
from dissensus.training import evaluate
from dissensus.training import loop as train
from dissensus.training.distributed import ALONE, Group
from dissensus.training.precision import resolved

COMPILE_PAYS_ABOVE = 3e14
"""Training FLOPs above which compiling should pay: an estimate, about an hour of two cores, that benchmarks/layouts.py
can check. For smallcnn, where it was measured, compiling never pays."""


class InterruptedRunError(Exception):
    """The run was asked to stop. It has saved itself, and the same spec goes on where it stopped."""


@dataclass(frozen=True)
class Execution:
    """Where and how to compute: provenance, not part of a spec. Labels, order and augmentation do not depend on it.

    None means by rule: channels-last for images; compiled where the run is long enough to pay for it and there is a C++
    compiler. benchmarks/layouts.py measures both.
    """

    device: str | None = None
    threads: int | None = None
    channels_last: bool | None = None
    compile: bool | None = None
    checkpoint_seconds: float = 120.0


def execute(
    spec: Spec,
    ledger: Ledger,
    execution: Execution = Execution(),  # noqa: B008 - frozen
    progress: EpochProgress = lambda epoch, epochs, loss: None,  # noqa: ARG005
    stop_requested: StopRequested = lambda: False,
    group: Group = ALONE,
) -> Run:
    """The run of a spec: read from the ledger where it is finished, else computed and published there.

    Training goes on from the run's checkpoint where there is one. When a stop is requested, it saves itself after the
    step and raises InterruptedRunError. The processes of a group call this together with the same spec and ledger.
    """
    if group.from_leader(spec.id in ledger):
        return ledger.read(spec.id)
    if execution.threads is not None:
        torch.set_num_threads(execution.threads)
    started = time.perf_counter()
    if spec.kind == "train":
        result = _train(spec, ledger, execution, progress, stop_requested, group)
    else:

        def step(done: int, total: int) -> None:
            if stop_requested():
                raise InterruptedRunError
            progress(done, total, None)

        measured = measures.compute(spec, ledger, step)
        result = RunResult(measured.scores, measured.facts, measured.arrays)
    run = result.as_run(spec, time.perf_counter() - started)
    if group.leads:
        ledger.publish(run, result.arrays, result.weights)
    group.from_leader(None)  # no process goes on before the run is published
    return run


def _train(
    spec: Spec,
    ledger: Ledger,
    execution: Execution,
    progress: EpochProgress,
    stop_requested: StopRequested,
    group: Group,
) -> RunResult:
    setup = TrainingSetup.of(spec, ledger)
    recipe, data, seed = setup.recipe, setup.data, setup.seed
    device = torch.device(execution.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    target = setup.target(setup.train, ledger)
    model = setup.initial_model(ledger).to(device)
    x = setup.x(setup.train).to(device)
    flops = training_flops(model, tuple(x.shape[1:]), len(x) * recipe.epochs)
    conditions = {**_conditions(execution, model, x, flops, device), "precision": resolved(recipe.precision, device)}
    if group.world > 1:
        conditions["processes"] = group.world
    if conditions["channels_last"]:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    monitor = _EpochMonitor(model, setup, ledger, device, progress, group)
    file, provenance = ledger.checkpoint_file(spec.id), {**versions(), **conditions}
    checkpointer = _Checkpointer(file, model, monitor, provenance, execution, stop_requested)
    train.fit(
        model,
        x,
        recipe.delivery.labels(target, seed),
        recipe.training,
        classes=len(data.classes),
        seed=seed,
        observe=monitor,
        state=checkpointer.restore(),
        pause=checkpointer if group.leads else lambda snapshot: None,  # noqa: ARG005
        compiled=conditions["compiled"],
        group=group,
    )
    refuse_explosion(recipe, monitor.curve)
    weights = {"last": {name: value.detach().clone() for name, value in model.state_dict().items()}, **monitor.best}
    conditions = {**conditions, **checkpointer.history}
    return training_result(setup, model, weights, monitor.curve, monitor.best_epoch, flops, conditions, group)


class _EpochMonitor:
    """After each epoch: the curve on the evaluation items, the loss on the validation items, the best weights so far."""

    def __init__(
        self,
        model: Model,
        setup: TrainingSetup,
        ledger: Ledger,
        device: torch.device,
        progress: EpochProgress,
        group: Group,
    ) -> None:
        self.model, self.setup, self.progress, self.group = model, setup, progress, group
        self.curve: Curve = {"train_loss": []}
        self.best: dict[str, dict[str, Tensor]] = {}
        self.best_epoch: int | None = None
        self.best_loss = math.inf
        self._x = setup.x(setup.held_out).to(device)
        self._people, self._labels = setup.people_and_labels(setup.held_out)
        self._validation: tuple[Tensor, Target] | None = None
        if setup.validation is not None:
            self._validation = setup.x(setup.validation).to(device), setup.target(setup.validation, ledger)
        self._monitors = [
            (part, setup.x(rows).to(device), (setup.target(rows, ledger).probs, *setup.people_and_labels(rows)))
            for part, rows in setup.monitored()
        ]

    def __call__(self, epoch: int, loss: float) -> float | None:
        refuse_divergence(self.setup.recipe, epoch + 1, loss)
        self._note(train_loss=loss)
        recipe, soft_nll, watched = self.setup.recipe, math.inf, None
        if recipe.keep != "curve":
            log_probs = evaluate.predict(self.model, self._x, group=self.group, preview=True).log_probs
            soft_nll = float(unchecked_soft_nll(log_probs, self._people).mean())  # NaN where training diverged
            column = "soft_nll" if self.setup.data.voted else "nll_gold"
            self._note(**{column: soft_nll}, accuracy=float((majority(log_probs) == self._labels).double().mean()))
        if self._validation is not None:
            watched = own_loss(self.model, *self._validation)
            self._note(validation_loss=watched)
        for part, x, against in self._monitors:
            predictions = evaluate.predict(self.model, x, group=self.group, preview=True)
            scores = evaluate.monitored(predictions.log_probs, *against)
            self._note(**{f"{name}_on_{part}": value for name, value in scores.items()})
        if recipe.best is not None:
            judged = soft_nll if recipe.best.on == "evaluation" else watched
            assert judged is not None  # Recipe refuses the best validation epoch without a validation part
            if judged < self.best_loss:
                self.best_loss, self.best_epoch = judged, epoch
                self.best["best"] = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        self.progress(epoch + 1, recipe.epochs, loss)
        return watched

    def _note(self, **values: float) -> None:
        for name, value in values.items():
            self.curve.setdefault(name, []).append(value if math.isfinite(value) else None)


_WATCHED = ("curve", "best", "best_epoch", "best_loss")
"""What a checkpoint keeps of the monitor."""


class _Checkpointer:
    """Saves a run every so often, and when a stop is requested; restores it where it was saved."""

    def __init__(
        self,
        file: Path,
        model: Model,
        monitor: _EpochMonitor,
        provenance: Json,
        execution: Execution,
        stop_requested: StopRequested,
    ) -> None:
        self.history: Json = {}
        self._file, self._model, self._monitor = file, model, monitor
        self._provenance, self._stop_requested = provenance, stop_requested
        self._every, self._saved_at = execution.checkpoint_seconds, time.monotonic()

    def __call__(self, snapshot: Callable[[], train.State]) -> None:
        stopping = self._stop_requested()
        if stopping or time.monotonic() - self._saved_at >= self._every:
            content = {
                "model": self._model.state_dict(),
                "state": vars(snapshot()),
                "watch": {name: getattr(self._monitor, name) for name in _WATCHED},
                "how": self._provenance,
                "history": self.history,
            }
            checkpoints.save(self._file, content)
            self._saved_at = time.monotonic()
        if stopping:
            raise InterruptedRunError

    def restore(self) -> train.State | None:
        """Put weights and curve back, and return the saved state; None where the run starts from scratch."""
        saved = checkpoints.load(self._file)
        if saved is None:
            return None
        try:
            state = train.State(**saved["state"])
            watched = {name: saved["watch"][name] for name in _WATCHED}
            shapes = {name: value.shape for name, value in saved["model"].items()}
            history, conditions = saved["history"], saved["how"]
        except (KeyError, TypeError, AttributeError):  # saved by a version that kept something else
            return None
        if shapes != {name: value.shape for name, value in self._model.state_dict().items()}:
            return None
        self._model.load_state_dict(saved["model"])
        vars(self._monitor).update(watched)
        self.history = {"resumed": history.get("resumed", 0) + 1}
        elsewhere = [conditions] if conditions != self._provenance else []
        if also_on := [*history.get("also_on", []), *elsewhere]:
            self.history["also_on"] = also_on  # then the bits may differ from those of an unbroken run
        return state


def _conditions(execution: Execution, model: Model, x: Tensor, flops: int, device: torch.device) -> Json:
    """The rules of `Execution`, applied."""
    channels_last = execution.channels_last
    if channels_last is None:
        channels_last = x.ndim == 4
    compiled = execution.compile
    if compiled is None:
        has_compiler = device.type == "cuda" or shutil.which("g++") is not None or shutil.which("clang++") is not None
        compiled = flops > COMPILE_PAYS_ABOVE and has_compiler
    compiled = compiled and model.compiles
    return {"device": device.type, "channels_last": channels_last, "compiled": compiled}

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

from dissensus import metrics
from dissensus.engine import measures as analyses
from dissensus.engine.outcome import Curve, Outcome, concluded, versions
from dissensus.engine.setup import Stage, own_loss
from dissensus.labels.targets import Target
from dissensus.metrics.agreement import majority
from dissensus.models import Model
from dissensus.models.flops import training_flops
from dissensus.store import checkpoints
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json, Run, Spec
from dissensus.training import evaluate
from dissensus.training import loop as train
from dissensus.training.distributed import ALONE, Group

COMPILE_PAYS_ABOVE = 3e14
"""Training FLOPs beyond which compiling should be repaid: an estimate, about an hour of two cores, that
benchmarks/layouts.py can check. For smallcnn, where it was run, compiling is never repaid."""

Progress = Callable[[int, int, float | None], None]
"""(epochs done, epochs in all, training loss); of an analysis, products done and at most to do, without a loss."""


Stop = Callable[[], bool]
"""Asked after every step: whether to save and leave."""


class InterruptedRunError(Exception):
    """The run was asked to stop. It has saved itself, and the same spec goes on where it stopped."""


@dataclass(frozen=True)
class Execution:
    """Where and how to compute: provenance, not part of a spec. Labels, order and augmentation do not depend on it.

    None means by rule: channels-last for images; compiled where the run is long enough to repay it and there is a C++
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
    progress: Progress = lambda done, of, loss: None,  # noqa: ARG005
    stop: Stop = lambda: False,
    group: Group = ALONE,
) -> Run:
    """The run of a spec: read from the ledger where it is finished, else computed and published there.

    Training goes on from the run's checkpoint where there is one. Asked to `stop`, it saves itself after the step and
    raises InterruptedRunError. The processes of a group call this together with the same spec and ledger.
    """
    if group.from_leader(spec.id in ledger):
        return ledger.read(spec.id)
    if execution.threads is not None:
        torch.set_num_threads(execution.threads)
    started = time.perf_counter()
    if spec.kind == "train":
        outcome = _train(spec, ledger, execution, progress, stop, group)
    else:

        def tell(done: int, of: int) -> None:
            if stop():
                raise InterruptedRunError
            progress(done, of, None)

        outcome = Outcome(*analyses.compute(spec, ledger, tell))
    provenance = {**versions(), **outcome.how, "seconds": round(time.perf_counter() - started, 3)}
    run = Run(spec, outcome.scores, outcome.curve, outcome.facts, provenance)
    if group.leads:
        ledger.publish(run, outcome.arrays, outcome.weights)
    group.from_leader(None)  # nobody goes on before the run is published
    return run


def _train(spec: Spec, ledger: Ledger, execution: Execution, progress: Progress, stop: Stop, group: Group) -> Outcome:
    stage = Stage.of(spec, ledger)
    recipe, data, seed = stage.recipe, stage.data, stage.seed
    device = torch.device(execution.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    target = stage.target(stage.train, ledger)
    model = stage.model().to(device)
    x = stage.x(stage.train).to(device)
    flops = training_flops(model, tuple(x.shape[1:]), len(x) * recipe.epochs)
    how = {**_how(execution, x, flops, device), **({"processes": group.world} if group.world > 1 else {})}
    if how["channels_last"]:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    watch = _Watch(model, stage, ledger, device, progress, group)
    saver = _Saver(ledger.work(spec.id) / "checkpoint", model, watch, {**versions(), **how}, execution, stop)
    train.fit(
        model,
        x,
        recipe.delivery.labels(target, seed),
        recipe.training,
        classes=len(data.classes),
        seed=seed,
        observe=watch,
        state=saver.restored(),
        pause=saver if group.leads else lambda snapshot: None,  # noqa: ARG005
        compiled=how["compiled"],
        group=group,
    )
    weights = {"last": {name: value.detach().clone() for name, value in model.state_dict().items()}, **watch.best}
    return concluded(stage, model, weights, watch.curve, watch.best_epoch, flops, {**how, **saver.history}, group)


class _Watch:
    """After each epoch: the curve on the evaluation items, the loss on the validation items, the best weights so far."""

    def __init__(
        self, model: Model, stage: Stage, ledger: Ledger, device: torch.device, progress: Progress, group: Group
    ) -> None:
        self.model, self.stage, self.progress, self.group = model, stage, progress, group
        self.curve: Curve = {"train_loss": []}
        self.best: dict[str, dict[str, Tensor]] = {}
        self.best_epoch: int | None = None
        self.best_loss = math.inf
        self._x = stage.x(stage.held_out).to(device)
        self._people, self._labels = stage.judged_by(stage.held_out)
        self._validation: tuple[Tensor, Target] | None = None
        if stage.validation is not None:
            self._validation = stage.x(stage.validation).to(device), stage.target(stage.validation, ledger)
        self._monitors = [
            (part, stage.x(rows).to(device), (stage.target(rows, ledger).probs, *stage.judged_by(rows)))
            for part, rows in stage.monitored()
        ]

    def __call__(self, epoch: int, loss: float) -> float | None:
        self._note(train_loss=loss)
        recipe, soft_nll, watched = self.stage.recipe, math.inf, None
        if recipe.keep == "all":
            log_probs = evaluate.predict(self.model, self._x, group=self.group).log_probs
            soft_nll = float(metrics.soft_nll(log_probs, self._people).mean())
            self._note(soft_nll=soft_nll, accuracy=float((majority(log_probs) == self._labels).double().mean()))
        if self._validation is not None:
            watched = own_loss(self.model, *self._validation)
            self._note(validation_loss=watched)
        for part, x, against in self._monitors:
            scores = evaluate.monitored(evaluate.predict(self.model, x, group=self.group).log_probs, *against)
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


class _Saver:
    """Saves a run every so often, and when it is asked to stop; takes it up again where it was saved."""

    def __init__(self, file: Path, model: Model, watch: _Watch, how: Json, execution: Execution, stop: Stop) -> None:
        self.history: Json = {}
        self._file, self._model, self._watch, self._how, self._stop = file, model, watch, how, stop
        self._every, self._saved_at = execution.checkpoint_seconds, time.monotonic()

    def __call__(self, snapshot: Callable[[], train.State]) -> None:
        stopping = self._stop()
        if stopping or time.monotonic() - self._saved_at >= self._every:
            kept = {name: getattr(self._watch, name) for name in ("curve", "best", "best_epoch", "best_loss")}
            state = vars(snapshot())
            document = {"model": self._model.state_dict(), "state": state, "watch": kept, "how": self._how}
            checkpoints.save(self._file, {**document, "history": self.history})
            self._saved_at = time.monotonic()
        if stopping:
            raise InterruptedRunError

    def restored(self) -> train.State | None:
        """The saved state, after putting weights and curve back; None where the run starts anew."""
        saved = checkpoints.load(self._file)
        if saved is None:
            return None
        self._model.load_state_dict(saved["model"])
        vars(self._watch).update(saved["watch"])
        self.history = {"resumed": saved["history"].get("resumed", 0) + 1}
        others = [*saved["history"].get("also_on", []), *([saved["how"]] if saved["how"] != self._how else [])]
        if others:  # then the bits may differ from those of an unbroken run
            self.history["also_on"] = others
        return train.State(**saved["state"])


def _how(execution: Execution, x: Tensor, flops: int, device: torch.device) -> Json:
    """The rules of `Execution`, applied."""
    channels_last = execution.channels_last
    if channels_last is None:
        channels_last = x.ndim == 4
    compiled = execution.compile
    if compiled is None:
        has_compiler = device.type == "cuda" or shutil.which("g++") is not None or shutil.which("clang++") is not None
        compiled = flops > COMPILE_PAYS_ABOVE and has_compiler
    return {"device": device.type, "channels_last": channels_last, "compiled": compiled}

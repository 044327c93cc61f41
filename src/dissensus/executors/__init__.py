"""Who computes the specs of a plan. What happens is told as events; results go through the ledger alone."""

from __future__ import annotations

import json
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Literal

from dissensus import claims
from dissensus.errors import InputError
from dissensus.ledger import Ledger
from dissensus.runner import Execution, InterruptedRunError, Stop, execute
from dissensus.runs import Spec
from dissensus.storage import DiskFullError, write_whole

LOOK_AGAIN = 2.0
"""Seconds after which a run that somebody else had claimed is looked at again."""

ATTEMPTS = 3
"""How often a run may lose its worker (out of memory, killed) before it counts as failed."""

GRACE = 30.0
"""Seconds for workers to finish their step and save, when asked to stop."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a run.

    `kept`: the ledger had it already. `elsewhere`: another executor computes it. `stopped`: it saved itself on request.
    `blocked`: an input failed. `full`: there is no room on the disk, and nothing more should be begun.
    """

    kind: Literal["kept", "started", "epoch", "done", "failed", "blocked", "elsewhere", "stopped", "full"]
    run: str
    epoch: int = 0
    epochs: int = 0
    loss: float = 0.0
    message: str = ""


ENDINGS = frozenset({"kept", "done", "failed", "elsewhere", "stopped", "full"})
"""Kinds of event after which a worker is free again."""

Listen = Callable[[Event], None]


def compute(spec: Spec, ledger: Ledger, execution: Execution, tell: Listen, stop: Stop = lambda: False) -> None:
    """Compute one spec under a claim, and tell how it ended; whatever goes wrong ends only this run."""
    work = ledger.work(spec.id)
    noted = 0.0

    def progress(epoch: int, epochs: int, loss: float) -> None:
        nonlocal noted
        tell(Event("epoch", spec.id, epoch, epochs, loss))
        if time.monotonic() - noted > 1:  # for `dissensus watch`, from another terminal or machine
            noted = time.monotonic()
            about = {"epoch": epoch, "epochs": epochs, "loss": loss}
            (work / "progress.json").write_text(json.dumps(about), encoding="utf-8")

    claim = claims.take(work / "claim")
    if claim is None:
        tell(Event("elsewhere", spec.id))
        return
    ended = Event("done", spec.id)
    try:
        with claim:
            if spec.id in ledger:  # finished elsewhere after we last looked
                ended = Event("kept", spec.id)
            else:
                tell(Event("started", spec.id))
                execute(spec, ledger, execution, progress, stop)
    except InterruptedRunError:
        ended = Event("stopped", spec.id)
    except DiskFullError as problem:
        ended = Event("full", spec.id, message=str(problem))
    except InputError as problem:
        ended = Event("failed", spec.id, message=str(problem))
    except Exception:
        ended = Event("failed", spec.id, message=traceback.format_exc())
    if ended.kind == "failed":
        work.mkdir(parents=True, exist_ok=True)
        write_whole(work / "error.txt", ended.message.encode())
    tell(ended)


@dataclass
class Agenda:
    """Which specs are waiting, ready, under way or ended. A spec is ready when all its inputs are in the ledger."""

    specs: Sequence[Spec]
    ledger: Ledger
    listen: Listen
    failed: dict[str, str] = field(default_factory=dict)
    blocked: list[str] = field(default_factory=list)
    full: str = ""

    def __post_init__(self) -> None:
        self._ready: deque[Spec] = deque()
        self._waiting: dict[str, Spec] = {}
        self._needed_by: dict[str, list[str]] = {}
        self._under_way: dict[str, Spec] = {}
        self._elsewhere: dict[str, tuple[Spec, float]] = {}
        for spec in self.specs:
            if spec.id in self.ledger:
                self.listen(Event("kept", spec.id))
            elif all(need in self.ledger for need in spec.needs):
                self._ready.append(spec)
            else:
                self._waiting[spec.id] = spec
                for need in spec.needs:
                    self._needed_by.setdefault(need, []).append(spec.id)

    @property
    def unfinished(self) -> bool:
        """Whether anything is under way, here or elsewhere, and may still make others ready."""
        return bool(self._under_way or self._elsewhere)

    def next(self) -> Spec | None:
        """A spec that can be computed now, or None: then wait for what is unfinished, or end where nothing is."""
        self._look_elsewhere()
        if self.full or not self._ready:
            return None
        spec = self._ready.popleft()
        self._under_way[spec.id] = spec
        return spec

    def told(self, event: Event) -> None:
        """Take note of what a worker says, and pass it on."""
        self.listen(event)
        if event.kind not in ENDINGS:
            return
        spec = self._under_way.pop(event.run)
        if event.kind == "elsewhere":
            self._elsewhere[event.run] = spec, time.monotonic() + LOOK_AGAIN
        elif event.kind in ("done", "kept"):
            self._release(event.run)
        elif event.kind == "failed":
            self.failed[event.run] = event.message
            self._block_those_who_need(event.run)
        elif event.kind == "full":
            self.full = event.message
            self._elsewhere.clear()

    def lost(self, run_id: str) -> None:
        """The worker of this run died: it is ready again."""
        self._ready.appendleft(self._under_way.pop(run_id))

    def ended(self) -> None:
        """What still waits now waits for runs that nobody computes: say so."""
        if self.full:
            return
        for run_id, spec in self._waiting.items():
            missing = [need for need in spec.needs if need not in self.ledger]
            self._block(run_id, f"it needs {', '.join(missing)}, which is not in the plan")
        self._waiting.clear()

    def _release(self, run_id: str) -> None:
        """A run is finished: those who waited for it alone are ready."""
        for waiting in self._needed_by.pop(run_id, []):
            spec = self._waiting.get(waiting)
            if spec is not None and all(need in self.ledger for need in spec.needs):
                self._ready.append(self._waiting.pop(waiting))

    def _block_those_who_need(self, run_id: str) -> None:
        for waiting in self._needed_by.pop(run_id, []):
            if self._waiting.pop(waiting, None) is not None:
                self._block(waiting, f"it needs {run_id}")
                self._block_those_who_need(waiting)

    def _block(self, run_id: str, why: str) -> None:
        self.blocked.append(run_id)
        self.listen(Event("blocked", run_id, message=why))

    def _look_elsewhere(self) -> None:
        """Runs that others had claimed: finished by now, or to be tried again."""
        for run_id, (spec, again) in list(self._elsewhere.items()):
            if run_id in self.ledger:
                del self._elsewhere[run_id]
                self.listen(Event("kept", run_id))
                self._release(run_id)
            elif time.monotonic() >= again:
                del self._elsewhere[run_id]
                self._ready.append(spec)


@contextmanager
def interruptions() -> Iterator[Stop]:
    """Whether Ctrl-C was pressed, while this is open. A second one ends the program at once."""
    asked = [False]

    def note(number: int, frame: FrameType | None) -> None:
        if asked[0]:
            signal.default_int_handler(number, frame)
        asked[0] = True

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not in the main thread: nobody presses keys there
        yield lambda: False
        return
    try:
        yield lambda: asked[0]
    finally:
        signal.signal(signal.SIGINT, before)

"""Who computes the specs of a plan. What happens is told as events; results go through the ledger alone."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dissensus import claims
from dissensus.errors import InputError
from dissensus.ledger import Ledger
from dissensus.runner import Execution, InterruptedRunError, Stop, execute
from dissensus.runs import Spec
from dissensus.storage import DiskFullError, write_whole

LOOK_AGAIN = 2.0
"""Seconds after which a run that somebody else had claimed is looked at again."""


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


ENDINGS = frozenset({"done", "failed", "elsewhere", "stopped", "full"})
"""Kinds of event after which a worker is free again."""

Listen = Callable[[Event], None]


def compute(spec: Spec, ledger: Ledger, execution: Execution, tell: Listen, stop: Stop = lambda: False) -> None:
    """Compute one spec under a claim, and tell how it ended; whatever goes wrong ends only this run."""
    work = ledger.work(spec.id)
    claim = claims.take(work / "claim")
    if claim is None:
        tell(Event("elsewhere", spec.id))
        return
    ended = Event("done", spec.id)
    try:
        with claim:
            tell(Event("started", spec.id))
            execute(spec, ledger, execution, lambda done, of, loss: tell(Event("epoch", spec.id, done, of, loss)), stop)
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
        self._waiting: dict[str, Spec] = {}
        self._under_way: dict[str, Spec] = {}
        self._elsewhere: dict[str, tuple[Spec, float]] = {}
        for spec in self.specs:
            if spec.id in self.ledger:
                self.listen(Event("kept", spec.id))
            else:
                self._waiting[spec.id] = spec

    @property
    def unfinished(self) -> bool:
        """Whether anything is under way, here or elsewhere, or may still become ready."""
        return bool(self._under_way or self._elsewhere)

    def next(self) -> Spec | None:
        """A spec that can be computed now, or None: then wait for what is unfinished, or end where nothing is."""
        if self.full:
            return None
        self._look_elsewhere()
        for run_id, spec in list(self._waiting.items()):
            lost = [need for need in spec.needs if need in self.failed or need in self.blocked]
            if lost:
                del self._waiting[run_id]
                self._block(run_id, f"it needs {', '.join(lost)}")
            elif all(need in self.ledger for need in spec.needs):
                self._under_way[run_id] = self._waiting.pop(run_id)
                return spec
        return None

    def told(self, event: Event) -> None:
        """Take note of what a worker says, and pass it on."""
        if event.kind in ENDINGS:
            spec = self._under_way.pop(event.run)
            if event.kind == "elsewhere":
                self._elsewhere[event.run] = spec, time.monotonic() + LOOK_AGAIN
            elif event.kind == "failed":
                self.failed[event.run] = event.message
            elif event.kind == "full":
                self.full = event.message
                self._elsewhere.clear()
        self.listen(event)

    def lost(self, run_id: str) -> None:
        """The worker of this run died: it waits again."""
        self._waiting[run_id] = self._under_way.pop(run_id)

    def ended(self) -> None:
        """What still waits now waits for runs that nobody computes: say so."""
        if self.full:
            return
        for run_id, spec in self._waiting.items():
            missing = [need for need in spec.needs if need not in self.ledger]
            self._block(run_id, f"it needs {', '.join(missing)}, which is not in the plan")
        self._waiting.clear()

    def _block(self, run_id: str, why: str) -> None:
        self.blocked.append(run_id)
        self.listen(Event("blocked", run_id, message=why))

    def _look_elsewhere(self) -> None:
        """Runs that others had claimed: finished by now, or to be tried again."""
        for run_id, (spec, again) in list(self._elsewhere.items()):
            if run_id in self.ledger:
                del self._elsewhere[run_id]
                self.listen(Event("kept", run_id))
            elif time.monotonic() >= again:
                del self._elsewhere[run_id]
                self._waiting[run_id] = spec

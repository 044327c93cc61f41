"""Which spec of a plan is computed next, and which wait, failed or are blocked."""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

from dissensus.engine.assignments import Assignment, StackKey, never_stacked, stacks
from dissensus.engine.events import ENDINGS, Event, Listener
from dissensus.engine.executor import PlanResult
from dissensus.store import locks
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec

LOOK_AGAIN = 1.0
"""Seconds after which a run that another executor had locked is looked at again."""

ATTEMPTS = 3
"""How often a run may lose its worker (out of memory, killed) before it counts as failed."""


class Scheduler:
    """Keeps track of which specs wait, are ready, under way or ended. A spec is ready when the ledger has all its inputs.

    Specs that `key` puts in one stack are assigned together; see assignments.py.
    """

    def __init__(self, specs: Sequence[Spec], ledger: Ledger, listen: Listener, key: StackKey = never_stacked) -> None:
        self._ledger, self._listen = ledger, listen
        self._stacks = stacks(specs, key)
        self._ready: OrderedDict[str, Assignment] = OrderedDict()
        self._waiting: dict[str, Spec] = {}
        self._needed_by: dict[str, list[str]] = {}
        self._under_way: dict[str, Spec] = {}
        self._elsewhere: deque[tuple[Spec, float]] = deque()  # with the time to look again, the earliest first
        self._deaths: dict[str, int] = {}
        self._failed: dict[str, str] = {}
        self._blocked: list[str] = []
        self._disk_full = ""
        for spec in specs:
            if spec.id in ledger:
                listen(Event("already_done", spec.id))
            elif all(need in ledger for need in spec.needs):
                self._make_ready(spec)
            else:
                self._waiting[spec.id] = spec
                for need in spec.needs:
                    self._needed_by.setdefault(need, []).append(spec.id)

    @property
    def unfinished(self) -> bool:
        """Whether anything is under way, here or elsewhere, and may still make other specs ready."""
        return bool(self._under_way or self._elsewhere)

    @property
    def is_computing(self) -> bool:
        """Whether anything is under way here."""
        return bool(self._under_way)

    def next(self) -> Assignment | None:
        """What a worker can compute now. None: wait while there is something unfinished, else end."""
        self._look_elsewhere()
        if self._disk_full or not self._ready:
            return None
        _, assignment = self._ready.popitem(last=False)
        self._under_way.update((spec.id, spec) for spec in assignment.specs)
        return assignment

    def note(self, event: Event) -> None:
        """Take note of what a worker reports, and pass it on."""
        self._listen(event)
        if event.kind not in ENDINGS:
            return
        spec = self._under_way.pop(event.run)
        if event.kind == "computed_elsewhere":
            self._elsewhere.append((spec, time.monotonic() + LOOK_AGAIN))
        elif event.kind in ("done", "already_done"):
            self._release(event.run)
        elif event.kind == "failed":
            self._failed[event.run] = event.message
            self._block_dependents(event.run)
        elif event.kind == "disk_full":
            self._disk_full = event.message
            self._elsewhere.clear()

    def worker_died(self, run_ids: Iterable[str], reason: str) -> None:
        """Runs that lost their worker are ready again, unless they seem to kill every worker.

        The last attempt is made with each alone, so that one bad run does not take others with it.
        """
        for run_id in run_ids:
            self._deaths[run_id] = self._deaths.get(run_id, 0) + 1
            if self._deaths[run_id] < ATTEMPTS:
                self._make_ready(self._under_way.pop(run_id), first=True)
            else:
                self.note(Event("failed", run_id, message=f"{ATTEMPTS} workers died on it; the last one: {reason}"))

    def take_back(self, run_ids: Iterable[str]) -> None:
        """Runs that were given back unharmed are ready again."""
        for run_id in run_ids:
            self._make_ready(self._under_way.pop(run_id), first=True)

    def result(self) -> PlanResult:
        """To be asked at the end: what still waits needs runs that nobody computes, and is blocked.

        Where others still compute runs of the plan, what waits is left to them.
        """
        elsewhere = [spec.id for spec, _ in self._elsewhere]
        if elsewhere:
            elsewhere += self._waiting
        elif not self._disk_full:
            for run_id, spec in self._waiting.items():
                missing = [need for need in spec.needs if need not in self._ledger]
                self._block(run_id, f"it needs {', '.join(missing)}, which is not in the plan")
            self._waiting.clear()
        return PlanResult(self._failed, tuple(self._blocked), self._disk_full, tuple(elsewhere))

    def _make_ready(self, spec: Spec, first: bool = False) -> None:
        stack = self._stacks.get(spec.id, (spec,)) if self._deaths.get(spec.id, 0) < ATTEMPTS - 1 else (spec,)
        name = spec.id if stack == (spec,) else f"the stack of {stack[0].id}"
        others = self._ready[name].specs if name in self._ready else ()
        self._ready[name] = Assignment((*others, spec), stack)
        if first:
            self._ready.move_to_end(name, last=False)

    def _release(self, run_id: str) -> None:
        """A run is finished: specs for which it was the last missing input are ready."""
        for waiting in self._needed_by.pop(run_id, []):
            spec = self._waiting.get(waiting)
            if spec is not None and all(need in self._ledger for need in spec.needs):
                self._make_ready(self._waiting.pop(waiting))

    def _block_dependents(self, run_id: str) -> None:
        for waiting in self._needed_by.pop(run_id, []):
            if self._waiting.pop(waiting, None) is not None:
                self._block(waiting, f"it needs {run_id}")
                self._block_dependents(waiting)

    def _block(self, run_id: str, reason: str) -> None:
        self._blocked.append(run_id)
        self._listen(Event("blocked", run_id, message=reason))

    def look_at_once(self) -> None:
        """Look at all runs that others had locked, whenever they were last looked at: to be called before leaving them.

        Of two that publish their last run and then look, one at least sees the other's.
        """
        self._look_elsewhere(due=math.inf)

    def _look_elsewhere(self, due: float | None = None) -> None:
        """Runs that other executors had locked are finished by now, still locked, or free to be tried again."""
        due = time.monotonic() if due is None else due
        if not self._elsewhere or self._elsewhere[0][1] > due:
            return
        now = locks.clock(self._ledger.folder)
        for _ in range(len(self._elsewhere)):  # those that are still locked go to the end
            if self._elsewhere[0][1] > due:
                break
            spec, _at = self._elsewhere.popleft()
            if spec.id in self._ledger:
                self._listen(Event("already_done", spec.id))
                self._release(spec.id)
            elif locks.is_held(self._ledger.lock_file(spec.id), now=now):
                self._elsewhere.append((spec, time.monotonic() + LOOK_AGAIN))
            else:
                self._make_ready(spec)

"""Which spec of a plan is computed next, and which wait, failed or are blocked."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dissensus.engine.assignments import Job, Key, companies
from dissensus.engine.events import ENDINGS, Event, Listen
from dissensus.store import locks
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec

LOOK_AGAIN = 1.0
"""Seconds after which a run that somebody else had locked is looked at again."""

ATTEMPTS = 3
"""How often a run may lose its worker (out of memory, killed) before it counts as failed."""


@dataclass
class Agenda:
    """Which specs are waiting, ready, under way or ended. A spec is ready when all its inputs are in the ledger.

    Specs of the same `key` (None: of no other's) are handed out together; see jobs.py.
    """

    specs: Sequence[Spec]
    ledger: Ledger
    listen: Listen
    key: Key = lambda spec: None  # noqa: ARG005
    failed: dict[str, str] = field(default_factory=dict)
    blocked: list[str] = field(default_factory=list)
    full: str = ""

    def __post_init__(self) -> None:
        self._companies = companies(self.specs, self.key)
        self._ready: OrderedDict[str, Job] = OrderedDict()
        self._waiting: dict[str, Spec] = {}
        self._needed_by: dict[str, list[str]] = {}
        self._under_way: dict[str, Spec] = {}
        self._elsewhere: deque[tuple[Spec, float]] = deque()  # with the time to look again, the earliest first
        self._deaths: dict[str, int] = {}
        for spec in self.specs:
            if spec.id in self.ledger:
                self.listen(Event("kept", spec.id))
            elif all(need in self.ledger for need in spec.needs):
                self._make_ready(spec)
            else:
                self._waiting[spec.id] = spec
                for need in spec.needs:
                    self._needed_by.setdefault(need, []).append(spec.id)

    @property
    def unfinished(self) -> bool:
        """Whether anything is under way, here or elsewhere, and may still make others ready."""
        return bool(self._under_way or self._elsewhere)

    def next(self) -> Job | None:
        """What a worker can compute now, in one call; None: wait for what is unfinished, or end where nothing is."""
        self._look_elsewhere()
        if self.full or not self._ready:
            return None
        _, job = self._ready.popitem(last=False)
        self._under_way.update((spec.id, spec) for spec in job.specs)
        return job

    def told(self, event: Event) -> None:
        """Take note of what a worker says, and pass it on."""
        self.listen(event)
        if event.kind not in ENDINGS:
            return
        spec = self._under_way.pop(event.run)
        if event.kind == "elsewhere":
            self._elsewhere.append((spec, time.monotonic() + LOOK_AGAIN))
        elif event.kind in ("done", "kept"):
            self._release(event.run)
        elif event.kind == "failed":
            self.failed[event.run] = event.message
            self._block_those_who_need(event.run)
        elif event.kind == "full":
            self.full = event.message
            self._elsewhere.clear()

    def lost(self, runs: Iterable[str], why: str) -> None:
        """The worker of these runs died: they are ready again, unless they seem to kill whoever computes them.

        The last attempt is made with each alone, so that the guilty one does not take others with it.
        """
        for run in runs:
            self._deaths[run] = self._deaths.get(run, 0) + 1
            if self._deaths[run] < ATTEMPTS:
                self._make_ready(self._under_way.pop(run), first=True)
            else:
                self.told(Event("failed", run, message=f"{ATTEMPTS} workers died on it, the last so: {why}"))

    def returned(self, runs: Iterable[str]) -> None:
        """These runs were given back unharmed: they are ready again."""
        for run in runs:
            self._make_ready(self._under_way.pop(run), first=True)

    def ended(self) -> None:
        """What still waits now waits for runs that nobody computes: say so."""
        if self.full:
            return
        for run_id, spec in self._waiting.items():
            missing = [need for need in spec.needs if need not in self.ledger]
            self._block(run_id, f"it needs {', '.join(missing)}, which is not in the plan")
        self._waiting.clear()

    def _make_ready(self, spec: Spec, first: bool = False) -> None:
        company = self._companies.get(spec.id, (spec,)) if self._deaths.get(spec.id, 0) < ATTEMPTS - 1 else (spec,)
        name = spec.id if company == (spec,) else f"the company of {company[0].id}"
        others = self._ready[name].specs if name in self._ready else ()
        self._ready[name] = Job((*others, spec), company)
        if first:
            self._ready.move_to_end(name, last=False)

    def _release(self, run_id: str) -> None:
        """A run is finished: those who waited for it alone are ready."""
        for waiting in self._needed_by.pop(run_id, []):
            spec = self._waiting.get(waiting)
            if spec is not None and all(need in self.ledger for need in spec.needs):
                self._make_ready(self._waiting.pop(waiting))

    def _block_those_who_need(self, run_id: str) -> None:
        for waiting in self._needed_by.pop(run_id, []):
            if self._waiting.pop(waiting, None) is not None:
                self._block(waiting, f"it needs {run_id}")
                self._block_those_who_need(waiting)

    def _block(self, run_id: str, why: str) -> None:
        self.blocked.append(run_id)
        self.listen(Event("blocked", run_id, message=why))

    def _look_elsewhere(self) -> None:
        """Runs that others had locked: finished by now, still locked, or to be tried again."""
        due = time.monotonic()
        if not self._elsewhere or self._elsewhere[0][1] > due:
            return
        now = locks.clock(self.ledger.folder)
        while self._elsewhere and self._elsewhere[0][1] <= due:
            spec, _ = self._elsewhere.popleft()
            if spec.id in self.ledger:
                self.listen(Event("kept", spec.id))
                self._release(spec.id)
            elif locks.is_held(self.ledger.lock_file(spec.id), now=now):
                self._elsewhere.append((spec, time.monotonic() + LOOK_AGAIN))
            else:
                self._make_ready(spec)

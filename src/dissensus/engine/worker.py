"""Computes the runs of an assignment under their locks; whatever goes wrong ends only the run in which it went wrong."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Literal

from dissensus.engine.assignments import Assignment
from dissensus.engine.divergence import DivergedError
from dissensus.engine.events import Event, Listener, StopRequested
from dissensus.engine.one_run import Execution, InterruptedRunError, execute
from dissensus.engine.stacked_runs import execute_stacked
from dissensus.errors import InputError
from dissensus.store import locks
from dissensus.store.atomic_files import StorageError, write_whole
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec


def compute(
    assignment: Assignment,
    ledger: Ledger,
    execution: Execution,
    listen: Listener,
    stop_requested: StopRequested = lambda: False,
) -> None:
    """Compute the runs of an assignment, and report how each ended."""
    with _LockedRuns(ledger, listen) as runs:
        specs = [spec for spec in assignment.specs if runs.begin(spec)]
        if specs and len(assignment.stack) > 1:
            specs = _compute_stack(specs, assignment.stack, ledger, execution, runs, stop_requested)
        for spec in specs:
            _compute_alone(spec, ledger, execution, runs, stop_requested)


def write_error(ledger: Ledger, event: Event) -> None:
    """Leave the reason why a run failed in its folder, if it can be written: the event says it too."""
    file = ledger.error_file(event.run)
    with suppress(OSError, StorageError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, event.message.encode("utf-8", "replace"))


class ProgressFiles:
    """The progress of runs under way, on disk, for `dissensus watch`.

    Each file is written once per second at first and then ever more rarely: a thousand runs may share one disk.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._times: dict[str, tuple[float, float]] = {}  # of the first write, and of the next

    def write(self, event: Event) -> None:
        """An epoch is over."""
        now = time.monotonic()
        began, due = self._times.get(event.run, (now, now))
        if now < due:
            return
        self._times[event.run] = began, now + min(10.0, max(1.0, (now - began) / 20))
        content = json.dumps({"epoch": event.epoch, "epochs": event.epochs, "loss": event.loss})
        with suppress(OSError, StorageError):  # no result depends on it: the run may be finished elsewhere by now
            write_whole(self._ledger.progress_file(event.run), content.encode(), durable=False)

    def forget(self, run_id: str) -> None:
        """The run has ended."""
        self._times.pop(run_id, None)


class _LockedRuns:
    """The runs under way in this process, with their locks. A lock is released before the end of its run is reported."""

    def __init__(self, ledger: Ledger, listen: Listener) -> None:
        self._ledger, self._listen = ledger, listen
        self._locks: dict[str, locks.Lock] = {}
        self._progress = ProgressFiles(ledger)

    def __enter__(self) -> _LockedRuns:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lock in self._locks.values():
            lock.release()

    def begin(self, spec: Spec) -> bool:
        """Whether the run is ours to compute."""
        try:
            lock = locks.take(self._ledger.lock_file(spec.id))
        except InputError as problem:
            kind: Literal["disk_full", "failed"] = "disk_full" if isinstance(problem, StorageError) else "failed"
            self.end(Event(kind, spec.id, message=str(problem)))
            return False
        if lock is None:
            self._listen(Event("computed_elsewhere", spec.id))
            return False
        self._locks[spec.id] = lock
        if lock.note:
            self._listen(Event("note", spec.id, message=lock.note))
        if spec.id in self._ledger:  # finished elsewhere after we last looked
            self.end(Event("already_done", spec.id))
            return False
        self._listen(Event("started", spec.id))
        return True

    def epoch(self, event: Event) -> None:
        """An epoch is over."""
        self._progress.write(event)
        self._listen(event)

    def end(self, event: Event) -> None:
        """The run has ended as the event says."""
        if event.run in self._locks:
            self._locks.pop(event.run).release()
        if event.kind == "failed":
            write_error(self._ledger, event)
        self._listen(event)


def _compute_alone(
    spec: Spec, ledger: Ledger, execution: Execution, runs: _LockedRuns, stop_requested: StopRequested
) -> None:
    def progress(epoch: int, epochs: int, loss: float | None) -> None:
        runs.epoch(Event("epoch", spec.id, epoch, epochs, loss))

    runs.end(_attempt(spec.id, lambda: execute(spec, ledger, execution, progress, stop_requested)))


def _compute_stack(
    specs: Sequence[Spec],
    stack: Sequence[Spec],
    ledger: Ledger,
    execution: Execution,
    runs: _LockedRuns,
    stop_requested: StopRequested,
) -> list[Spec]:
    """Compute in one call. What is left after a failure is returned: tried alone, only the bad one fails."""
    left = {spec.id: spec for spec in specs}
    reported = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal reported
        if stop_requested():
            raise InterruptedRunError
        if time.monotonic() - reported > 1:  # each run of a stack is as far as the whole stack
            reported = time.monotonic()
            for run_id, spec in left.items():
                epochs = int(spec.settings["epochs"])
                runs.epoch(Event("epoch", run_id, epochs * done // total, epochs))

    def diverged(spec: Spec, error: DivergedError) -> None:
        if left.pop(spec.id, None) is not None:
            runs.end(Event("failed", spec.id, message=str(error)))

    def compute_all() -> None:
        for run in execute_stacked(stack, ledger, execution.threads, progress, diverged):
            if left.pop(run.id, None) is not None:
                runs.end(Event("done", run.id))

    ending = _attempt("", compute_all)
    if ending.kind == "failed":
        return list(left.values())
    for run_id in left:
        runs.end(replace(ending, run=run_id))
    return []


def _attempt(run_id: str, work: Callable[[], object]) -> Event:
    """Do the work, and say how it ended."""
    try:
        work()
    except InterruptedRunError:
        return Event("stopped", run_id)
    except StorageError as problem:
        return Event("disk_full", run_id, message=str(problem))
    except InputError as problem:
        return Event("failed", run_id, message=str(problem))
    except Exception:
        return Event("failed", run_id, message=traceback.format_exc())
    return Event("done", run_id)

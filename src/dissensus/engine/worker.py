"""Runs computed under locks, wherever this is called; whatever goes wrong ends only the run in which it went wrong."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType

from dissensus.engine.assignments import Job
from dissensus.engine.events import Event, Listen
from dissensus.engine.one_run import Execution, InterruptedRunError, Stop, execute
from dissensus.engine.stacked_runs import execute_alike
from dissensus.errors import InputError
from dissensus.store import locks
from dissensus.store.atomic_files import DiskFullError, write_whole
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec


def compute(job: Job, ledger: Ledger, execution: Execution, tell: Listen, stop: Stop = lambda: False) -> None:
    """Compute the runs of a job, and tell how each ended."""
    with _UnderWay(ledger, tell) as under_way:
        ours = [spec for spec in job.specs if under_way.begins(spec)]
        if ours and len(job.company) > 1:
            ours = _together(ours, job.company, ledger, execution, under_way, stop)
        for spec in ours:
            _alone(spec, ledger, execution, under_way, stop)


def write_error(ledger: Ledger, event: Event) -> None:
    """Leave why a run failed in its folder."""
    file = ledger.error_file(event.run)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, event.message.encode())


class ProgressNotes:
    """`progress.json` in the folders of runs under way, for `dissensus watch`.

    Each is written once a second at first and then ever more rarely: a thousand runs may share one disk.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._times: dict[str, tuple[float, float]] = {}  # of the first note, and of the next

    def take(self, event: Event) -> None:
        """An epoch is over."""
        now = time.monotonic()
        began, due = self._times.get(event.run, (now, now))
        if now < due:
            return
        self._times[event.run] = began, now + min(10.0, max(1.0, (now - began) / 20))
        about = {"epoch": event.epoch, "epochs": event.epochs, "loss": event.loss}
        with suppress(OSError, DiskFullError):  # nobody's result depends on it: the run may be finished elsewhere by now
            write_whole(self._ledger.progress_file(event.run), json.dumps(about).encode(), lasting=False)

    def forget(self, run: str) -> None:
        """The run has ended."""
        self._times.pop(run, None)


class _UnderWay:
    """The locks of runs under way. Each is given back before it is told how its run ended."""

    def __init__(self, ledger: Ledger, tell: Listen) -> None:
        self._ledger, self._tell = ledger, tell
        self._held: dict[str, locks.Lock] = {}
        self._notes = ProgressNotes(ledger)

    def __enter__(self) -> _UnderWay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lock in self._held.values():
            lock.release()

    def begins(self, spec: Spec) -> bool:
        """Whether it is ours to compute."""
        lock = locks.take(self._ledger.lock_file(spec.id))
        if lock is None:
            self._tell(Event("elsewhere", spec.id))
            return False
        self._held[spec.id] = lock
        if spec.id in self._ledger:  # finished elsewhere after we last looked
            self.ends(Event("kept", spec.id))
            return False
        self._tell(Event("started", spec.id))
        return True

    def goes_on(self, event: Event) -> None:
        """An epoch is over."""
        self._notes.take(event)
        self._tell(event)

    def ends(self, event: Event) -> None:
        """How it ended."""
        self._held.pop(event.run).release()
        if event.kind == "failed":
            write_error(self._ledger, event)
        self._tell(event)


def _alone(spec: Spec, ledger: Ledger, execution: Execution, under_way: _UnderWay, stop: Stop) -> None:
    def progress(epoch: int, epochs: int, loss: float | None) -> None:
        under_way.goes_on(Event("epoch", spec.id, epoch, epochs, loss))

    under_way.ends(_ending(spec.id, lambda: execute(spec, ledger, execution, progress, stop)))


def _together(
    ours: Sequence[Spec],
    company: Sequence[Spec],
    ledger: Ledger,
    execution: Execution,
    under_way: _UnderWay,
    stop: Stop,
) -> list[Spec]:
    """Compute in one call. What is left after a failure is given back: tried alone, only the guilty one fails."""
    left = {spec.id: spec for spec in ours}
    told = time.monotonic()

    def progress(done: int, of: int) -> None:
        nonlocal told
        if stop():
            raise InterruptedRunError
        if time.monotonic() - told > 1:  # a company is told of as one: each of its runs is as far as all together
            told = time.monotonic()
            for run, spec in left.items():
                epochs = int(spec.settings["epochs"])
                under_way.goes_on(Event("epoch", run, epochs * done // of, epochs))

    def all_of_them() -> None:
        for run in execute_alike(company, ledger, execution.threads, progress):
            if left.pop(run.id, None) is not None:
                under_way.ends(Event("done", run.id))

    ending = _ending("", all_of_them)
    if ending.kind == "failed":
        return list(left.values())
    for run in left:
        under_way.ends(replace(ending, run=run))
    return []


def _ending(run: str, doing: Callable[[], object]) -> Event:
    try:
        doing()
    except InterruptedRunError:
        return Event("stopped", run)
    except DiskFullError as problem:
        return Event("full", run, message=str(problem))
    except InputError as problem:
        return Event("failed", run, message=str(problem))
    except Exception:
        return Event("failed", run, message=traceback.format_exc())
    return Event("done", run)

"""On this machine: in this process, or in a pool of worker processes.

Small networks gain little from a second thread, so many runs go fastest with one thread each and one worker per core
(measured: docs/engine.md).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType

from dissensus.engine import worker_processes
from dissensus.engine.assignments import Assignment, stack_key_on
from dissensus.engine.events import ENDINGS, Event, Listener, StopRequested, ignore
from dissensus.engine.executor import PlanResult
from dissensus.engine.interrupts import GRACE, interruptions
from dissensus.engine.one_run import Execution
from dissensus.engine.plugins import load_plugins
from dissensus.engine.scheduler import LOOK_AGAIN, Scheduler
from dissensus.engine.worker import compute
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec

LEAVE = "DISSENSUS_LEAVE"
"""Set in the environment of commands that should not wait for runs that others compute, such as tasks of a job array."""


@dataclass(frozen=True)
class LocalExecutor:
    """One worker computes in this process, several in a process each.

    With `leave`, it ends when others compute all that is left, and its result names those runs; it else waits for them.
    """

    workers: int = 1
    execution: Execution = Execution()
    leave: bool = False

    def run(self, specs: Sequence[Spec], ledger: Ledger, listen: Listener = ignore) -> PlanResult:
        """As `Executor` says."""
        scheduler = Scheduler(specs, ledger, listen, stack_key_on(self.execution.device))
        with interruptions() as stop_requested:
            if self.workers == 1:
                _run_here(scheduler, ledger, self.execution, stop_requested, self.leave)
            else:
                pool = _Pool(scheduler, ledger, self.workers, self.execution, self.leave)
                try:
                    pool.run(stop_requested)
                finally:
                    pool.close()
        if stop_requested():
            raise KeyboardInterrupt
        return scheduler.result()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run_here(
    scheduler: Scheduler, ledger: Ledger, execution: Execution, stop_requested: StopRequested, leave: bool
) -> None:
    while not stop_requested():
        assignment = scheduler.next()
        if assignment is None and leave:
            scheduler.look_at_once()
            assignment = scheduler.next()
        if assignment is not None:
            compute(assignment, ledger, execution, scheduler.note, stop_requested)
        elif scheduler.unfinished and not leave:
            time.sleep(LOOK_AGAIN)  # others on this ledger compute what is left
        else:
            return


@dataclass
class _Worker:
    """A process with a connection of its own: a lock shared by workers would stay shut when its holder is killed."""

    process: BaseProcess
    connection: Connection
    run_ids: set[str] = field(default_factory=set)


class _Pool:
    """Worker processes, started as there is something to compute, up to `size`."""

    def __init__(self, scheduler: Scheduler, ledger: Ledger, size: int, execution: Execution, leave: bool) -> None:
        self._scheduler, self._size, self._leave = scheduler, size, leave
        self._context = worker_processes.context()
        per_worker = replace(execution, threads=execution.threads or max(1, cores() // size))
        self._arguments = str(ledger.folder.absolute()), per_worker
        self._workers: list[_Worker] = []

    def run(self, stop_requested: StopRequested) -> None:
        """Go on until everything has ended, or a stop is requested."""
        while not stop_requested():
            self._assign()
            if self._leave and not self._scheduler.is_computing:
                self._scheduler.look_at_once()
                self._assign()
            if not (self._scheduler.is_computing if self._leave else self._scheduler.unfinished):
                return
            by_connection = {worker.connection: worker for worker in self._workers}
            if not by_connection:
                time.sleep(LOOK_AGAIN)  # others on this ledger compute what is left
            for connection in wait(list(by_connection), timeout=0.2):
                self._receive(by_connection[connection])  # type: ignore[index]

    def close(self) -> None:
        """Ask workers to save and leave; those that take too long are ended. What is published is whole in any case."""
        for worker in self._workers:
            worker.process.terminate()
        deadline = time.monotonic() + GRACE
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()

    def _assign(self) -> None:
        idle = [worker for worker in self._workers if not worker.run_ids]
        while (idle or len(self._workers) < self._size) and (assignment := self._scheduler.next()):
            worker = idle.pop() if idle else self._start_worker()
            worker.run_ids = set(assignment.run_ids)
            with suppress(OSError):  # it has just died: the end of its connection says so
                worker.connection.send(assignment)

    def _start_worker(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        # The server they are forked from may be older than what the environment says now.
        process = self._context.Process(target=_serve, args=(theirs, *self._arguments, dict(os.environ)), daemon=True)
        process.start()
        theirs.close()  # so that the connection ends when the worker does
        self._workers.append(_Worker(process, ours))
        return self._workers[-1]

    def _receive(self, worker: _Worker) -> None:
        try:
            event: Event = worker.connection.recv()
        except (EOFError, OSError):
            self._workers.remove(worker)
            worker.process.join()
            reason = f"it ended with code {worker.process.exitcode} (out of memory?); try fewer --workers"
            self._scheduler.worker_died(worker.run_ids, reason)
            return
        if event.kind in ENDINGS:
            worker.run_ids.discard(event.run)
        self._scheduler.note(event)


def _serve(connection: Connection, folder: str, execution: Execution, environment: Mapping[str, str]) -> None:
    """Compute what comes, until asked to leave, or until the parent is gone: then the connection ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent decides
    os.environ.update(environment)
    load_plugins()
    leaving, busy = [False], [False]

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if not busy[0]:
            raise SystemExit
        leaving[0] = True

    def send(event: Event) -> None:
        with suppress(OSError):  # the parent is gone: the run is finished all the same, and then we leave
            connection.send(event)

    signal.signal(signal.SIGTERM, leave)
    ledger = Ledger(folder)
    while not leaving[0]:
        try:
            assignment: Assignment = connection.recv()
        except (EOFError, OSError):
            return
        busy[0] = True
        compute(assignment, ledger, execution, send, lambda: leaving[0])
        busy[0] = False

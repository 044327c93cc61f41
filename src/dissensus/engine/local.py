"""On this machine: in this process, or in a pool of worker processes.

Small networks gain little from a second thread, so many runs go fastest with one thread each and a worker a core
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

from dissensus.engine import worker_processes as processes
from dissensus.engine.assignments import Job, grouping
from dissensus.engine.events import ENDINGS, Event, Listen
from dissensus.engine.interrupts import GRACE, interruptions
from dissensus.engine.one_run import Execution, Stop, execute
from dissensus.engine.scheduler import LOOK_AGAIN, Agenda
from dissensus.engine.worker import compute
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec
from dissensus.training.distributed import Group


def run_all(
    specs: Sequence[Spec],
    ledger: Ledger,
    *,
    workers: int = 1,
    execution: Execution = Execution(),  # noqa: B008 - frozen
    listen: Listen = lambda event: None,  # noqa: ARG005
) -> Agenda:
    """Compute what the ledger lacks. One failing run does not stop the others; the agenda says which failed and why.

    Ctrl-C lets every run finish its step and save itself, and raises KeyboardInterrupt; the same call then goes on. A
    second Ctrl-C does not wait. Several of these, here or on other machines, may share a ledger.
    """
    agenda = Agenda(specs, ledger, listen, grouping(execution.device))
    with interruptions() as asked:
        if workers == 1:
            _alone(agenda, ledger, execution, asked)
        else:
            pool = _Pool(agenda, ledger, workers, execution)
            try:
                pool.until(asked)
            finally:
                pool.dismiss()
    if asked():
        raise KeyboardInterrupt
    agenda.ended()
    return agenda


def run_together(
    specs: Sequence[Spec],
    ledger: Ledger,
    group: Group,
    *,
    execution: Execution = Execution(),  # noqa: B008 - frozen
    listen: Listen = lambda event: None,  # noqa: ARG005
) -> Agenda:
    """One run after another, each by all processes of a group (`torchrun`). The first failure ends it: all must agree."""
    tell: Listen = listen if group.leads else lambda event: None  # noqa: ARG005
    agenda = Agenda(specs, ledger, tell)
    for spec in specs:
        if group.from_leader(spec.id in ledger):
            continue
        tell(Event("started", spec.id))
        execute(spec, ledger, execution, lambda *at, run=spec.id: tell(Event("epoch", run, *at)), group=group)
        tell(Event("done", spec.id))
    return agenda


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _alone(agenda: Agenda, ledger: Ledger, execution: Execution, asked: Stop) -> None:
    while not asked():
        if job := agenda.next():
            compute(job, ledger, execution, agenda.told, asked)
        elif agenda.unfinished:
            time.sleep(LOOK_AGAIN)  # others on this ledger compute what is left
        else:
            return


@dataclass
class _Worker:
    """A process with a line of its own: a lock shared by workers would stay shut when its holder is killed."""

    process: BaseProcess
    line: Connection
    runs: set[str] = field(default_factory=set)


class _Pool:
    """Workers, hired as there is something to compute, up to `most`."""

    def __init__(self, agenda: Agenda, ledger: Ledger, most: int, execution: Execution) -> None:
        self._agenda, self._most = agenda, most
        self._context = processes.context()
        shared_out = replace(execution, threads=execution.threads or max(1, cores() // most))
        self._arguments = str(ledger.folder.absolute()), shared_out
        self._workers: list[_Worker] = []

    def until(self, asked: Stop) -> None:
        """Go on until everything has ended, or somebody asks to stop."""
        while not asked():
            self._hand_out()
            if not self._agenda.unfinished:
                return
            lines = {worker.line: worker for worker in self._workers}
            if not lines:
                time.sleep(LOOK_AGAIN)  # others on this ledger compute what is left
            for line in wait(list(lines), timeout=0.2):
                self._hear(lines[line])  # type: ignore[index]

    def dismiss(self) -> None:
        """Ask workers to save and leave; whoever takes too long is ended. What is published is whole in any case."""
        for worker in self._workers:
            worker.process.terminate()
        deadline = time.monotonic() + GRACE
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()

    def _hand_out(self) -> None:
        idle = [worker for worker in self._workers if not worker.runs]
        while (idle or len(self._workers) < self._most) and (job := self._agenda.next()):
            worker = idle.pop() if idle else self._hired()
            worker.runs = set(job.runs)
            with suppress(OSError):  # it has just died: the end of its line says so
                worker.line.send(job)

    def _hired(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        # The server they are forked from may be older than what the environment says now.
        process = self._context.Process(target=_work, args=(theirs, *self._arguments, dict(os.environ)), daemon=True)
        process.start()
        theirs.close()  # so that the line ends when the worker does
        self._workers.append(_Worker(process, ours))
        return self._workers[-1]

    def _hear(self, worker: _Worker) -> None:
        try:
            event: Event = worker.line.recv()
        except (EOFError, OSError):
            self._workers.remove(worker)
            worker.process.join()
            code = worker.process.exitcode
            self._agenda.lost(worker.runs, f"with code {code} (out of memory?); try fewer --workers")
            return
        if event.kind in ENDINGS:
            worker.runs.discard(event.run)
        self._agenda.told(event)


def _work(line: Connection, folder: str, execution: Execution, environment: Mapping[str, str]) -> None:
    """Compute what comes, until asked to leave, or until the parent is gone: then the line ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    os.environ.update(environment)
    asked, busy = [False], [False]

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        if not busy[0]:
            raise SystemExit
        asked[0] = True

    def tell(event: Event) -> None:
        with suppress(OSError):  # the parent is gone: the run is finished all the same, and then we leave
            line.send(event)

    signal.signal(signal.SIGTERM, leave)
    ledger = Ledger(folder)
    while not asked[0]:
        try:
            job: Job = line.recv()
        except (EOFError, OSError):
            return
        busy[0] = True
        compute(job, ledger, execution, tell, lambda: asked[0])
        busy[0] = False

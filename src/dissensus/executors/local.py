"""On this machine: in this process, or in a pool of worker processes.

Small networks gain little from a second thread, so many runs go fastest with one thread each and a worker a core.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType

from dissensus.distributed import Group
from dissensus.executors import ATTEMPTS, ENDINGS, GRACE, LOOK_AGAIN, Agenda, Event, Listen, compute, interruptions
from dissensus.ledger import Ledger
from dissensus.runner import Execution, Stop, execute
from dissensus.runs import Spec


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
    agenda = Agenda(specs, ledger, listen)
    with interruptions() as asked:
        if workers == 1:
            _alone(agenda, ledger, execution, asked)
        else:
            _pool(agenda, ledger, workers, execution, asked)
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
        if group.told(spec.id in ledger):
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
        spec = agenda.next()
        if spec is not None:
            compute(spec, ledger, execution, agenda.told, asked)
        elif agenda.unfinished:
            time.sleep(LOOK_AGAIN)  # others on this ledger compute what is left
        else:
            return


@dataclass
class _Worker:
    """A process with a line of its own: a lock shared by workers would stay shut when its holder is killed."""

    process: SpawnProcess
    line: Connection
    run: str | None = None


def _pool(agenda: Agenda, ledger: Ledger, workers: int, execution: Execution, asked: Stop) -> None:
    context = multiprocessing.get_context("spawn")  # a forked torch may hang in its thread pool
    shared_out = replace(execution, threads=execution.threads or max(1, cores() // workers))

    def hired() -> _Worker:
        ours, theirs = context.Pipe()
        arguments = (os.getpid(), theirs, str(ledger.folder), shared_out)
        process = context.Process(target=_work, args=arguments, daemon=True)
        process.start()
        theirs.close()  # so that the line ends when the worker does
        return _Worker(process, ours)

    pool = [hired() for _ in range(workers)]
    deaths: dict[str, int] = {}
    try:
        while not asked():
            for worker in pool:
                if worker.run is None and (spec := agenda.next()) is not None:
                    worker.run = spec.id
                    with suppress(OSError):  # it has just died: the end of its line says so below
                        worker.line.send(spec.to_json())
            if not agenda.unfinished:
                return
            speaking = wait([worker.line for worker in pool], timeout=0.2)
            for number, worker in enumerate(pool):
                if worker.line not in speaking:
                    continue
                try:
                    event: Event = worker.line.recv()
                except (EOFError, OSError):
                    pool[number] = hired()
                    _mourn(agenda, worker, deaths)
                    continue
                agenda.told(event)
                if event.kind in ENDINGS:
                    worker.run = None
    finally:
        _dismiss(pool)


def _mourn(agenda: Agenda, worker: _Worker, deaths: dict[str, int]) -> None:
    """A worker died. Its run goes on elsewhere from its last checkpoint, unless it seems to kill whoever computes it."""
    if worker.run is None:
        return
    deaths[worker.run] = deaths.get(worker.run, 0) + 1
    if deaths[worker.run] < ATTEMPTS:
        agenda.lost(worker.run)
        return
    worker.process.join()
    code = worker.process.exitcode
    why = f"{ATTEMPTS} workers died on it, the last with code {code} (out of memory?); try fewer --workers"
    agenda.told(Event("failed", worker.run, message=why))


def _dismiss(pool: Sequence[_Worker]) -> None:
    """Ask the workers to save and leave; whoever takes too long is ended. What is published is whole in any case."""
    for worker in pool:
        worker.process.terminate()
    deadline = time.monotonic() + GRACE
    for worker in pool:
        worker.process.join(max(0.0, deadline - time.monotonic()))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


def _work(parent: int, line: Connection, folder: str, execution: Execution) -> None:
    """Compute what comes, until asked to leave, or until the parent is gone without having asked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
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
    while not asked[0] and os.getppid() == parent:
        if not line.poll(5):  # a look at whether the parent is still there
            continue
        try:
            document = line.recv()
        except EOFError:
            return
        busy[0] = True
        compute(Spec.from_json(document), ledger, execution, tell, lambda: asked[0])
        busy[0] = False

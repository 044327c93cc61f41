"""On this machine: in this process, or in a pool of worker processes.

Small networks gain little from a second thread, so many runs go fastest with one thread each and a worker a core.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import traceback
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import Queue
from typing import Any

from dissensus.errors import InputError
from dissensus.executors import Agenda, Event, Listen
from dissensus.ledger import Ledger
from dissensus.runner import Execution, execute
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

    Interrupted, it loses only what was under way: call it again and it goes on.
    """
    agenda = Agenda(specs, ledger, listen)
    if workers == 1:
        while (spec := agenda.next()) is not None:
            _compute(spec, ledger, execution, agenda.told)
    else:
        _pool(agenda, ledger, workers, execution)
    agenda.ended()
    return agenda


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _compute(spec: Spec, ledger: Ledger, execution: Execution, tell: Listen) -> None:
    tell(Event("started", spec.id))
    try:
        execute(spec, ledger, execution, lambda done, of, loss: tell(Event("epoch", spec.id, done, of, loss)))
    except InputError as problem:
        tell(Event("failed", spec.id, message=str(problem)))
    except Exception:
        tell(Event("failed", spec.id, message=traceback.format_exc()))
    else:
        tell(Event("done", spec.id))


def _pool(agenda: Agenda, ledger: Ledger, workers: int, execution: Execution) -> None:
    context = multiprocessing.get_context("spawn")  # a forked torch may hang in its thread pool
    tasks: Queue[Any] = context.Queue()
    events: Queue[Event] = context.Queue()
    alone = replace(execution, threads=execution.threads or max(1, cores() // workers))
    pool = [
        context.Process(target=_work, args=(tasks, events, str(ledger.folder), alone), daemon=True)
        for _ in range(workers)
    ]
    for worker in pool:
        worker.start()
    under_way: set[str] = set()
    try:
        while True:
            while len(under_way) < workers and (spec := agenda.next()) is not None:
                tasks.put(spec.to_json())
                under_way.add(spec.id)
            if not under_way:
                break
            try:
                event = events.get(timeout=1)
            except queue.Empty:
                _check_alive(pool)
                continue
            agenda.told(event)
            if event.kind in ("done", "failed"):
                under_way.discard(event.run)
    finally:
        for worker in pool:
            worker.terminate()  # a run is published by one rename, so nothing half-written can stay behind under its name
        for worker in pool:
            worker.join()


def _check_alive(pool: Sequence[SpawnProcess]) -> None:
    for worker in pool:
        if not worker.is_alive():
            raise InputError(
                f"a worker process ended with code {worker.exitcode}",
                where="local executor",
                mend="It may have run out of memory: try fewer --workers; the same command goes on where this stopped",
                state="Finished runs are kept.",
            )


def _work(tasks: Queue[Any], events: Queue[Event], folder: str, execution: Execution) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    ledger = Ledger(folder)
    while True:
        _compute(Spec.from_json(tasks.get()), ledger, execution, events.put)

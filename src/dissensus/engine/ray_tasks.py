"""What runs on the nodes of a Ray cluster: a task that computes runs, its line to the driver, and the actor between them.

What tasks tell goes through one small actor beside the driver, because that works with and without a shared folder and
carries the wish to stop in the same call: from a thread of its own, so that no training step waits for the network (and
since Ray gives a task's CPU away while its main thread waits). How a run ended is what its task returns, so nothing but
progress depends on the actor.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from dissensus.engine.assignments import Job
from dissensus.engine.events import ENDINGS, Event
from dissensus.engine.one_run import Execution
from dissensus.engine.worker import compute
from dissensus.store.ledger import Ledger


@dataclass(frozen=True)
class Task:
    """What a task is given.

    `token` is a file in the ledger's folder; None: that folder cannot be seen there. `checkpoints` by run, `data` is
    where data sets lie, `talk` the seconds between two words to the driver.
    """

    job: Job
    execution: Execution
    token: str | None
    checkpoints: dict[str, bytes]
    data: str | None
    talk: float


@dataclass(frozen=True)
class Report:
    """What a task returns: events that were not told yet, the last of each run being how it ended, and what to keep.

    `files` of finished runs and `checkpoints` of stopped ones come where there is no shared folder.
    """

    events: list[Event]
    files: dict[str, dict[str, bytes]]
    checkpoints: dict[str, bytes]


def sees(token: str) -> bool:
    """Whether this node sees that file."""
    return Path(token).is_file()


def carry_out(task: Task, post: Any, *needed: tuple[str, dict[str, bytes]]) -> Report:
    """Compute on the node where Ray put this task. `needed` are the files of runs that the specs name."""
    if task.data is not None:
        os.environ.setdefault("DISSENSUS_DATA", task.data)  # a node's own setting knows better
    line = _Line(post, task.talk)
    report = Report([], {}, {})
    try:
        if task.token is None:
            report = _apart(task, needed, line)
        elif sees(task.token):
            compute(task.job, Ledger(Path(task.token).parent), task.execution, line.tell, line.stop)
        else:
            why = f"{socket.gethostname()}, which joined the cluster later, cannot see {Path(task.token).parent}"
            for run_id in task.job.runs:
                line.tell(Event("failed", run_id, message=why))
    finally:
        events = line.close()
    return replace(report, events=events)


def _apart(task: Task, needed: Sequence[tuple[str, dict[str, bytes]]], line: _Line) -> Report:
    """Computed in a folder that lasts as long as the task."""
    with tempfile.TemporaryDirectory(prefix="dissensus-") as folder:
        ledger = Ledger(folder)
        saved = {run_id: ledger.checkpoint_file(run_id) for run_id in task.job.runs}
        for run_id, files in needed:
            ledger.adopt(run_id, files)
        for run_id, checkpoint in task.checkpoints.items():
            saved[run_id].parent.mkdir(parents=True)
            saved[run_id].write_bytes(checkpoint)
        compute(task.job, ledger, task.execution, line.tell, line.stop)
        finished = {run_id: ledger.files(run_id) for run_id in task.job.runs if run_id in ledger}
        return Report([], finished, {run_id: file.read_bytes() for run_id, file in saved.items() if file.is_file()})


class _Line:
    """A task's line to its driver."""

    def __init__(self, post: Any, talk: float) -> None:
        import ray  # here, because it is an optional package

        self._ray: Any = ray
        self._post, self._talk_every = post, talk
        self._untold: dict[tuple[str, str], Event] = {}  # the last of each kind and run
        self._ending: list[Event] = []
        self._stopping = False
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._talk, daemon=True)
        self._thread.start()

    def tell(self, event: Event) -> None:
        """To be said soon, except an ending, which the task itself returns. Of a run's epochs the last is said."""
        if event.kind in ENDINGS:
            self._ending.append(event)
            return
        if event.kind == "started":
            node = self._ray.get_runtime_context().get_node_id()
            event = replace(event, message=f"on {socket.gethostname()}, node {node}")
        with self._lock:
            self._untold.pop((event.kind, event.run), None)
            self._untold[event.kind, event.run] = event

    def stop(self) -> bool:
        """Whether the driver wants the run to save itself and end."""
        return self._stopping

    def close(self) -> list[Event]:
        """What was not told yet, the ending last."""
        self._closed.set()
        self._thread.join()
        return [*self._untold.values(), *self._ending]

    def _talk(self) -> None:
        while True:
            with self._lock:
                events, self._untold = self._untold, {}
            try:
                self._stopping = self._ray.get(self._post.leave.remote([astuple(event) for event in events.values()]))
            except self._ray.exceptions.RayError:  # there is no driver any more
                self._stopping = True
                return
            if self._closed.wait(self._talk_every):
                return


def post() -> type:
    """The class of the actor: sent by value and handling plain tuples, so that its process need not import torch."""

    class Post:
        """Where tasks leave what they have to tell, and hear whether to stop."""

        def __init__(self) -> None:
            self._events: list[tuple[Any, ...]] = []
            self._stopping = False

        def leave(self, events: list[tuple[Any, ...]]) -> bool:
            self._events += events
            return self._stopping

        def collect(self) -> list[tuple[Any, ...]]:
            events, self._events = self._events, []
            return events

        def stop(self) -> list[tuple[Any, ...]]:
            self._stopping = True
            return self.collect()

    return Post

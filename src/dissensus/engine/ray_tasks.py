"""What runs on the nodes of a Ray cluster: a task that computes runs, its link to the driver, the mailbox between them.

Events go through one small actor beside the driver, because that works with and without a shared folder and carries the
request to stop in the same call. They are sent from a thread of their own, so that no training step waits for the network
(and since Ray gives a task's CPU away while its main thread waits). How a run ended is what its task returns, so nothing
but progress depends on the mailbox.
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

from dissensus.engine.assignments import Assignment
from dissensus.engine.events import ENDINGS, Event
from dissensus.engine.one_run import Execution
from dissensus.engine.plugins import load_plugins
from dissensus.engine.worker import compute
from dissensus.store.ledger import Ledger


@dataclass(frozen=True)
class RayTask:
    """What a task is given.

    `token` is a file in the ledger's folder; None: that folder cannot be seen there. `checkpoints` are by run,
    `environment` holds the driver's DISSENSUS variables, `message_seconds` pass between two messages to the driver.
    """

    assignment: Assignment
    execution: Execution
    token: str | None
    checkpoints: dict[str, bytes]
    environment: dict[str, str]
    message_seconds: float


@dataclass(frozen=True)
class TaskReport:
    """What a task returns: events that were not sent yet, the last of each run being how it ended, and what to keep.

    Where there is no shared folder, `files` are those of finished runs and `checkpoints` those of stopped ones.
    """

    events: list[Event]
    files: dict[str, dict[str, bytes]]
    checkpoints: dict[str, bytes]


def sees(token: str) -> bool:
    """Whether this node sees that file."""
    return Path(token).is_file()


def carry_out(task: RayTask, mailbox: Any, *needed: tuple[str, dict[str, bytes]]) -> TaskReport:
    """Compute on the node where Ray put this task. `needed` are the files of runs that the specs name."""
    for name, value in task.environment.items():
        os.environ.setdefault(name, value)  # a node's own setting knows better
    load_plugins()
    link = _DriverLink(mailbox, task.message_seconds)
    report = TaskReport([], {}, {})
    try:
        if task.token is None:
            report = _compute_apart(task, needed, link)
        elif sees(task.token):
            folder = Path(task.token).parent
            compute(task.assignment, Ledger(folder), task.execution, link.send, link.stop_requested)
        else:
            reason = f"{socket.gethostname()}, which joined the cluster later, cannot see {Path(task.token).parent}"
            for run_id in task.assignment.run_ids:
                link.send(Event("failed", run_id, message=reason))
    finally:
        events = link.close()
    return replace(report, events=events)


def _compute_apart(task: RayTask, needed: Sequence[tuple[str, dict[str, bytes]]], link: _DriverLink) -> TaskReport:
    """Compute in a folder that lasts as long as the task."""
    with tempfile.TemporaryDirectory(prefix="dissensus-") as folder:
        ledger = Ledger(folder)
        run_ids = task.assignment.run_ids
        saved = {run_id: ledger.checkpoint_file(run_id) for run_id in run_ids}
        for run_id, files in needed:
            ledger.adopt(run_id, files)
        for run_id, checkpoint in task.checkpoints.items():
            saved[run_id].parent.mkdir(parents=True)
            saved[run_id].write_bytes(checkpoint)
        compute(task.assignment, ledger, task.execution, link.send, link.stop_requested)
        finished = {run_id: ledger.files(run_id) for run_id in run_ids if run_id in ledger}
        checkpoints = {run_id: file.read_bytes() for run_id, file in saved.items() if file.is_file()}
        return TaskReport([], finished, checkpoints)


class _DriverLink:
    """How a task talks to its driver."""

    def __init__(self, mailbox: Any, message_seconds: float) -> None:
        import ray  # here, because it is an optional package

        self._ray: Any = ray
        self._mailbox, self._message_seconds = mailbox, message_seconds
        self._unsent: dict[tuple[str, str], Event] = {}  # the last of each kind and run
        self._endings: list[Event] = []
        self._stopping = False
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._send_all, daemon=True)
        self._thread.start()

    def send(self, event: Event) -> None:
        """Send soon, except an ending, which the task itself returns. Of a run's epochs only the last is sent."""
        if event.kind in ENDINGS:
            self._endings.append(event)
            return
        if event.kind == "started":
            node = self._ray.get_runtime_context().get_node_id()
            event = replace(event, message=f"on {socket.gethostname()}, node {node}")
        with self._lock:
            self._unsent.pop((event.kind, event.run), None)
            self._unsent[event.kind, event.run] = event

    def stop_requested(self) -> bool:
        """Whether the driver wants the run to save itself and end."""
        return self._stopping

    def close(self) -> list[Event]:
        """What was not sent yet, the endings last."""
        self._closed.set()
        self._thread.join()
        return [*self._unsent.values(), *self._endings]

    def _send_all(self) -> None:
        while True:
            with self._lock:
                events, self._unsent = self._unsent, {}
            try:
                messages = [astuple(event) for event in events.values()]
                self._stopping = self._ray.get(self._mailbox.leave.remote(messages))
            except self._ray.exceptions.RayError:  # there is no driver any more
                self._stopping = True
                return
            if self._closed.wait(self._message_seconds):
                return


def mailbox_class() -> type:
    """The class of the actor: sent by value and handling plain tuples, so that its process need not import torch."""

    class Mailbox:
        """Where tasks leave their events, and learn whether to stop."""

        def __init__(self) -> None:
            self._messages: list[tuple[Any, ...]] = []
            self._stopping = False

        def leave(self, messages: list[tuple[Any, ...]]) -> bool:
            self._messages += messages
            return self._stopping

        def collect(self) -> list[tuple[Any, ...]]:
            messages, self._messages = self._messages, []
            return messages

        def stop(self) -> list[tuple[Any, ...]]:
            self._stopping = True
            return self.collect()

    return Mailbox

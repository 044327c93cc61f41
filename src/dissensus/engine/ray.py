"""On a Ray cluster: one bare task per run or stack, as many at once as its nodes have room for.

Where all nodes see the ledger's folder, tasks use it as the processes of one machine do. Where they do not, a task
computes in a folder of its own: the finished runs that it needs are sent to it, its result comes back through Ray, and
so does its checkpoint when it is asked to stop. A run whose worker dies there begins again where it was sent out.

When the driver dies, Ray ends its tasks. ray_tasks.py is what runs on the nodes.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import socket
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dissensus.engine import ray_tasks
from dissensus.engine.assignments import Assignment, stack_key_on
from dissensus.engine.events import ENDINGS, Event, Listener, StopRequested, ignore
from dissensus.engine.executor import PlanResult
from dissensus.engine.interrupts import GRACE, interruptions
from dissensus.engine.one_run import Execution
from dissensus.engine.ray_head import RayHeadLostError, RayHeadWatch, watched_head
from dissensus.engine.ray_tasks import RayTask, TaskReport
from dissensus.engine.scheduler import ATTEMPTS, Scheduler
from dissensus.engine.worker import ProgressFiles, write_error
from dissensus.errors import InputError
from dissensus.store import locks
from dissensus.store.atomic_files import StorageError, write_whole
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec

MESSAGE_SECONDS = 1.0  # between two messages of a task to its driver, at least
MESSAGES_PER_SECOND = 200  # to the driver, at most: with more tasks each sends more rarely
POLL = 0.2  # seconds that the driver waits for a task to end before it reads the messages of the others
RECOUNT = 10.0  # seconds after which the driver counts the nodes again
QUEUED = 2  # tasks that wait for each one that is computed: a free slot never waits for the driver
ANSWER = 10.0  # seconds that the head of a cluster has to answer


@dataclass(frozen=True)
class RayExecutor:
    """Each run, or stack of runs, with `cpus` and `gpus` (fractions allowed) of an existing cluster.

    A run whose worker dies is tried again. `shared_folder` says whether all nodes see the ledger's folder; None: look.
    `most_under_way` bounds the tasks that Ray knows of; None: a few for each that the nodes have room for. An existing
    connection to Ray is used, and left open.
    """

    address: str = "auto"
    cpus: float = 1.0
    gpus: float = 0.0
    execution: Execution = Execution()
    shared_folder: bool | None = None
    most_under_way: int | None = None

    def run(self, specs: Sequence[Spec], ledger: Ledger, listen: Listener = ignore) -> PlanResult:
        """As `Executor` says."""
        with _connected(self.address) as ray:
            if self.most_under_way is None and not _slots(ray, self.shares):
                raise InputError(
                    f"no node of the cluster has {self.cpus:g} CPUs and {self.gpus:g} GPUs",
                    where=f"Ray at {self.address}",
                    hint="Ask for less per run, or, where the cluster grows on demand, set most_under_way",
                )
            with _token(ledger) as token:
                shared = _is_shared(ray, token, self.shared_folder)
                scheduler = Scheduler(specs, ledger, listen, stack_key_on(self.run_execution.device))
                driver = _RayDriver(self, ray, scheduler, ledger, token if shared else None)
                with interruptions() as stop_requested, watched_head(ray) as head:
                    try:
                        driver.run(stop_requested, head)
                    except RayHeadLostError:
                        driver.release_locks()
                        raise
                    except BaseException:
                        driver.close()
                        raise
                    driver.close()
                    if stop_requested():
                        raise KeyboardInterrupt
        return scheduler.result()

    @property
    def shares(self) -> dict[str, float]:
        """What each run takes of a node."""
        return {"CPU": self.cpus, "GPU": self.gpus}

    @property
    def run_execution(self) -> Execution:
        """How each run is computed. One without a GPU of its own may not take one, whether or not Ray hides them."""
        device = self.execution.device or (None if self.gpus else "cpu")
        return replace(self.execution, device=device, threads=self.execution.threads or max(1, int(self.cpus)))


def _imported() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise InputError("Ray is not installed", hint="Run `pip install 'dissensus[ray]'`") from None


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """The package, with a connection to the cluster."""
    ray = _imported()
    if ray.is_initialized():
        yield ray
        return
    try:
        if address.rpartition(":")[2].isdecimal() and "//" not in address:  # Ray itself would try for minutes
            host, _, port = address.rpartition(":")
            socket.create_connection((host.strip("[]"), int(port)), ANSWER).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    except (OSError, RuntimeError, ValueError) as problem:
        raise InputError(
            f"no Ray cluster can be reached ({problem})",
            where=f"Ray at {address}",
            hint="Start one with `ray start --head`, or name the HOST:PORT of its head",
        ) from None
    try:
        yield ray
    except RayHeadLostError:  # to say goodbye to it would take a minute
        raise
    except BaseException:
        ray.shutdown()
        raise
    ray.shutdown()


def _slots(ray: Any, shares: Mapping[str, float]) -> int:
    """How many runs the nodes of the cluster can compute at once."""
    needed = {name: share for name, share in shares.items() if share > 0}
    if not needed:
        raise InputError("a run needs some of a CPU or of a GPU", where="Ray")
    resources = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return sum(min(int(has.get(name, 0) / share) for name, share in needed.items()) for has in resources)


@contextmanager
def _token(ledger: Ledger) -> Iterator[str]:
    """A file in the ledger's folder that no other folder has, not even a copy of it."""
    file = ledger.folder.absolute() / f".ray-{uuid.uuid4().hex}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    try:
        yield str(file)
    finally:
        file.unlink(missing_ok=True)


def _is_shared(ray: Any, token: str, promised: bool | None) -> bool:
    """Whether all nodes see the ledger's folder. Each is asked, which also shows whether it can compute at all."""
    nodes = {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]}
    look = ray.remote(num_cpus=0)(ray_tasks.sees)
    answers = [look.options(scheduling_strategy=_at(ray, node)).remote(token) for node in nodes]
    try:
        blind = [name for name, sees in zip(nodes.values(), ray.get(answers), strict=True) if not sees]
    except ray.exceptions.RayError as problem:
        raise InputError(
            f"a node cannot compute runs ({problem})", where="Ray", hint="Install the same dissensus on every node"
        ) from None
    if promised and blind:
        raise InputError(
            f"{', '.join(sorted(set(blind)))} cannot see this folder",
            where=str(Path(token).parent),
            hint="Mount it there under the same name, or let results come back through Ray",
        )
    return not blind if promised is None else promised


def _at(ray: Any, node: str) -> Any:
    return ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)


class _RayDriver:
    """Hands ready runs to the cluster, a bounded number at a time, and takes in what comes back.

    `token` is None where the nodes do not share the ledger's folder: then the driver holds the locks of their runs.
    """

    def __init__(self, options: RayExecutor, ray: Any, scheduler: Scheduler, ledger: Ledger, token: str | None) -> None:
        self._options, self._ray, self._scheduler, self._ledger, self._token = options, ray, scheduler, ledger, token
        self._slots, self._recount_at = options.most_under_way or 0, 0.0
        self._assignments: dict[Any, Assignment] = {}  # under way, by the reference of their task
        self._started: set[str] = set()
        self._locks: dict[str, locks.Lock] = {}
        self._progress = ProgressFiles(ledger)
        here = _at(ray, ray.get_runtime_context().get_node_id())
        actor = {"num_cpus": 0, "scheduling_strategy": here, "max_restarts": -1, "max_task_retries": -1}
        self._mailbox = ray.remote(**actor)(ray_tasks.mailbox_class()).remote()
        try:
            self._compute = ray.remote(num_cpus=options.cpus, num_gpus=options.gpus, scheduling_strategy="SPREAD")(
                ray_tasks.carry_out
            )
        except ValueError as problem:
            raise InputError(str(problem), where="Ray", hint="Ask for other shares of CPUs and GPUs") from None
        # Many runs may need the same teacher: it is sent once. Ray keeps what waiting tasks need.
        self._sent = functools.lru_cache(maxsize=16)(lambda run_id: ray.put((run_id, ledger.files(run_id))))

    def run(self, stop_requested: StopRequested, head: RayHeadWatch) -> None:
        """Go on until everything has ended, a stop is requested, or the head of the cluster is gone."""
        while not stop_requested():
            head.check()
            self._submit()
            if not self._scheduler.unfinished:
                return
            ended = self._ended()
            self._read_messages()  # first what was sent before they ended
            for reference in ended:
                self._take_in(reference)

    def close(self) -> None:
        """Let runs under way save themselves, and keep what they return; those that take too long are ended."""
        try:
            if self._assignments:
                self._started |= {Event(*message).run for message in self._ray.get(self._mailbox.stop.remote())}
            for reference, assignment in self._assignments.items():
                if self._started.isdisjoint(assignment.run_ids):  # it waits for a slot, and has nothing to save
                    self._ray.cancel(reference)
            deadline = time.monotonic() + GRACE
            while self._assignments and time.monotonic() < deadline:
                for reference in self._ended():
                    with suppress(self._ray.exceptions.RayError):  # cancelled, or its worker died
                        self._collect(reference)
        finally:
            for reference in self._assignments:
                self._ray.cancel(reference, force=True)
            self.release_locks()

    def release_locks(self) -> None:
        """Let others compute the runs that were under way."""
        for lock in self._locks.values():
            lock.release()

    def _submit(self) -> None:
        most = self._options.most_under_way
        if most is None:
            if time.monotonic() >= self._recount_at:  # nodes come and go
                self._slots = max(1, _slots(self._ray, self._options.shares))
                self._recount_at = time.monotonic() + RECOUNT
            most = (1 + QUEUED) * self._slots
        while len(self._assignments) < most and (assignment := self._scheduler.next()):
            if self._token is None:
                assignment = replace(assignment, specs=tuple(spec for spec in assignment.specs if self._lock(spec.id)))
            if assignment.specs:
                self._assignments[self._start(assignment)] = assignment

    def _start(self, assignment: Assignment) -> Any:
        """The reference of a new task. Ray itself retries a single run that lost its worker; of a stack the scheduler
        decides."""
        saved, sent = {}, []
        if self._token is None:
            files = {run_id: self._ledger.checkpoint_file(run_id) for run_id in assignment.run_ids}
            saved = {run_id: file.read_bytes() for run_id, file in files.items() if file.is_file()}
            needed = dict.fromkeys(need for spec in assignment.specs for need in spec.needs)
            sent = [self._sent(run_id) for run_id in needed]
        seconds = max(MESSAGE_SECONDS, self._slots / MESSAGES_PER_SECOND)
        environment = {name: value for name, value in os.environ.items() if name.startswith("DISSENSUS_")}
        task = RayTask(assignment, self._options.run_execution, self._token, saved, environment, seconds)
        retries = ATTEMPTS - 1 if len(assignment.stack) == 1 else 0
        return self._compute.options(max_retries=retries).remote(task, self._mailbox, *sent)

    def _lock(self, run_id: str) -> bool:
        try:
            lock = locks.take(self._ledger.lock_file(run_id))
        except StorageError as problem:
            self._scheduler.note(Event("disk_full", run_id, message=str(problem)))
            return False
        if lock is None:
            self._scheduler.note(Event("computed_elsewhere", run_id))
            return False
        self._locks[run_id] = lock
        return True

    def _ended(self) -> list[Any]:
        """Tasks that ended: waits a little for the first, and takes all that there are then."""
        if not self._assignments:
            time.sleep(POLL)  # others on this ledger compute what is left
            return []
        references = list(self._assignments)
        first, _ = self._ray.wait(references, timeout=POLL)
        ended: list[Any] = self._ray.wait(references, num_returns=len(references), timeout=0)[0] if first else []
        return ended

    def _read_messages(self) -> None:
        try:
            messages = self._ray.get(self._mailbox.collect.remote(), timeout=ANSWER)
        except (
            self._ray.exceptions.GetTimeoutError
        ):  # a busy node, or a head that is gone: whoever looks after it says so
            return
        events = [Event(*message) for message in messages]
        self._started |= {event.run for event in events}  # all of them first: a listener may raise
        for event in events:
            self._note(event)

    def _note(self, event: Event) -> None:
        if event.kind == "stopped":  # of itself, since it could not reach us
            self._scheduler.take_back([event.run])
            return
        if event.kind == "epoch" and self._token is None:  # nobody else can write it where `watch` looks
            self._progress.write(event)
        if event.kind == "failed":
            write_error(self._ledger, event)
        self._scheduler.note(event)

    def _take_in(self, reference: Any) -> None:
        """Note what a task that ended reports."""
        assignment = self._assignments[reference]
        try:
            events = self._collect(reference)
        except self._ray.exceptions.RayError as problem:
            if len(assignment.stack) > 1:
                self._scheduler.worker_died(assignment.run_ids, str(problem))
                return
            reason = f"Ray gave it up (a worker that dies is replaced {ATTEMPTS - 1} times): {problem}"
            events = [Event("failed", run_id, message=reason) for run_id in assignment.run_ids]
        for event in events:
            self._note(event)

    def _collect(self, reference: Any) -> list[Event]:
        """The events of a task that ended; what it computed goes into the ledger, and its locks are released."""
        assignment = self._assignments.pop(reference)
        self._started.difference_update(assignment.run_ids)
        try:
            report: TaskReport = self._ray.get(reference)
            disk_full = self._store(report)
        finally:
            for run_id in assignment.run_ids:
                self._progress.forget(run_id)
                if run_id in self._locks:
                    self._locks.pop(run_id).release()
        return [self._checked(event, disk_full) if event.kind in ENDINGS else event for event in report.events]

    def _store(self, report: TaskReport) -> str:
        """Store what came back. The message says why something could not be stored, and is empty where all was."""
        try:
            for run_id, files in report.files.items():
                self._ledger.adopt(run_id, files)
            for run_id, saved in report.checkpoints.items():
                with suppress(FileNotFoundError):  # it was finished elsewhere meanwhile
                    write_whole(self._ledger.checkpoint_file(run_id), saved)
        except StorageError as problem:
            return str(problem)
        return ""

    def _checked(self, ending: Event, disk_full: str) -> Event:
        """An ending as the ledger confirms it."""
        if ending.kind not in ("done", "already_done") or ending.run in self._ledger:
            return ending
        if disk_full:
            return Event("disk_full", ending.run, message=disk_full)
        return Event("computed_elsewhere", ending.run)  # network file systems show it a little late

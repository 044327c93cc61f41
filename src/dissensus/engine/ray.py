"""On a Ray cluster: one bare task a run, as many at once as its nodes have room for.

Where all nodes see the ledger's folder, tasks use it as the processes of one machine do. Where they do not, a task
computes in a folder of its own: the finished runs that it needs are sent to it, its result comes back through Ray, and
so does its checkpoint when it is asked to stop; one whose worker dies begins again where it was sent out.

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
from dataclasses import replace
from pathlib import Path
from typing import Any

from dissensus.engine import ray_tasks
from dissensus.engine.assignments import Job, grouping
from dissensus.engine.events import ENDINGS, Event, Listen
from dissensus.engine.interrupts import GRACE, interruptions
from dissensus.engine.one_run import Execution, Stop
from dissensus.engine.ray_tasks import Report, Task
from dissensus.engine.scheduler import ATTEMPTS, Agenda
from dissensus.engine.worker import ProgressNotes, write_error
from dissensus.errors import InputError
from dissensus.store import locks
from dissensus.store.atomic_files import DiskFullError, write_whole
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec

TALK = 1.0  # seconds between two words of a task to its driver, at least
WORDS = 200  # that the driver hears in a second, at most: with more tasks each speaks more rarely
POLL = 0.2  # seconds that the driver waits for a task to end before it listens to the others
RECOUNT = 10.0  # seconds after which the driver looks again how many nodes there are
QUEUED = 2  # tasks that wait for each one that is computed: a free slot never waits for the driver
ANSWER = 10.0  # seconds that the head of a cluster has to answer


def run_all(
    specs: Sequence[Spec],
    ledger: Ledger,
    *,
    address: str = "auto",
    cpus: float = 1.0,
    gpus: float = 0.0,
    execution: Execution = Execution(),  # noqa: B008 - frozen
    listen: Listen = lambda event: None,  # noqa: ARG005
    shared_folder: bool | None = None,
    most_under_way: int | None = None,
) -> Agenda:
    """Compute what the ledger lacks, each run with `cpus` and `gpus` (fractions allowed) of an existing cluster.

    The contract is that of `local.run_all`: one failing run stops no other; Ctrl-C lets runs save themselves, and the
    same call goes on. A run whose worker dies is tried again. `shared_folder` says whether all nodes see the ledger's
    folder; None: look. `most_under_way` bounds the tasks that Ray knows of; None: a few for each that the nodes have room
    for. An existing connection to Ray is used, and left open.
    """
    shares = {"CPU": cpus, "GPU": gpus}
    with _connected(address) as ray:
        if most_under_way is None and not _slots(ray, shares):
            raise InputError(
                f"no node of the cluster has {cpus:g} CPUs and {gpus:g} GPUs",
                where=f"Ray at {address}",
                hint="Ask for less a run; where the cluster grows on demand, say how many runs it may be given at once",
            )
        with _token(ledger) as token:
            shared = _is_shared(ray, token, shared_folder)
            # A run without a GPU of its own may not take one, whether or not Ray hides them.
            device = execution.device or (None if gpus else "cpu")
            asked_for = replace(execution, device=device, threads=execution.threads or max(1, int(cpus)))
            agenda = Agenda(specs, ledger, listen, grouping(device))
            dispatch = _Dispatch(ray, agenda, ledger, shares, asked_for, token if shared else None, most_under_way)
            with interruptions() as asked:
                try:
                    dispatch.until(asked)
                finally:
                    dispatch.dismiss()
                if asked():
                    raise KeyboardInterrupt
    agenda.ended()
    return agenda


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
    finally:
        ray.shutdown()


def _slots(ray: Any, shares: Mapping[str, float]) -> int:
    """How many runs the nodes of the cluster can compute at once."""
    asked = {name: share for name, share in shares.items() if share > 0}
    if not asked:
        raise InputError("a run needs some of a CPU or of a GPU", where="Ray")
    resources = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return sum(min(int(has.get(name, 0) / share) for name, share in asked.items()) for has in resources)


@contextmanager
def _token(ledger: Ledger) -> Iterator[str]:
    """A file in the ledger's folder that no other folder has, though it were a copy."""
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
    asked = [look.options(scheduling_strategy=_at(ray, node)).remote(token) for node in nodes]
    try:
        blind = [name for name, sees in zip(nodes.values(), ray.get(asked), strict=True) if not sees]
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


class _Dispatch:
    """Hands ready runs to the cluster, a bounded number at a time, and takes in what comes back."""

    def __init__(
        self,
        ray: Any,
        agenda: Agenda,
        ledger: Ledger,
        shares: Mapping[str, float],
        execution: Execution,
        token: str | None,
        most: int | None,
    ) -> None:
        self._ray, self._agenda, self._ledger, self._shares, self._token = ray, agenda, ledger, shares, token
        self._execution = execution
        self._fixed, self._slots, self._recount_at = most, most or 0, 0.0
        self._jobs: dict[Any, Job] = {}  # under way, by the reference of their task
        self._started: set[str] = set()
        self._held: dict[str, locks.Lock] = {}  # where the tasks cannot hold them
        self._notes = ProgressNotes(ledger)
        here = _at(ray, ray.get_runtime_context().get_node_id())
        post = ray.remote(num_cpus=0, scheduling_strategy=here, max_restarts=-1, max_task_retries=-1)(ray_tasks.post())
        self._post = post.remote()
        try:
            self._compute = ray.remote(
                num_cpus=shares["CPU"],
                num_gpus=shares["GPU"],
                scheduling_strategy="SPREAD",
            )(ray_tasks.carry_out)
        except ValueError as problem:
            raise InputError(str(problem), where="Ray", hint="Ask for other shares of CPUs and GPUs") from None
        # Many runs may need the same teacher: it is sent once. Ray keeps what waiting tasks need.
        self._sent = functools.lru_cache(maxsize=16)(lambda run_id: ray.put((run_id, ledger.files(run_id))))

    def until(self, asked: Stop) -> None:
        """Go on until everything has ended, or somebody asks to stop."""
        while not asked():
            self._submit()
            if not self._agenda.unfinished:
                return
            ended = self._ended()
            self._hear()  # first what was told before they ended
            for reference in ended:
                self._take_in(reference)

    def dismiss(self) -> None:
        """Let runs under way save themselves, and keep what they give; whoever takes too long is ended."""
        try:
            if self._jobs:
                self._started |= {Event(*words).run for words in self._ray.get(self._post.stop.remote())}
            for reference, job in self._jobs.items():
                if self._started.isdisjoint(job.runs):  # it waits for a slot, and has nothing to save
                    self._ray.cancel(reference)
            deadline = time.monotonic() + GRACE
            while self._jobs and time.monotonic() < deadline:
                for reference in self._ended():
                    with suppress(self._ray.exceptions.RayError):  # cancelled, or its worker died
                        self._kept(reference)
        finally:
            for reference in self._jobs:
                self._ray.cancel(reference, force=True)
            for lock in self._held.values():
                lock.release()

    def _submit(self) -> None:
        if self._fixed is None and time.monotonic() >= self._recount_at:  # nodes come and go
            self._slots = max(1, _slots(self._ray, self._shares))
            self._recount_at = time.monotonic() + RECOUNT
        most = self._fixed or (1 + QUEUED) * self._slots
        while len(self._jobs) < most and (job := self._agenda.next()):
            if self._token is None:
                job = replace(job, specs=tuple(spec for spec in job.specs if self._lock(spec.id)))
            if job.specs:
                self._jobs[self._remote(job)] = job

    def _remote(self, job: Job) -> Any:
        """A task for a job. Ray tries one run again that lost its worker; where there are several, the agenda decides."""
        saved, sent = {}, []
        if self._token is None:
            files = {run_id: self._ledger.checkpoint_file(run_id) for run_id in job.runs}
            saved = {run_id: file.read_bytes() for run_id, file in files.items() if file.is_file()}
            sent = [self._sent(need) for need in dict.fromkeys(need for spec in job.specs for need in spec.needs)]
        talk = max(TALK, self._slots / WORDS)
        task = Task(job, self._execution, self._token, saved, os.environ.get("DISSENSUS_DATA"), talk)
        retries = ATTEMPTS - 1 if len(job.company) == 1 else 0
        return self._compute.options(max_retries=retries).remote(task, self._post, *sent)

    def _lock(self, run_id: str) -> bool:
        lock = locks.take(self._ledger.lock_file(run_id))
        if lock is None:
            self._agenda.told(Event("elsewhere", run_id))
            return False
        self._held[run_id] = lock
        return True

    def _ended(self) -> list[Any]:
        """Tasks that ended: waits a little for the first, and takes all that there are then."""
        if not self._jobs:
            time.sleep(POLL)  # others on this ledger compute what is left
            return []
        references = list(self._jobs)
        first, _ = self._ray.wait(references, timeout=POLL)
        every: list[Any] = self._ray.wait(references, num_returns=len(references), timeout=0)[0] if first else []
        return every

    def _hear(self) -> None:
        events = [Event(*words) for words in self._ray.get(self._post.collect.remote())]
        self._started |= {event.run for event in events}  # all of them first: whoever listens may raise
        for event in events:
            self._tell(event)

    def _tell(self, event: Event) -> None:
        if event.kind == "stopped":  # of itself, since it could not reach us
            self._agenda.returned([event.run])
            return
        if event.kind == "epoch" and self._token is None:  # nobody else can write it where `watch` looks
            self._notes.take(event)
        if event.kind == "failed":
            write_error(self._ledger, event)
        self._agenda.told(event)

    def _take_in(self, reference: Any) -> None:
        """Tell what a task that ended had to tell."""
        job = self._jobs[reference]
        try:
            events = self._kept(reference)
        except self._ray.exceptions.RayError as problem:
            if len(job.company) > 1:
                self._agenda.lost(job.runs, str(problem))
                return
            why = f"Ray gave it up (a worker that dies is replaced {ATTEMPTS - 1} times): {problem}"
            events = [Event("failed", run_id, message=why) for run_id in job.runs]
        for event in events:
            self._tell(event)

    def _kept(self, reference: Any) -> list[Event]:
        """What a task that ended has to tell; what it computed goes into the ledger, and its locks are released."""
        job = self._jobs.pop(reference)
        self._started.difference_update(job.runs)
        try:
            report: Report = self._ray.get(reference)
            full = self._stored(report)
        finally:
            for run_id in job.runs:
                self._notes.forget(run_id)
                if run_id in self._held:
                    self._held.pop(run_id).release()
        return [self._checked(event, full) if event.kind in ENDINGS else event for event in report.events]

    def _stored(self, report: Report) -> str:
        """Why not everything that came back could be stored, if so."""
        try:
            for run_id, files in report.files.items():
                self._ledger.adopt(run_id, files)
            for run_id, saved in report.checkpoints.items():
                with suppress(FileNotFoundError):  # it was finished elsewhere meanwhile
                    write_whole(self._ledger.checkpoint_file(run_id), saved)
        except DiskFullError as problem:
            return str(problem)
        return ""

    def _checked(self, ending: Event, full: str) -> Event:
        """An ending as the ledger confirms it."""
        if ending.kind not in ("done", "kept") or ending.run in self._ledger:
            return ending
        if full:
            return Event("full", ending.run, message=full)
        return Event("elsewhere", ending.run)  # network file systems show it a little late

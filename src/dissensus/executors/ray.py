"""On a Ray cluster: one bare task a run, as many at once as its nodes have room for.

Where all nodes see the ledger's folder, tasks use it as the processes of one machine do. Where they do not, a task
computes in a folder of its own: the finished runs that it needs are sent to it, its result comes back through Ray, and
so does its checkpoint when it is asked to stop; one whose worker dies begins again where it was sent out.

What tasks tell goes through one small actor beside the driver, because that works with and without a shared folder and
carries the wish to stop in the same call: a call a second a task, from a thread of its own, so that no training step
waits for the network (and since Ray gives a task's CPU away while its main thread waits). How a run ended is what its
task returns, so nothing but progress depends on the actor. When the driver dies, Ray ends its tasks.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import shutil
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from dissensus import claims
from dissensus.errors import InputError
from dissensus.executors import ATTEMPTS, ENDINGS, GRACE, Agenda, Event, Listen, compute, interruptions
from dissensus.ledger import Ledger
from dissensus.runner import Execution, Stop
from dissensus.runs import Json, Spec
from dissensus.storage import DiskFullError, write_whole

TALK = 1.0  # seconds between two words of a task to its driver
POLL = 0.2  # seconds that the driver waits for a task to end before it listens to the others
RECOUNT = 10.0  # seconds after which the driver looks again how many nodes there are
QUEUED = 2  # tasks that wait for each one that is computed: a free slot never waits for the driver
ANSWER = 10.0  # seconds that the head of a cluster has to answer
CHECKPOINT = "checkpoint"  # what the runner calls it, in the folder of a run under way


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
                mend="Ask for less a run; where the cluster grows on demand, say how many runs it may be given at once",
            )
        with _token(ledger) as token:
            shared = _is_shared(ray, token, shared_folder)
            agenda = Agenda(specs, ledger, listen)
            dispatch = _Dispatch(ray, agenda, ledger, shares, execution, token if shared else None, most_under_way)
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
        raise InputError("Ray is not installed", mend="Run `pip install 'dissensus[ray]'`") from None


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
            mend="Start one with `ray start --head`, or name the HOST:PORT of its head",
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
    look = ray.remote(num_cpus=0)(_sees)
    asked = [look.options(scheduling_strategy=_at(ray, node)).remote(token) for node in nodes]
    try:
        blind = [name for name, sees in zip(nodes.values(), ray.get(asked), strict=True) if not sees]
    except ray.exceptions.RayError as problem:
        raise InputError(
            f"a node cannot compute runs ({problem})", where="Ray", mend="Install the same dissensus on every node"
        ) from None
    if promised and blind:
        raise InputError(
            f"{', '.join(sorted(set(blind)))} cannot see this folder",
            where=str(Path(token).parent),
            mend="Mount it there under the same name, or let results come back through Ray",
        )
    return not blind if promised is None else promised


def _at(ray: Any, node: str) -> Any:
    return ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)


def _sees(token: str) -> bool:
    return Path(token).is_file()


@dataclass(frozen=True)
class _Task:
    """What a task is given. `token` is a file in the ledger's folder; None: that folder cannot be seen there."""

    spec: Json
    execution: Execution
    token: str | None
    checkpoint: bytes | None
    data: str | None


@dataclass(frozen=True)
class _Report:
    """What a task returns: events that were not told yet, the last of which is how it ended, and what there is to keep.

    `files` of the finished run and the `checkpoint` of a stopped one come where there is no shared folder.
    """

    events: list[Event]
    files: dict[str, bytes]
    checkpoint: bytes | None


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
        # A run without a GPU of its own may not take one, whether or not Ray hides them.
        device = execution.device or (None if shares["GPU"] else "cpu")
        self._execution = replace(execution, device=device, threads=execution.threads or max(1, int(shares["CPU"])))
        self._fixed, self._most, self._recount_at = most, most or 0, 0.0
        self._runs: dict[Any, str] = {}  # under way, by the reference of their task
        self._started: set[str] = set()
        self._held: dict[str, ExitStack] = {}  # claims, where the tasks cannot hold them
        here = _at(ray, ray.get_runtime_context().get_node_id())
        post = ray.remote(num_cpus=0, scheduling_strategy=here, max_restarts=-1, max_task_retries=-1)(_post())
        self._post = post.remote()
        try:
            self._compute = ray.remote(
                num_cpus=shares["CPU"],
                num_gpus=shares["GPU"],
                max_retries=ATTEMPTS - 1,  # when the worker dies; what goes wrong in a run is told, not raised
                scheduling_strategy="SPREAD",
            )(_compute)
        except ValueError as problem:
            raise InputError(str(problem), where="Ray", mend="Ask for other shares of CPUs and GPUs") from None
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
                for event in self._take_in(reference):
                    self._tell(event)

    def dismiss(self) -> None:
        """Let runs under way save themselves, and keep what they give; whoever takes too long is ended."""
        try:
            if self._runs:
                self._started |= {Event(*words).run for words in self._ray.get(self._post.stop.remote())}
            for reference, run_id in self._runs.items():
                if run_id not in self._started:  # it waits for a slot, and has nothing to save
                    self._ray.cancel(reference)
            deadline = time.monotonic() + GRACE
            while self._runs and time.monotonic() < deadline:
                for reference in self._ended():
                    self._take_in(reference)
        finally:
            for reference in self._runs:
                self._ray.cancel(reference, force=True)
            for claim in self._held.values():
                claim.close()

    def _submit(self) -> None:
        if self._fixed is None and time.monotonic() >= self._recount_at:  # nodes come and go
            self._most = max(1, (1 + QUEUED) * _slots(self._ray, self._shares))
            self._recount_at = time.monotonic() + RECOUNT
        while len(self._runs) < self._most and (spec := self._agenda.next()) is not None:
            task = _Task(spec.to_json(), self._execution, self._token, None, os.environ.get("DISSENSUS_DATA"))
            sent = []
            if self._token is None:
                if not self._claim(spec.id):
                    self._agenda.told(Event("elsewhere", spec.id))
                    continue
                checkpoint = self._ledger.work(spec.id) / CHECKPOINT
                task = replace(task, checkpoint=checkpoint.read_bytes() if checkpoint.is_file() else None)
                sent = [self._sent(need) for need in spec.needs]
            self._runs[self._compute.remote(task, self._post, *sent)] = spec.id

    def _claim(self, run_id: str) -> bool:
        claim = claims.take(self._ledger.work(run_id) / "claim")
        if claim is None:
            return False
        self._held[run_id] = ExitStack()
        self._held[run_id].enter_context(claim)
        return True

    def _ended(self) -> list[Any]:
        """Tasks that ended: waits a little for the first, and takes all that there are then."""
        if not self._runs:
            time.sleep(POLL)  # others on this ledger compute what is left
            return []
        references = list(self._runs)
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
            self._agenda.lost(event.run)
            return
        if event.kind == "failed":
            work = self._ledger.work(event.run)
            work.mkdir(parents=True, exist_ok=True)
            write_whole(work / "error.txt", event.message.encode())
        self._agenda.told(event)

    def _take_in(self, reference: Any) -> list[Event]:
        """What a task that ended has to tell; what it computed goes into the ledger."""
        run_id = self._runs.pop(reference)
        self._started.discard(run_id)
        work = self._ledger.work(run_id)
        with self._held.pop(run_id, ExitStack()):
            try:
                report: _Report = self._ray.get(reference)
            except self._ray.exceptions.RayError as problem:
                why = f"Ray gave it up (a worker that dies is replaced {ATTEMPTS - 1} times): {problem}"
                return [Event("failed", run_id, message=why)]
            *told, ending = report.events
            try:
                if report.files:
                    self._ledger.adopt(run_id, report.files)
                elif report.checkpoint is not None:
                    write_whole(work / CHECKPOINT, report.checkpoint)
            except DiskFullError as problem:
                ending = Event("full", run_id, message=str(problem))
        if report.files:
            shutil.rmtree(work, ignore_errors=True)
        if ending.kind in ("done", "kept") and run_id not in self._ledger:  # network file systems show it a little late
            ending = Event("elsewhere", run_id)
        return [*told, ending]


def _post() -> type:
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


def _compute(task: _Task, post: Any, *needed: tuple[str, dict[str, bytes]]) -> _Report:
    """One run, on the node where Ray put this task."""
    spec = Spec.from_json(task.spec)
    if task.data is not None:
        os.environ.setdefault("DISSENSUS_DATA", task.data)  # a node's own setting knows better
    line = _Line(post)
    files: dict[str, bytes] = {}
    checkpoint = None
    try:
        if task.token is None:
            files, checkpoint = _compute_apart(spec, task, needed, line)
        elif _sees(task.token):
            compute(spec, Ledger(Path(task.token).parent), task.execution, line.tell, line.stop)
        else:
            why = f"{socket.gethostname()}, which joined the cluster later, cannot see {Path(task.token).parent}"
            line.tell(Event("failed", spec.id, message=why))
    finally:
        events = line.close()
    return _Report(events, files, checkpoint)


def _compute_apart(
    spec: Spec, task: _Task, needed: Sequence[tuple[str, dict[str, bytes]]], line: _Line
) -> tuple[dict[str, bytes], bytes | None]:
    """The files of the finished run, or its checkpoint, computed in a folder that lasts as long as the task."""
    with tempfile.TemporaryDirectory(prefix="dissensus-") as folder:
        ledger = Ledger(folder)
        saved = ledger.work(spec.id) / CHECKPOINT
        saved.parent.mkdir(parents=True)
        for run_id, content in needed:
            ledger.adopt(run_id, content)
        if task.checkpoint is not None:
            saved.write_bytes(task.checkpoint)
        compute(spec, ledger, task.execution, line.tell, line.stop)
        files = ledger.files(spec.id) if spec.id in ledger else {}
        return files, saved.read_bytes() if saved.is_file() else None


class _Line:
    """A task's line to its driver."""

    def __init__(self, post: Any) -> None:
        self._post, self._ray = post, _imported()
        self._untold: list[Event] = []
        self._ending: list[Event] = []
        self._stopping = False
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._talk, daemon=True)
        self._thread.start()

    def tell(self, event: Event) -> None:
        """To be said soon, except the ending, which the task itself returns. Of several epochs the last is said."""
        if event.kind in ENDINGS:
            self._ending.append(event)
            return
        if event.kind == "started":
            node = self._ray.get_runtime_context().get_node_id()
            event = replace(event, message=f"on {socket.gethostname()}, node {node}")
        with self._lock:
            if event.kind == "epoch" and self._untold and self._untold[-1].kind == "epoch":
                self._untold.pop()
            self._untold.append(event)

    def stop(self) -> bool:
        """Whether the driver wants the run to save itself and end."""
        return self._stopping

    def close(self) -> list[Event]:
        """What was not told yet, the ending last."""
        self._closed.set()
        self._thread.join()
        return [*self._untold, *self._ending]

    def _talk(self) -> None:
        while True:
            with self._lock:
                events, self._untold = self._untold, []
            try:
                self._stopping = self._ray.get(self._post.leave.remote([astuple(event) for event in events]))
            except self._ray.exceptions.RayError:  # there is no driver any more
                self._stopping = True
                return
            if self._closed.wait(TALK):
                return

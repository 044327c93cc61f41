"""Processes that compute a run and can be killed: forked from a warm server, so that a life costs milliseconds.

The server is that of worker pools too.
"""

import os
import resource
from pathlib import Path

import torch._dynamo  # noqa: F401 - every optimiser imports it, which takes seconds

from dissensus import datasets
from dissensus.engine import worker_processes
from dissensus.engine.assignments import Assignment
from dissensus.engine.local import LocalExecutor
from dissensus.engine.one_run import Execution, execute
from dissensus.engine.worker import compute
from dissensus.store import locks
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Spec

worker_processes.PRELOADED.append("lives")
CONTEXT = worker_processes.context()
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
datasets.load("digits").digest  # noqa: B018 - computed once in the server, and inherited by every life


def born(function, *arguments):
    """A process that calls the function."""
    process = CONTEXT.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


def alone(spec):
    """The assignment of one spec."""
    return Assignment((spec,), (spec,))


def computing(document, folder, seconds=0.05, compiled=False):
    """Compute one spec, saving it every so many seconds."""
    execute(Spec.from_json(document), Ledger(folder), Execution(threads=1, checkpoint_seconds=seconds, compile=compiled))


def executing(documents, folder, told):
    """An executor of its own on a shared ledger; it puts its events into `told`."""
    specs = [Spec.from_json(document) for document in documents]
    LocalExecutor(1, Execution(threads=1)).run(specs, Ledger(folder), lambda e: told.put((e.kind, e.run)))


def driving(document, folder, address, told):
    """The driver of a Ray cluster, which puts the kinds of its events into `told`."""
    from dissensus.engine import ray

    ray.MESSAGE_SECONDS = 0.1
    executor = ray.RayExecutor(address, execution=Execution(checkpoint_seconds=0.1))
    executor.run([Spec.from_json(document)], Ledger(folder), lambda event: told.put(event.kind))


def in_a_small_room(document, folder, room, told):
    """Compute one spec where no file may be larger than `room` bytes: a stand-in for a disk without space."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    compute(alone(Spec.from_json(document)), Ledger(folder), Execution(threads=1, checkpoint_seconds=0.0), told.put)


def holding(file, ready, let_go):
    """Hold a lock until told otherwise."""
    lock = locks.take(file)
    ready.set()
    let_go.wait()
    lock.release()

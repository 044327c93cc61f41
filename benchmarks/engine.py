"""The engine: two workers against one, the cost of a run beside training alone, threads or processes, many runs.

Asserted: 16 equal runs with 2 workers take at most 0.6 of the time with 1 (each with one thread), a run costs less than
0.3 s more than calling `train.fit` for the same epochs, and the summary of 10,000 runs is there in 2 s. Printed: how long
workers take to start; 2 workers × 1 thread against 1 worker × 2 threads, which sets the default; what a plan of
`--specs N` costs the ledger and the driver, and `--ray N` a cluster of this machine (docs/scaling.md has the figures for
100,000 and 5,000); `--only shared`: two drivers with four workers each on one ledger, and what locks cost. `--folder`
says on which file system.
"""

import argparse
import collections
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from dissensus import datasets, random
from dissensus.cli.progress import read_status
from dissensus.engine import worker_processes
from dissensus.engine.events import Event, ignore
from dissensus.engine.local import LocalExecutor, cores
from dissensus.engine.one_run import Execution, execute
from dissensus.engine.scheduler import Scheduler
from dissensus.engine.setup import TrainingSetup
from dissensus.models import Smallcnn
from dissensus.store import locks
from dissensus.store.ledger import RECORD, Ledger
from dissensus.store.spec import Run, Spec
from dissensus.training import loop as train
from dissensus.training.optimisers import AdamW
from dissensus.training.recipe import Recipe
from timing import best_of

RECIPE = Recipe(model=Smallcnn(), optimiser=AdamW(lr=0.01), epochs=80, batch=64)
PARTS = ("start", "overhead", "scaling", "summary", "many")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", choices=[*PARTS, "ray", "shared"], action="append")
    arguments.add_argument("--drive", metavar="LEDGER", help=argparse.SUPPRESS)  # what `shared` starts
    arguments.add_argument("--specs", type=int, default=2_000)
    arguments.add_argument("--ray", type=int, default=0)
    arguments.add_argument("--folder")
    chosen = arguments.parse_args()
    tempfile.tempdir = chosen.folder
    data = datasets.load("digits")
    if chosen.drive:
        return drive(data, chosen.drive, chosen.specs)
    given = {"many": (data, chosen.specs), "ray": (data, chosen.ray), "shared": (data, chosen.specs)}
    for part in chosen.only or (*PARTS, *(["ray"] if chosen.ray else [])):
        globals()[part](*given.get(part, (data,)))
    return None


def start(data):
    """The first run of a pool, with the server of workers asked for at that moment, and with one that is ready."""
    first = []
    for seed in (0, 1):
        began, heard = time.perf_counter(), []
        LocalExecutor(2).run(
            [replace(RECIPE, epochs=1).spec(data, seed)],
            Ledger(tempfile.mkdtemp()),
            lambda _, began=began, heard=heard: heard.append(time.perf_counter() - began),
        )
        first.append(heard[0])
    print(f"a worker begins its first run after {first[0]:.1f} s; after {first[1]:.2f} s where the server is ready")


def overhead(data):
    torch.set_num_threads(1)
    spec = replace(RECIPE, epochs=10).spec(data, 0)
    stage = TrainingSetup.of(spec, Ledger("unused"))

    def alone():
        with random.seeded(0, "init"):
            model = stage.model().to(memory_format=torch.channels_last)
        labels = stage.recipe.delivery.labels(stage.target(stage.train, Ledger("unused")), 0)
        x = stage.x(stage.train)
        train.fit(model, x, labels, stage.recipe.training, classes=10, seed=0, observe=lambda *_: None)

    def whole():
        folder = tempfile.mkdtemp()
        execute(spec, Ledger(folder), Execution(threads=1))
        shutil.rmtree(folder)

    seconds, _ = best_of(5, alone=alone, whole=whole)
    extra = seconds["whole"] - seconds["alone"]
    print(f"10 epochs: train.fit {seconds['alone']:.2f} s | a run {seconds['whole']:.2f} s | {extra:.2f} s more")
    assert extra < 0.3


def scaling(data):
    """As the command line does it: the server of workers is asked for before anything is planned."""
    specs = [RECIPE.spec(data, seed) for seed in range(16)]
    worker_processes.prepare()
    runs(specs[:2], 2, 1)()

    seconds, _ = best_of(1, one=runs(specs, 1, 1), two=runs(specs, 2, 1), threads=runs(specs, 1, 2))
    ratio = seconds["two"] / seconds["one"]
    print(
        f"16 runs: 1 worker {seconds['one']:.1f} s | 2 workers {seconds['two']:.1f} s | {ratio:.2f} of the time | "
        f"1 worker with 2 threads {seconds['threads']:.1f} s"
    )
    assert ratio <= 0.6


def runs(specs, workers, threads):
    def go():
        folder = tempfile.mkdtemp()
        assert not LocalExecutor(workers, Execution(threads=threads)).run(specs, Ledger(folder)).failed
        shutil.rmtree(folder)

    return go


def summary(data, n=10_000):
    folder = Path(tempfile.mkdtemp())
    one = Ledger(folder / "one")
    pattern = execute(replace(RECIPE, epochs=200, model=Smallcnn(width=2, hidden=4)).spec(data, 0), one)
    text = (one.folder / pattern.id / RECORD).read_text()
    ledger = Ledger(folder / "many")
    for number in range(n):
        spec = Spec("train", {**pattern.spec.settings, "seed": number})
        place = ledger.folder / spec.id
        place.mkdir(parents=True)
        (place / RECORD).write_text(text.replace('"seed": 0', f'"seed": {number}').replace(pattern.id, spec.id))
    first, after = timed(lambda: len(ledger.summaries())), timed(lambda: len(Ledger(ledger.folder).summaries()))
    assert json.loads((ledger.folder / ledger.ids()[7] / RECORD).read_text())["id"] == ledger.ids()[7]
    print(f"summary of {n:,} runs of 200 epochs: {first:.2f} s the first time, {after:.2f} s after")
    shutil.rmtree(folder)
    assert first < 2


def many(data, n):
    """Specs of a real recipe whose runs cost nothing, so that all the time is ours."""
    folder = Path(tempfile.mkdtemp())
    ledger, before = Ledger(folder), memory()
    specs, planning = [], 0.0
    planning = timed(lambda: specs.extend(RECIPE.spec(data, seed) for seed in range(n)))
    began = time.perf_counter()
    scheduler = Scheduler(specs, ledger, ignore)
    opening = time.perf_counter() - began
    began = time.perf_counter()
    while (assignment := scheduler.next()) is not None:
        (spec,) = assignment.specs
        ledger.publish(Run(spec, {}, {}, {}, {}), {}, {})
        scheduler.note(Event("done", spec.id))
    seconds = time.perf_counter() - began
    grown = memory() - before
    print(
        f"{n:,} specs: planned in {planning:.1f} s, scheduled in {opening:.1f} s, published in {seconds:.1f} s "
        f"({seconds / n * 1e3:.2f} ms each); the driver grew by {grown:.0f} MiB",
        flush=True,
    )
    entries = sum(len(names) + len(files) for _, names, files in os.walk(folder))
    size = sum(file.stat().st_blocks * 512 for file in folder.rglob("*")) / 2**20
    labels = {spec.id: str(number) for number, spec in enumerate(specs)}
    again = timed(lambda: Scheduler(specs, ledger, ignore))
    print(
        f"{entries:,} files and folders, {size:.0f} MiB; ids {timed(ledger.ids):.2f} s, summary "
        f"{timed(ledger.summaries):.2f} s, again {timed(ledger.summaries):.2f} s, a look of `watch` "
        f"{timed(lambda: read_status(labels, ledger)):.2f} s, the finished plan again {again:.2f} s",
        flush=True,
    )
    assert len(ledger.ids()) == n
    shutil.rmtree(folder)


def ray(data, n):
    """Trivial specs through a Ray of this machine, as many in flight as for 1,000 GPUs, with a shared folder and not."""
    import logging

    os.environ["RAY_AUTH_MODE"] = "disabled"  # else Ray leaves a token in the home folder, which later clusters ask for
    import ray as package

    from dissensus.engine.ray import RayExecutor

    package.init(num_cpus=cores(), include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    of, *specs = trivial(data, n)
    for shared in (True, False):
        ledger = Ledger(tempfile.mkdtemp())
        execute(of, ledger)
        RayExecutor(shared_folder=shared).run([of, *specs[:20]], ledger)  # its workers have imported everything
        seconds = timed(partial(RayExecutor(shared_folder=shared, most_under_way=3_000).run, specs, ledger))
        how = "through a shared folder" if shared else "back through Ray"
        print(
            f"Ray, {n:,} trivial specs {how}: {seconds:.1f} s, {seconds / n * 1e3:.1f} ms each; "
            f"the driver used {memory():.0f} MiB",
            flush=True,
        )
        assert len(ledger.ids()) == n + 1
        shutil.rmtree(ledger.folder)
    package.shutdown()


def trivial(data, n):
    """A training run, and specs that read its record and compute next to nothing."""
    of = replace(RECIPE, epochs=1).spec(data, 0)
    settings = ({"name": "lowest", "column": "train_loss", "tolerance": 1e-6 * (number + 1)} for number in range(n))
    return [of, *(Spec("select", each, {"of": (of.id,)}) for each in settings)]


def drive(data, folder, n, workers=4):
    """An executor of its own on a shared ledger; prints how many runs it computed, and its seconds."""
    specs, kinds = trivial(data, n), collections.Counter()
    began = time.perf_counter()
    result = LocalExecutor(workers, Execution(threads=1)).run(specs, Ledger(folder), lambda e: kinds.update([e.kind]))
    assert not result.failed, next(iter(result.failed.values()))
    print(json.dumps({"done": kinds["done"], "seconds": time.perf_counter() - began}))


def shared(data, n, drivers=2):
    """Drivers on one ledger: nothing is computed twice. And what a lock costs, in calls that change the file system."""
    ledger = Ledger(tempfile.mkdtemp())
    execute(trivial(data, 0)[0], ledger)
    command = [sys.executable, __file__, "--drive", str(ledger.folder), "--specs", str(n)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(drivers)]
    told = [json.loads(child.communicate()[0]) for child in children]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert sum(each["done"] for each in told) == n, "a run was computed twice, or not at all"
    assert len(ledger.ids()) == n + 1
    seconds = max(each["seconds"] for each in told)
    print(
        f"{drivers} drivers, {4 * drivers} workers, {n:,} trivial specs: {seconds:.1f} s, {n / seconds:.0f} per second, "
        f"{(used.ru_utime + used.ru_stime) / n * 1e3:.1f} ms of processor each with start-up; shares "
        f"{', '.join(str(each['done']) for each in told)}",
        flush=True,
    )
    calls, heard = collections.Counter(), [False]
    sys.addaudithook(lambda event, _: calls.update([event]) if heard[0] else None)
    changes = ("open", "os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.utime")
    for name, work in (
        ("a lock taken and released", lambda number: locks.take(ledger.lock_file(f"probe{number}")).release()),
        (
            "a trivial run published",
            lambda number: ledger.publish(Run(Spec("select", {"k": number}), {}, {}, {}, {}), {}, {}),
        ),
    ):
        began, cpu = time.perf_counter(), time.process_time()
        heard[0] = True
        for number in range(500):
            work(number)
        heard[0] = False
        each, of_cpu = (time.perf_counter() - began) / 500, (time.process_time() - cpu) / 500
        counted = ", ".join(f"{calls[event] / 500:.0f} {event.removeprefix('os.')}" for event in changes if calls[event])
        print(f"{name}: {each * 1e3:.2f} ms ({of_cpu * 1e3:.2f} ms of processor), {1 / each:.0f} per second; {counted}")
        calls.clear()
    shutil.rmtree(ledger.folder)


def timed(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def memory():
    """MiB in use at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()

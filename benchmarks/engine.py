"""The engine: two workers against one, the cost of a run beside training alone, threads or processes, many runs.

Asserted: 16 equal runs with 2 workers take at most 0.6 of the time with 1 (each with one thread), and a run costs less
than 0.3 s more than calling `train.fit` for the same epochs. Printed: 2 workers × 1 thread against 1 worker × 2 threads,
which sets the default; a summary of 10,000 runs; `--specs N` trivial specs through plan, ledger and executor (100,000
for the figures in docs/scaling.md).
"""

import argparse
import json
import resource
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from dissensus import datasets, random, train
from dissensus.executors import Agenda, Event, local
from dissensus.ledger import Ledger
from dissensus.models import Smallcnn
from dissensus.optim import AdamW
from dissensus.recipe import Recipe
from dissensus.runner import Execution, execute
from dissensus.runs import Run, Spec
from dissensus.stage import Stage
from timing import best_of

RECIPE = Recipe(model=Smallcnn(), optimiser=AdamW(lr=0.01), epochs=80, batch=64)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--specs", type=int, default=2_000)
    chosen = arguments.parse_args()
    data = datasets.load("digits")
    overhead(data)
    scaling(data)
    summary(data)
    many(chosen.specs)


def overhead(data):
    torch.set_num_threads(1)
    spec = replace(RECIPE, epochs=10).spec(data, 0)
    stage = Stage.of(spec)

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
    specs = [RECIPE.spec(data, seed) for seed in range(16)]

    def runs(workers, threads):
        def go():
            folder = tempfile.mkdtemp()
            ended = local.run_all(specs, Ledger(folder), workers=workers, execution=Execution(threads=threads))
            assert not ended.failed
            shutil.rmtree(folder)

        return go

    seconds, _ = best_of(1, one=runs(1, 1), two=runs(2, 1), threads=runs(1, 2))
    ratio = seconds["two"] / seconds["one"]
    print(
        f"16 runs: 1 worker {seconds['one']:.1f} s | 2 workers {seconds['two']:.1f} s | {ratio:.2f} of the time | "
        f"1 worker with 2 threads {seconds['threads']:.1f} s"
    )
    assert ratio <= 0.6


def summary(data, n=10_000):
    folder = Path(tempfile.mkdtemp())
    pattern = execute(
        replace(RECIPE, epochs=200, model=Smallcnn(width=2, hidden=4)).spec(data, 0), Ledger(folder / "one")
    )
    ledger = Ledger(folder / "many")
    for number in range(n):
        spec = Spec("train", {**pattern.spec.settings, "seed": number})
        place = ledger.folder / spec.id
        place.mkdir(parents=True)
        (place / "run.json").write_text(json.dumps(replace(pattern, spec=spec).to_json()))
    started = time.perf_counter()
    assert len(ledger.summaries()) == n
    first = time.perf_counter() - started
    started = time.perf_counter()
    assert len(Ledger(ledger.folder).summaries()) == n
    print(
        f"summary of {n:,} runs of 200 epochs: {first:.2f} s the first time, {time.perf_counter() - started:.2f} s after"
    )
    shutil.rmtree(folder)


def many(n):
    """Specs that cost nothing, so that all the time is ours."""
    folder = Path(tempfile.mkdtemp())
    ledger = Ledger(folder)
    started = time.perf_counter()
    specs = [Spec("train", {"seed": number}) for number in range(n)]
    agenda = Agenda(specs, ledger, listen=lambda _: None)
    while (spec := agenda.next()) is not None:
        ledger.publish(Run(spec, {}, {}, {}, {}), {}, {})
        agenda.told(Event("done", spec.id))
    seconds = time.perf_counter() - started
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    files = sum(1 for _ in ledger.folder.rglob("*"))
    print(f"{n:,} trivial specs: {seconds:.1f} s, {seconds / n * 1e3:.2f} ms each, {memory:.0f} MiB, {files:,} files")
    assert len(ledger.ids()) == n
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()

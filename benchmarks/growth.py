"""How time and memory grow with the size of what is given: `score`, `inspect`, `runs ls`, a report and `fit`.

    python benchmarks/growth.py [--only score] [--most 1000000]

Each command runs in a process of its own, as a user runs it, on two or more sizes, three times each in turns; the least
seconds of the processor count, those of the program and of the kernel together: a busy machine stretches them less than
those of the clock. Both are printed, since those of the kernel vary (four times as many in one turn as in another, by how
many large pages of memory happen to be free). Peak memory is fitted in the same way. The start of the program
(imports) is measured with a tiny input and taken off: time = start + c · size^exponent, from the two largest sizes.
Asserted: exponents of at most 1.05 for time and memory (--slack adds to it), `score` of 1,000,000 × 10 in 15 s and 1 GB,
`runs ls` of 10,000 runs in 2 s beyond its start.
"""

import argparse
import gzip
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np

TINY = 100
SIZES = {
    "score": (10_000, 250_000, 1_000_000),
    "inspect": (500_000, 2_000_000),
    "runs_ls": (10_000, 40_000),
    "report": (5_000, 20_000),
    "fit": (4_000, 16_000),
}
CLASSES, VOTES, SEEDS = 10, 10, 50
TURNS = 3


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", choices=[*SIZES, "wide"], action="append")
    arguments.add_argument("--most", type=int, default=10**9, help="no larger sizes than this")
    arguments.add_argument("--slack", type=float, default=0.0, help="added to the exponents that are asserted")
    chosen = arguments.parse_args()
    failed = []
    for name in chosen.only or SIZES:
        folder = Path(tempfile.mkdtemp())
        try:
            problem = wide(folder) if name == "wide" else grown(name, folder, chosen.most, chosen.slack)
        finally:
            shutil.rmtree(folder)
        failed += [problem] if problem else []
    assert not failed, "; ".join(failed)


def grown(name, folder, most, slack):
    """Measure one command; what is wrong with its growth, or nothing."""
    sizes = [TINY, *(size for size in SIZES[name] if size <= most)]
    with get_context("spawn").Pool(1) as elsewhere:  # a process begins with the peak memory of the one that starts it
        commands = {size: elsewhere.apply(globals()[name], (made(folder / str(size)), size)) for size in sizes}
    turns = [{size: timed(command) for size, command in commands.items()} for _ in range(TURNS)]
    measured = {size: Cost(*map(min, zip(*(turn[size] for turn in turns), strict=True))) for size in sizes}
    for size, cost in measured.items():
        shown = f"{cost.user:7.2f} s + {cost.kernel:.2f} s of the kernel ({cost.clock:.2f} s by the clock)"
        print(f"{name:<8} {size:>9,}  {shown}  {cost.megabytes:7,.0f} MB", flush=True)
    start = measured[TINY]
    beyond = {size: cost.processor - start.processor for size, cost in measured.items()}
    small, large = sizes[-2:]
    factor = math.log(large / small)
    exponent = math.log(max(0.01, beyond[large]) / max(0.01, beyond[small])) / factor
    memory = [max(1, measured[size].megabytes - start.megabytes) for size in (small, large)]
    of_memory = math.log(memory[1] / memory[0]) / factor
    shown = f"exponent {exponent:.2f}, of memory {of_memory:.2f}"
    print(f"{name:<8} {shown}, between {small:,} and {large:,} (start: {start.processor:.2f} s)", flush=True)
    if round(max(exponent, of_memory), 2) > 1.05 + slack:
        return f"{name} grows with exponent {exponent:.2f}, its memory with {of_memory:.2f}"
    if name == "score" and large == 1_000_000 and (measured[large].processor > 15 or measured[large].megabytes > 1000):
        return "score of 1,000,000 items takes more than 15 s or 1 GB"
    if name == "runs_ls" and beyond.get(10_000, 0) > 2:
        return "runs ls of 10,000 runs takes more than 2 s"
    return ""


def made(folder):
    folder.mkdir()
    return folder


class Cost(NamedTuple):
    """Seconds of the processor in the program and in the kernel, seconds of the clock, peak megabytes."""

    user: float
    kernel: float
    clock: float
    megabytes: float

    @property
    def processor(self):
        """Seconds in the program and in the kernel."""
        return self.user + self.kernel


def timed(command):
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    clock = time.perf_counter() - began
    assert status == 0, process.stderr.read().decode()
    process.stderr.close()
    process.returncode = 0
    return Cost(usage.ru_utime, usage.ru_stime, clock, usage.ru_maxrss * 1024 / 1e6)


def dissensus(*words):
    return [sys.executable, "-m", "dissensus", *map(str, words)]


def crowd(items, classes):
    """Counts and the probabilities of a model, made in parts."""
    rng = np.random.default_rng(0)
    counts, probs = np.empty((items, classes), np.int16), np.empty((items, classes))
    for first in range(0, items, 10_000):
        part = slice(first, min(first + 10_000, items))
        truth = rng.dirichlet(np.full(classes, 0.5), size=part.stop - first)
        counts[part] = rng.multinomial(VOTES, truth)
        noisy = (truth + 0.02) * np.exp(0.5 * rng.normal(size=truth.shape))
        probs[part] = noisy / noisy.sum(1, keepdims=True)
    return counts, probs


def score(folder, items, classes=CLASSES):
    counts, probs = crowd(items, classes)
    np.save(folder / "counts.npy", counts)
    np.save(folder / "probs.npy", probs)
    return dissensus("score", folder / "probs.npy", folder / "counts.npy", "--json")


def wide(folder, items=100_000, classes=1_000):
    """Many classes: memory is bounded by a small number of matrices of the predictions' size."""
    cost = timed(score(folder, items, classes))
    matrix = items * classes * 8 / 1e6
    shown = f"{cost.user:.1f} s, {cost.megabytes:,.0f} MB; the predictions are {matrix:,.0f} MB"
    print(f"score    {items:,} x {classes:,}: {shown}")
    return "" if cost.megabytes < 3 * matrix + 400 else "score needs more than three matrices of the predictions' size"


def inspect(folder, items):
    """A long table of votes, as most people have them."""
    rng = np.random.default_rng(0)
    item, label = np.repeat(np.arange(items), 3), rng.integers(CLASSES, size=3 * items)
    lines = (f"item{i},worker{w},class{k}\n" for i, w, k in zip(item, np.arange(3 * items) % 997, label, strict=True))
    with (folder / "votes.csv").open("w") as file:
        file.write("item,annotator,label\n")
        file.writelines(lines)
    return dissensus("inspect", folder / "votes.csv", "--json")


def runs_ls(folder, runs):
    """Records of a real run, with other seeds, none of which was listed before."""
    from dissensus.store.ledger import Ledger
    from dissensus.store.spec import Run, Spec

    source, place = folder / "pattern", folder / f"runs{runs}-{time.monotonic_ns()}"
    pattern = a_run(source)
    text = (source / pattern.id / "run.json").read_text()
    for number in range(runs):
        spec = Spec("train", {**pattern.spec.settings, "seed": number + 1})
        (place / spec.id).mkdir(parents=True)
        record = text.replace(f'"seed": {pattern.spec.settings["seed"]}', f'"seed": {number + 1}')
        (place / spec.id / "run.json").write_text(record.replace(pattern.id, spec.id))
    assert isinstance(next(iter(Ledger(place))), Run)
    # The index that the first listing leaves is removed, so that every listing is a first one.
    return ["sh", "-c", f'rm -f "{place}/.index.json"; exec "$@"', "sh", *dissensus("runs", "ls", place)]


def a_run(folder):
    """A finished run of 50 epochs, computed once."""
    from dissensus import datasets
    from dissensus.engine.one_run import execute
    from dissensus.models import Linear
    from dissensus.store.ledger import Ledger
    from dissensus.training.recipe import Recipe

    return execute(Recipe(model=Linear(), epochs=50, batch=256).spec(datasets.load("digits"), 0), Ledger(folder))


def report(folder, runs):
    """A score table of 50 seeds and as many rows as that makes, from records alone; 10,000 runs are 200 rows."""
    from dissensus.experiments.description import Experiment, ScoreTable, to_json
    from dissensus.store.spec import Run, Spec

    pattern, rng = a_run(folder / "pattern"), np.random.default_rng(0)
    lines, cells = {}, {}
    for row in range(max(2, runs // SEEDS)):
        of_row = cells.setdefault(f"Method {row}", {"": {}})[""]
        for seed in range(SEEDS):
            target = {"name": "smoothed", "eps": row / 1000}
            spec = Spec("train", {**pattern.spec.settings, "target": target, "seed": seed})
            scores = scaled(pattern.scores, 1 + 0.1 * rng.random())
            run = Run(spec, scores, pattern.curve, pattern.facts, pattern.provenance)
            lines[spec.id] = json.dumps(run.to_json())
            of_row[str(seed)] = spec.id
    out = folder / f"report{runs}"
    out.mkdir(exist_ok=True)
    with gzip.open(out / "records.jsonl.gz", "wt", compresslevel=1) as records:
        records.writelines(f"{lines[run_id]}\n" for run_id in sorted(lines))
    table = ScoreTable(
        key="scores", title="Scores", cells=cells, baseline="Method 0", columns=("soft_nll", "kl", "accuracy"),
        methods=dict.fromkeys(cells, "smoothed × soft"),
    )  # fmt: skip
    experiment = Experiment(key="growth", title="Growth", question="?", scale="laptop", command="-", exhibits=(table,))
    (out / "experiment.json").write_text(json.dumps(to_json(experiment)))
    return dissensus("report", out, "--records", out / "records.jsonl.gz")


def scaled(scores, factor):
    """The same scores, times a number."""
    if isinstance(scores, dict):
        return {name: scaled(value, factor) for name, value in scores.items()}
    return scores * factor if isinstance(scores, float) else scores


def fit(folder, items):
    """The default model of `fit`, whatever it is, on 20 features."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLASSES, 20))
    label = rng.integers(CLASSES, size=items)
    counts = rng.multinomial(5, 0.6 * np.eye(CLASSES)[label] + 0.04)
    np.save(folder / "counts.npy", counts)
    np.save(folder / "features.npy", (centres[label] + rng.normal(size=(items, 20))).astype(np.float32))
    return dissensus("fit", folder / "counts.npy", "--features", folder / "features.npy", "--out", folder / "model")


if __name__ == "__main__":
    main()

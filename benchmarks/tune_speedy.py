"""The search for the two settings of `speedy` on CIFAR-10H, through the same runner as everything else.

    python benchmarks/tune_speedy.py                          # docs/results/003/tuning.md, made from the log
    python benchmarks/tune_speedy.py LEDGER CANDIDATE…        # also: --deliveries soft,sls --seeds 100,101 --part 0/2

A candidate is judged by the mean, over soft labels, SLS and majority vote, of the soft NLL to all votes at the last
epoch: never by one delivery, so that a comparison of deliveries favours none. Seeds are from 100 on; those reported are
0 to 9. A finished run is in the ledger and is not run again; an interrupted one goes on. `--part 0/2` and `--part 1/2`
share the work between two processes.

The log, docs/results/003/tuning.jsonl, has a line a run. Lines marked `probe` are of a first, shorter search by a script
that knew more options than are left: their settings name them.
"""

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from dissensus import datasets
from dissensus.delivery import Sampled
from dissensus.recipes.speedy import LAPTOP
from dissensus.runner import Execution, execute
from dissensus.targets import Majority

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "003"
LOG, PAGE = RESULTS / "tuning.jsonl", RESULTS / "tuning.md"
FIRST_SEED = 100

DELIVERIES = {
    "soft": {},
    "sls": {"delivery": Sampled()},
    "majority": {"target": Majority()},
}

CANDIDATES = {"laptop": LAPTOP}

TUNED = ("model", "augment", "optimiser", "schedule", "averaging", "epochs", "batch")


def tune(ledger, names, deliveries, seeds, part, threads):
    """Run what is not there yet, and log it."""
    data = datasets.load("cifar10h")
    wanted = [(name, delivery, seed) for name in names for delivery in deliveries for seed in seeds]
    mine, parts = part
    for name, delivery, seed in wanted[mine::parts]:
        recipe = replace(CANDIDATES[name], **DELIVERIES[delivery])
        run = execute(recipe.spec(data, seed), ledger, Execution(threads=threads))
        note(name, delivery, run)


def note(name, delivery, run):
    """A line in the log, if the run has none."""
    logged = [json.loads(line) for line in LOG.read_text().splitlines()] if LOG.exists() else []
    if any(line.get("run") == run.id for line in logged):
        return
    settings, raw = run.spec.settings, run.scores["last"]["raw"]
    line = {
        "by": "runner",
        "name": name,
        "delivery": delivery,
        "seed": settings["seed"],
        "flops": run.facts["training_flops"],
        "seconds": run.provenance["seconds"],
        "threads": run.provenance["threads"],
        "soft_nll": raw["soft_nll"],
        "accuracy": raw["accuracy"],
        "settings": {field: settings[field] for field in TUNED},
        "run": run.id,
    }
    with LOG.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(f"{name} {delivery} seed {line['seed']}: soft NLL {line['soft_nll']:.4f}, accuracy {line['accuracy']:.4f}")


def page(lines):
    """The log as tables: candidates that were run with every delivery, then all the rest."""
    full, rest = [], []
    for name, runs in grouped(lines).items():
        means = {delivery: fmean(one["soft_nll"] for one in of) for delivery, of in runs.items()}
        (full if set(means) == set(DELIVERIES) else rest).append((name, runs, means))
    full.sort(key=lambda one: fmean(one[2].values()))
    head = "| setting | PFLOP | epochs | soft | SLS | majority | mean | accuracy | runs |\n|---|---|---|---|---|---|---|---|---|"
    rows = [row(*one) for one in (*full, *rest)]
    return "\n".join([head, *rows])


def grouped(lines):
    """name -> delivery -> lines."""
    groups = {}
    for line in lines:
        groups.setdefault(line["name"], {}).setdefault(line["delivery"], []).append(line)
    return groups


def row(name, runs, means):
    every = [line for of in runs.values() for line in of]
    cells = [f"{means[delivery]:.4f}" if delivery in means else "" for delivery in DELIVERIES]
    mean = f"**{fmean(means.values()):.4f}**" if len(means) == len(DELIVERIES) else ""
    accuracy = fmean(line["accuracy"] for line in every)
    seeds = ", ".join(str(seed) for seed in sorted({line["seed"] for line in every}))
    flops, epochs = every[0]["flops"] / 1e15, every[0]["settings"]["epochs"]
    return f"| {name} | {flops:.4f} | {epochs} | {' | '.join(cells)} | {mean} | {accuracy:.4f} | {len(every)} (seed {seeds}) |"

"""The search for the two settings of `speedy` on CIFAR-10H, through the same runner as everything else.

    python benchmarks/tune_speedy.py                      # the tables of its page, anew from the log
    python benchmarks/tune_speedy.py LEDGER CANDIDATE…    # also: --deliveries soft,sls --seeds 100,101 --part 0/2

A candidate is judged by the mean, over soft labels, SLS and majority vote, of the soft NLL to all votes at the last
epoch: not by one delivery, so that a comparison of deliveries favours none. Seeds are from 100 on; those reported are 0
to 9. A finished run is in the ledger and is not run again; an interrupted one goes on. `--part 0/2` and `--part 1/2`
share the work between two processes.

The log, tuning.jsonl in docs/results/003-regularised, has a line per run. Lines `by` probe are of a first search by a
script that knew options which were dropped: their settings name them.
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from dissensus import datasets
from dissensus.engine.one_run import Execution, execute
from dissensus.labels.delivery import Sampled
from dissensus.labels.targets import Majority
from dissensus.models import Speedy
from dissensus.recipes.speedy_settings import AUGMENT, LAPTOP, QUALITY
from dissensus.store.ledger import Ledger
from dissensus.training.augmentation import CropFlip, Cutout, InTurn
from dissensus.training.averaging import Ema
from dissensus.training.distortions import Jitter
from dissensus.training.muon import Muon
from dissensus.training.optimisers import Sgd
from dissensus.training.schedules import LinearDecay

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "003-regularised"
LOG, PAGE = RESULTS / "tuning.jsonl", RESULTS / "tuning.md"
BEGIN, END = "<!-- from the log -->\n", "<!-- end -->"
FIRST_SEED = 100

DELIVERIES = {"soft": {}, "sls": {"delivery": Sampled()}, "majority": {"target": Majority()}}

CROPPED = CropFlip(padding=4, reflect=True)
FIRST = replace(LAPTOP, augment=CROPPED, optimiser=Sgd(lr=0.2, nesterov=True), averaging=Ema(3.0))
DECAYED = replace(FIRST, optimiser=Sgd(lr=0.2, weight_decay=1e-3, nesterov=True))

HALF = replace(QUALITY, schedule=LinearDecay(warmup=6), averaging=Ema(3.0), epochs=30, precision="auto")
MUON = replace(HALF, optimiser=Muon(lr=0.02, weight_decay=0.1, other_weight_decay=1e-3))
JITTERED = InTurn((Jitter(0.2, 0.2), CROPPED))
NARROW = replace(MUON, model=Speedy(widths=(32, 96, 192)), schedule=LinearDecay(warmup=8), epochs=42)

CANDIDATES = {
    "averaged": FIRST,
    "averaged, cutout 8, weight decay 1e-3": replace(DECAYED, augment=InTurn((CROPPED, Cutout(8)))),
    "averaged, distorted, weight decay 1e-3": LAPTOP,
    "quality, distorted": QUALITY,
    "quality, distorted, cutout 8": replace(QUALITY, augment=InTurn((*AUGMENT.parts, Cutout(8)))),
    "half, distorted": HALF,
    "half, muon, distorted": MUON,
    "half, muon, distorted, decay 0.2": replace(MUON, optimiser=replace(MUON.optimiser, weight_decay=0.2)),
    "half, muon, distorted, lr 0.04": replace(MUON, optimiser=replace(MUON.optimiser, lr=0.04)),
    "half, muon, jittered": replace(MUON, augment=JITTERED),
    "half, muon, jittered, cutout 8": replace(MUON, augment=InTurn((*JITTERED.parts, Cutout(8)))),
    "half, muon, narrow, distorted": NARROW,
}
"""Add one here to try it."""

TUNED = ("model", "augment", "optimiser", "schedule", "averaging", "epochs", "batch", "precision")


def tune(ledger, names, deliveries, seeds, part, threads):
    """Run what is not there yet, and log it."""
    data = datasets.load("cifar10h")
    wanted = [(name, delivery, seed) for name in names for delivery in deliveries for seed in seeds]
    mine, parts = part
    for name, delivery, seed in wanted[mine::parts]:
        recipe = replace(CANDIDATES[name], **DELIVERIES[delivery])
        note(name, delivery, execute(recipe.spec(data, seed), ledger, Execution(threads=threads)))


def note(name, delivery, run):
    """A line in the log, if the run has none."""
    if any(line.get("run") == run.id for line in logged()):
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
    print(f"{name}, {delivery}, seed {line['seed']}: soft NLL {line['soft_nll']:.4f}, accuracy {line['accuracy']:.4f}")


def logged():
    """The lines of the log."""
    return [json.loads(line) for line in LOG.read_text().splitlines()] if LOG.exists() else []


def table(lines):
    """A row a setting, in the order they were first tried."""
    groups = {}
    for line in lines:
        groups.setdefault((line["name"], line["settings"]["epochs"]), []).append(line)
    head = ["setting", "by", "PFLOP", "epochs", *DELIVERIES, "mean of three", "accuracy", "seeds", "seconds"]
    return "\n".join([cells(head), cells(["---"] * len(head)), *(cells(row(*key, of)) for key, of in groups.items())])


def row(name, epochs, lines):
    """The cells of one setting; accuracy and seconds are means over its runs."""
    scores = {delivery: [one["soft_nll"] for one in lines if one["delivery"] == delivery] for delivery in DELIVERIES}
    means = {delivery: fmean(of) for delivery, of in scores.items() if of}
    whole = f"{fmean(means.values()):.4f}" if len(means) == len(DELIVERIES) else ""
    return [
        name,
        lines[0]["by"],
        f"{lines[0]['flops'] / 1e15:.4f}",
        str(epochs),
        *(f"{means[delivery]:.4f}" if delivery in means else "" for delivery in DELIVERIES),
        whole,
        f"{fmean(one['accuracy'] for one in lines):.4f}",
        ", ".join(str(seed) for seed in sorted({one["seed"] for one in lines})),
        f"{fmean(one['seconds'] for one in lines):.0f}",
    ]


def cells(values):
    """A line of a Markdown table."""
    return f"| {' | '.join(values)} |"


def main(arguments):
    """Tune where a ledger is named; write the page's table either way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledger", nargs="?")
    parser.add_argument("candidates", nargs="*", metavar="candidate", help=", ".join(CANDIDATES))
    parser.add_argument("--deliveries", default=",".join(DELIVERIES))
    parser.add_argument("--seeds", default=str(FIRST_SEED))
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args(arguments)
    if asked.ledger is not None:
        seeds = [int(seed) for seed in asked.seeds.split(",")]
        if min(seeds) < FIRST_SEED:
            parser.error(f"seeds below {FIRST_SEED} are reported ones, and must not be tuned on")
        part = tuple(map(int, asked.part.split("/")))
        tune(Ledger(asked.ledger), asked.candidates, asked.deliveries.split(","), seeds, part, asked.threads)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{table(logged())}\n{END}{after}")


if __name__ == "__main__":
    main(sys.argv[1:])

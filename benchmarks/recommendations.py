"""What `dissensus compare` recommends on three real crowds, beside what the recipes of Singh et al. 2025 show of them.

    python benchmarks/recommendations.py [--crowds popquorn] [--folder DIR] [--workers 1]

Votes and features are written as a user has them, and `compare` runs with its defaults; an interrupted call goes on where
--folder is kept. The recipes' word comes from the committed records of docs/results/002, judged as its pages are: soft
labels, where they are shown to beat hard labels in KL to the votes and no delivery is shown to beat them. Fails where the
two do not say the same.

Features: `dissensus embed popquorn minilm`, `… chaosnli minilm`, `… cifar10h_hard efficientnet-lite0`. A crowd whose data
or features are absent is left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from dissensus import datasets
from dissensus.engine.measures.renewed import RenewedRuns
from dissensus.errors import InputError
from dissensus.store.records import Records
from dissensus.votes import write_votes

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
import result_pages

CROWDS = {
    "chaosnli": ("ChaosNLI", "minilm"),
    "popquorn": ("POPQUORN", "minilm"),
    "cifar10h_hard": ("CIFAR-10H-Hard", "efficientnet-lite0"),
}
LOWER = "{}: soft labels give a lower KL to the votes than hard labels (p < 0.001 in the paper)."
ALIKE = "{}: {} and soft labels are alike in KL (margin 0.024)."


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--crowds", nargs="+", choices=CROWDS, default=list(CROWDS))
    arguments.add_argument("--folder", type=Path, help="Keep the files here (default: a temporary folder).")
    arguments.add_argument("--workers", default="1")
    chosen = arguments.parse_args()
    claims, differ = judged(), []
    with tempfile.TemporaryDirectory() as temporary:
        for name in chosen.crowds:
            title, features = CROWDS[name]
            try:
                data = datasets.load(name, features=features)
            except InputError as absent:
                print(f"{title} is left out: {absent.what}")
                continue
            began = time.perf_counter()
            found = recommended(data, (chosen.folder or Path(temporary)) / name, chosen.workers)
            recipes = word_of_recipes(claims, title)
            print(
                f"{title}: compare says {found['use']}, the recipes say {recipes} ({time.perf_counter() - began:.0f} s)"
            )
            for method, contrast in found["compared_with"].items():
                low, high = contrast["interval"]
                shown = f"{contrast['difference']:+.4f} ({low:+.4f} to {high:+.4f})"
                print(f"  {method} minus Soft in {found['metric']}: {shown}, {contrast['verdict']}", flush=True)
            print(f"  detectable: {found['detectable_difference']:.4f}")
            differ += [title] if found["use"] != recipes else []
    assert not differ, f"compare and the recipes differ on {', '.join(differ)}"


def judged():
    """The claims of the committed records, by their text."""
    runs = Records(result_pages.RESULTS / "002" / result_pages.RECORDS)
    folder = result_pages.read_folder(
        "002", "002", result_pages.PAPERS["002"].homes["002"], runs, RenewedRuns(result_pages.Together((runs,)))
    )
    return {claim.claim.text: claim for claim in folder.claims}


def word_of_recipes(claims, title):
    """`Soft`, or what is shown to be better."""
    for method in ("SLS", "Multipass"):
        effect = claims[ALIKE.format(title, method)].effect
        if effect.high < 0:
            return method
    return "Soft" if claims[LOWER.format(title)].word == "holds" else "not shown"


def recommended(data, folder, workers):
    """What `compare` writes about a data set."""
    folder.mkdir(parents=True, exist_ok=True)
    write_votes(data.votes, folder / "votes.csv")
    np.savez(folder / "features.npz", x=data.x.numpy(), ids=np.array(data.votes.items))
    command = ["compare", "votes.csv", "--features", "features.npz", "--out", "comparison", "--workers", workers]
    done = subprocess.run(
        [sys.executable, "-m", "dissensus", *command], cwd=folder, stdout=subprocess.DEVNULL, check=False
    )
    assert done.returncode == 0, f"compare failed on {folder.name}"
    return json.loads((folder / "comparison" / "recommendation.json").read_text())


if __name__ == "__main__":
    main()

"""Dawid–Skene on 500,000 votes of 2,500 annotators, 10 classes, against crowd-kit: the same iterations of EM.

    python benchmarks/aggregators.py [--iterations 10] [--rounds 5]

It needs the extra `aggregators`. Both start at the shares of the votes and take the same number of steps; crowd-kit has
no smoothing but a lower bound of 1e-10, so ours has that here. The claim is at least 10 times faster, and no probability
apart by 1e-4. About a minute.
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from crowdkit.aggregation import DawidSkene

from dissensus.labels import dawid_skene
from dissensus.votes.votes import Votes, row_names
from timing import best_of

VOTES, ANNOTATORS, CLASSES, PER_ITEM = 500_000, 2_500, 10, 5


def crowd():
    """Annotators of very different skill; a vote that is not right is for any class."""
    rng = np.random.default_rng(0)
    items = VOTES // PER_ITEM
    gold, skill = rng.integers(0, CLASSES, items), rng.uniform(0.2, 0.95, ANNOTATORS)
    item, annotator = np.repeat(np.arange(items), PER_ITEM), rng.integers(0, ANNOTATORS, VOTES)
    knows = rng.random(VOTES) < skill[annotator]
    label = np.where(knows, gold[item], rng.integers(0, CLASSES, VOTES))
    names = [row_names(n) for n in (items, CLASSES, ANNOTATORS)]
    return Votes(item, label, names[0], names[1], annotator, names[2])


def main(iterations, rounds):
    votes = crowd()
    frame = pd.DataFrame({"task": votes.item, "worker": votes.annotator, "label": votes.label})

    def ours():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # not converged after so few iterations: on purpose
            return dawid_skene.posterior(votes, iterations=iterations, tolerance=0, smoothing=1e-10)

    def theirs():
        return DawidSkene(n_iter=iterations, tol=-np.inf).fit_predict_proba(frame)

    seconds, results = best_of(rounds, ours=ours, crowdkit=theirs)
    in_order = results["crowdkit"].reindex(index=range(len(votes.items)), columns=range(CLASSES)).to_numpy()
    apart, ratio = float(np.abs(results["ours"] - in_order).max()), seconds["crowdkit"] / seconds["ours"]
    print(
        f"Dawid–Skene, {iterations} iterations: ours {seconds['ours']:.2f} s | crowd-kit {seconds['crowdkit']:.2f} s "
        f"| {ratio:.1f}x | max |Δ| {apart:.0e}"
    )
    assert apart < 1e-4, "the posteriors differ"
    assert ratio >= 10, "less than 10 times faster"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    main(**vars(parser.parse_args()))

"""Is the advice of `dissensus plan` right? Votes are hidden, the advice is asked, and the hidden votes judge it.

    python benchmarks/plan_validation.py hidden chaosnli minilm
    python benchmarks/plan_validation.py hidden cifar10h efficientnet-lite0
    python benchmarks/plan_validation.py votes chaosnli minilm --items 1200
    python benchmarks/plan_validation.py shares chaosnli minilm

`hidden`: a fifth of the items, with all their votes, is for the truth alone. Of the others, a base of n items with k
votes each is what `plan` sees: learning curves by five folds of the base, and the formula. Half as many votes again are
then really spent, on new items and on the same ones, and both models are judged on the fifth. Means over draws of the
base.

`votes`: how many votes per item are enough, with all items? Each number against all votes, in KL and in the correlation
of entropies, over five folds.

`shares`: the same question without a model: how well do the shares of k votes tell those of the other votes? KL of the
shares, shrunk by the Dirichlet prior of `plan`, and the correlation of their entropies; means over ten draws.

Features come from `dissensus embed`.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from statistics import fmean

import torch

from dissensus import datasets, metrics, stats
from dissensus.datasets.data import Data
from dissensus.engine.measures.learning_point import first_items, first_votes, judged_logistic
from dissensus.experiments.vote_budget import Spending, grid_of, next_vote_values
from dissensus.experiments.vote_plan_study import FOLDS, FRACTIONS, VOTES
from dissensus.report.spending_advice import MetricOutlook, outlook
from dissensus.training.splits import Folds
from dissensus.votes.votes import Votes

BASES = [(300, 3), (300, 20), (600, 3), (600, 20)]
"""(items, votes per item) that `plan` is shown"""


def base_of(data: Data, rows: torch.Tensor, votes: int, seed: int) -> Data:
    """What `plan` is shown."""
    assert data.x is not None
    ids, counts = tuple(data.ids[row] for row in rows.tolist()), first_votes(data, rows, votes, seed)
    shown = Votes.from_counts(counts.numpy(), classes=data.classes, items=ids)
    return replace(data, ids=ids, x=data.x[rows], votes=shown, gold=None, texts=None, truth=None)


def advice(base: Data, budget: int) -> MetricOutlook:
    assert base.counts is not None
    pool, most = len(base) - -(-len(base) // FOLDS), int(base.counts.sum(1).median())
    curves: dict[str, dict[tuple[int, int], float]] = {}
    for seed in range(FOLDS):
        train, held_out = Folds(FOLDS, seed).split(base.labels, seed)
        for items in (pool // part for part in FRACTIONS):
            rows = first_items(train, items, seed)
            for votes in grid_of(VOTES, most):
                scores = judged_logistic(base, rows, first_votes(base, rows, votes, seed), held_out, seed)
                curves.setdefault(str(seed), {})[items, votes] = scores["soft_nll"] or 0.0
    spending = Spending(len(base), float(base.counts.sum(1).double().mean()), budget)
    return outlook("soft_nll", curves, spending, 1 / (FOLDS - 1))


def hidden(data: Data, bases: list[tuple[int, int]], draws: int) -> None:
    print(
        "| base | budget | expected: new items | expected: more votes | advice | really: new items | really: more votes |"
    )
    print("|---|---|---|---|---|---|---|")
    train, test = Folds(5, 0).split(data.labels, 0)
    right = 0
    for items, votes in bases:
        budget = items * votes // 2
        expected: list[MetricOutlook] = []
        gained: dict[str, list[float]] = {"items": [], "votes": []}
        for draw in range(draws):
            rows = first_items(train, items, draw)
            expected.append(advice(base_of(data, rows, votes, draw), budget))
            more = first_items(train, items + budget // votes, draw)
            before = judged_logistic(data, rows, first_votes(data, rows, votes, draw), test, draw)["soft_nll"] or 0.0
            for way, (some, each) in {"items": (more, votes), "votes": (rows, votes + budget // items)}.items():
                after = judged_logistic(data, some, first_votes(data, some, each, draw), test, draw)["soft_nll"] or 0.0
                gained[way].append(before - after)
        said = [outlook.better or "either" for outlook in expected]
        truth = "more items" if fmean(gained["items"]) > fmean(gained["votes"]) else "more votes per item"
        right += sum(advice in (truth, "either") for advice in said)
        cells = [
            f"{items:,} items × {votes} votes",
            f"{budget:,}",
            f"{fmean(outlook.more_items.mean_difference for outlook in expected):+.4f}",
            f"{fmean(outlook.more_votes.mean_difference for outlook in expected):+.4f}",
            ", ".join(f"{word} ({said.count(word)} of {draws})" for word in dict.fromkeys(said)),
            *(f"{fmean(gained[way]):+.4f} ± {stats.mean_sd(gained[way]).sd or 0.0:.4f}" for way in ("items", "votes")),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)
    print(f"\nNever against the truth: {right} of {len(bases) * draws} pieces of advice.")


def saturation(data: Data, items: int | None) -> None:
    assert data.counts is not None
    most = int(data.counts.sum(1).median())
    scores: dict[int, list[dict[str, float | None]]] = {}
    for seed in range(FOLDS):
        train, held_out = Folds(FOLDS, seed).split(data.labels, seed)
        train = first_items(train, min(items or len(train), len(train)), seed)
        for votes in grid_of(VOTES, most):
            scores.setdefault(votes, []).append(
                judged_logistic(data, train, first_votes(data, train, votes, seed), held_out, seed)
            )
    print("| votes per item | KL | above all votes | entropy corr. (Pearson) | below all votes |")
    print("|---|---|---|---|---|")
    for votes, of_votes in scores.items():
        cells = [str(votes)]
        for metric, sign in (("kl", 1), ("entropy_pearson", -1)):
            mine, everything = ([float(run[metric] or 0.0) for run in runs] for runs in (of_votes, scores[most]))
            test = stats.corrected_t(mine, everything, test_to_train=1 / (FOLDS - 1))
            gap = "" if test.low is None or test.high is None else _gap(sign * test.mean_difference, test, sign)
            cells += [f"{fmean(mine):.4f}", gap]
        print(f"| {' | '.join(cells)} |", flush=True)


def shares(data: Data, draws: int = 10) -> None:
    assert data.counts is not None
    rows, counts = torch.arange(len(data)), data.counts
    most = int(counts.sum(1).median())
    _, strength = next_vote_values(counts.numpy())
    prior = strength * data.people.mean(0)
    print("| votes per item | KL of the other votes to the shares | entropy corr. (Pearson) | entropy corr. (Spearman) |")
    print("|---|---|---|---|")
    for votes in [k for k in VOTES if k <= most // 2]:
        scores = []
        for draw in range(draws):
            seen = first_votes(data, rows, votes, draw)
            others = (counts - seen) / (counts - seen).sum(1, keepdim=True)
            told = (seen + prior) / (seen + prior).sum(1, keepdim=True)
            raw = seen / seen.sum(1, keepdim=True)
            correlations = (metrics.entropy_correlation(raw, others, kind=kind) for kind in ("pearson", "spearman"))
            scores.append((float(metrics.kl(told.log(), others).mean()), *correlations))
        columns = [None if None in column else f"{fmean(column):.4f}" for column in zip(*scores, strict=True)]
        print(f"| {votes} | {' | '.join(column or '–' for column in columns)} |")


def _gap(mean: float, test: stats.TTest, sign: int) -> str:
    low, high = sorted(sign * (end or 0.0) for end in (test.low, test.high))
    return f"{mean:+.4f} ({low:+.4f} to {high:+.4f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=["hidden", "votes", "shares"])
    parser.add_argument("data")
    parser.add_argument("features")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--bases", type=int, default=len(BASES), help="how many of them")
    parser.add_argument("--items", type=int, help="train on so many items of each fold (default: all)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    loaded = datasets.load(given.data, features=given.features)
    if given.study == "hidden":
        hidden(loaded, BASES[: given.bases], given.draws)
    elif given.study == "votes":
        saturation(loaded, given.items)
    else:
        shares(loaded)

"""How good is a model that was given so many items and so many votes of each? One point of a learning curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from dissensus import metrics, random
from dissensus.datasets.data import Data
from dissensus.datasets.data_ref import DataRef
from dissensus.engine.measures.baseline_scores import flat_inputs
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell, finite
from dissensus.engine.setup import loaded
from dissensus.errors import InputError
from dissensus.labels.delivery import shuffled_votes
from dissensus.metrics.agreement import majority
from dissensus.store.encoding import encode
from dissensus.store.ledger import Ledger
from dissensus.training.baselines import votes_baseline
from dissensus.training.splits import SplitRule


@dataclass(frozen=True)
class LearningPoint(Measure):
    """Logistic regression on `votes` votes of each of `items` training items, judged on the held-out items' all votes.

    Subsamples are nested: more items include the fewer, and more votes of an item include the fewer. The penalty is
    chosen by cross-validation on the votes that are seen. Solved exactly, so that no training noise blurs the curve.
    """

    data: DataRef
    split: SplitRule
    items: int
    votes: int
    seed: int = 0

    runs: ClassVar[int | None] = 0

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        data = loaded(self.data)
        pool, held_out = self.split.split(data.labels, self.seed)
        rows = first_items(pool, self.items, self.seed)
        counts = first_votes(data, rows, self.votes, self.seed)
        scores = judged_logistic(data, rows, counts, held_out, self.seed)
        facts = {
            "items": {"train": len(rows), "evaluation": len(held_out)},
            "votes": int(counts.sum()),
            "split": encode(self.split),
            "notes": list(data.notes),
        }
        return MeasureResult(scores, facts)


def judged_logistic(data: Data, rows: Tensor, counts: Tensor, held_out: Tensor, seed: int) -> dict[str, float | None]:
    """Scores on the held-out items, with all their votes, of logistic regression on these counts [n, K] of the rows."""
    x, votes = flat_inputs(data), counts.sum(1).double()
    log_probs = votes_baseline(x[rows], counts / votes[:, None], votes, x[held_out], seed=seed)
    people, probs = data.people[held_out], log_probs.exp()
    return {
        "soft_nll": float(metrics.soft_nll(log_probs, people).mean()),
        "kl": float(metrics.kl(log_probs, people).mean()),
        "accuracy": float((majority(log_probs) == data.labels[held_out]).double().mean()),
        "entropy_pearson": finite(metrics.entropy_correlation(probs, people, kind="pearson")),
        "entropy_spearman": finite(metrics.entropy_correlation(probs, people, kind="spearman")),
    }


def first_items(pool: Tensor, items: int, seed: int) -> Tensor:
    """The first rows of a random order that depends on the seed alone; ascending."""
    if items > len(pool):
        raise InputError(f"{items} items are asked for, and there are {len(pool)}", where="learning point", state="")
    draws = random.uniform(seed, "subsample", "items", rows=pool)
    return torch.sort(pool[torch.from_numpy(np.argsort(draws, kind="stable")[:items])]).values


def first_votes(data: Data, rows: Tensor, votes: int, seed: int) -> Tensor:
    """Counts int64 [n, K] of the first votes of each item, in a random order of its own; all where it has fewer."""
    if data.counts is None:
        raise InputError(
            "votes cannot be taken away where there are only shares", where=data.name, hint="Read the votes", state=""
        )
    counts = data.counts[rows].numpy()
    order = shuffled_votes(counts, rows.numpy(), seed)
    per_item = counts.sum(1)
    item = np.repeat(np.arange(len(rows)), per_item)
    position = np.arange(len(order)) - np.repeat(np.cumsum(per_item) - per_item, per_item)
    kept = position < votes
    classes = counts.shape[1]
    cells = np.bincount(item[kept] * classes + order[kept], minlength=counts.size)
    return torch.from_numpy(cells.reshape(counts.shape))

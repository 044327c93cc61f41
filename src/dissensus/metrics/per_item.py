"""What `score` needs to know of each item, found in one walk over blocks of items: lists [N], never a second [N, K]."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dissensus.errors import InputError
from dissensus.metrics.agreement import Floats, Ints, entropy_of_logs, majority, ranks, second_choice, top_class
from dissensus.metrics.ceiling import TruthScores, estimate_from_rows, unchecked_brier_unbiased
from dissensus.metrics.checks import (
    SHARES_TOLERANCE,
    checked_counts,
    checked_gold,
    checked_target,
    with_probs,
)
from dissensus.metrics.proper import p_log_p, unchecked_js, unchecked_kl, unchecked_soft_nll
from dissensus.metrics.row_blocks import Progress, Rows, blocks, silent


@dataclass(frozen=True, eq=False)
class PeopleItems:
    """What people said of the items, checked. It is the same for every model, raw or tempered."""

    target: Rows
    counts: Rows | None
    gold: Tensor
    gold_is: str
    entropy: Floats
    second: Ints | None
    """Their second choice; None where there is one class."""
    well_defined: NDArray[np.bool_] | None
    """Where their first, second and third choice differ strictly."""

    @classmethod
    def of(cls, target: Rows, gold: Tensor | None, counts: Rows | None, tell: Progress = silent) -> PeopleItems:
        """One walk over all items."""
        items, classes = target.shape
        entropy, labels = np.empty(items), torch.empty(items, dtype=torch.int64)
        second = np.empty(items, dtype=np.int64) if classes > 1 else None
        well_defined = np.empty(items, dtype=np.bool_) if classes > 1 else None
        for rows in blocks(target.shape):
            block = target[rows]
            p = checked_target(block, block, first=rows.start)
            entropy[rows] = entropy_of_logs(p_log_p(p)).numpy()
            if gold is None:
                labels[rows] = majority(p)
            if second is not None and well_defined is not None:
                second[rows], well_defined[rows] = second_choice(p.numpy())
            if counts is not None:
                votes = checked_counts(counts[rows], p, first=rows.start)
                if float((votes / votes.sum(1, keepdim=True).double() - p).abs().max()) > SHARES_TOLERANCE:
                    raise InputError("the counts do not give the shares in `target`", where="counts", state="")
            tell("reading the votes", rows.stop, items)
        if gold is not None:
            labels = checked_gold(gold, target)
        return cls(target, counts, labels, "majority" if gold is None else "given", entropy, second, well_defined)

    @cached_property
    def entropy_ranks(self) -> Floats:
        """For Spearman's correlation."""
        return ranks(self.entropy)

    @cached_property
    def of_truth(self) -> TruthScores:
        """What the true distributions would score, estimated from the votes."""
        assert self.counts is not None, "a metric that needs counts says so in METRICS"
        return estimate_from_rows(self.counts)


@dataclass(frozen=True, eq=False)
class ModelItems:
    """What a model's predictions score on each item. `brier_unbiased` is NaN where it is not defined, or not known."""

    soft_nll: Tensor
    kl: Tensor
    js: Tensor
    soft_brier: Tensor
    nll_gold: Tensor
    confidence: Tensor
    correct: Tensor
    entropy: Floats
    agrees_second: NDArray[np.bool_]
    brier_unbiased: Tensor

    @classmethod
    def of(cls, log_probs: Rows, people: PeopleItems, tell: Progress = silent, stage: str = "scoring") -> ModelItems:
        """One walk over all items."""
        items = log_probs.shape[0]
        numbers = {
            name: torch.empty(items, dtype=torch.float64)
            for name in ("soft_nll", "kl", "js", "soft_brier", "nll_gold", "confidence", "brier_unbiased")
        }
        correct, entropy = torch.empty(items, dtype=torch.bool), np.empty(items)
        agrees_second = np.zeros(items, dtype=np.bool_)
        for rows in blocks(log_probs.shape):
            log_q, q = with_probs(log_probs[rows], first=rows.start)
            p, gold = people.target[rows].detach().to("cpu", torch.float64), people.gold[rows]
            p_logs, q_logs, top = p_log_p(p), p_log_p(q), top_class(log_q)
            numbers["soft_nll"][rows] = unchecked_soft_nll(log_q, p)
            numbers["kl"][rows] = unchecked_kl(log_q, p, p_logs)
            numbers["js"][rows] = unchecked_js(q, p, q_logs, p_logs)
            numbers["soft_brier"][rows] = (q - p).square_().sum(1)
            numbers["nll_gold"][rows] = -log_q.gather(1, gold[:, None])[:, 0]
            numbers["confidence"][rows] = q.gather(1, top[:, None])[:, 0].clamp(max=1)
            correct[rows], entropy[rows] = top == gold, entropy_of_logs(q_logs).numpy()
            if people.second is not None:
                agrees_second[rows] = second_choice(log_q.numpy())[0] == people.second[rows]
            if people.counts is not None:
                counts = people.counts[rows].detach().cpu()
                numbers["brier_unbiased"][rows] = unchecked_brier_unbiased(q, counts)
            tell(stage, rows.stop, items)
        return cls(**numbers, correct=correct, entropy=entropy, agrees_second=agrees_second)

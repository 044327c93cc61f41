"""All metrics at once: a table of what there is, and `score`, which computes it.

Per-item values come out of every proper score; the mean is taken once, here, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from dissensus.metrics.agreement import Kind, correlation, entropy_correlation, ranks
from dissensus.metrics.array_inputs import ArrayInput, CountedVotes, as_rows, as_tensor, by_name
from dissensus.metrics.calibration import (
    BrierDecomposition,
    brier_decomposition,
    confidence_right,
    confidence_wrong,
    ece,
    smooth_ece,
)
from dissensus.metrics.ceiling import RangedEstimate, TruthScores
from dissensus.metrics.checks import (
    check_matrix,
    check_same_shape,
    checked_counts,
    checked_log_probs,
    checked_target,
)
from dissensus.metrics.per_item import ModelItems, PeopleItems
from dissensus.metrics.proper import kl, soft_nll
from dissensus.metrics.row_blocks import Progress, Rows, silent
from dissensus.metrics.threads import torch_threads

Value = float | int | str | None
Direction = Literal["lower", "higher", "neither"]
Need = Literal["target", "gold", "counts", "truth"]


def score(
    log_probs: ArrayInput | Rows,
    target: ArrayInput | Rows | CountedVotes,
    gold: ArrayInput | None = None,
    counts: ArrayInput | Rows | None = None,
    truth: ArrayInput | None = None,
) -> dict[str, Value]:
    """Every metric of `METRICS` that these inputs allow, as plain numbers; None where one is infinite or undefined.

    Inputs are tensors, NumPy arrays or data frames; Votes as `target` bring their counts with them. Columns and rows of a
    data frame are matched by name with Votes, or with another data frame; an index of other names is refused, unless it
    just numbers rows.
    `target` [N, K] is what people said, `gold` [N] the data set's own labels: without them the majority is used (ties go
    to the lowest class index), and `"gold"` says so. `counts` [N, K] are the votes behind `target`; some metrics need
    their number. `truth` [N, K] is the distribution that the votes of a simulated crowd were drawn from.

    Matrices are read in blocks of rows: beside them, some 100 bytes per item are used.
    """
    named = target if isinstance(target, CountedVotes) or hasattr(target, "columns") else log_probs
    log_probs, counts = by_name(log_probs, named, "log_probs"), by_name(counts, named, "counts")
    target, truth = by_name(target, named, "target"), by_name(truth, named, "truth")
    if isinstance(target, CountedVotes):
        counts = target.counts if counts is None else counts
        target = target.soft
    votes = None if counts is None else as_rows(counts)
    labels, known = (None if part is None else as_tensor(part) for part in (gold, truth))
    return score_all({"scores": as_rows(log_probs)}, as_rows(target), labels, votes, known)["scores"]


@torch_threads(1)
def score_all(
    log_probs: Mapping[str, Rows],
    target: Rows,
    gold: Tensor | None = None,
    counts: Rows | None = None,
    truth: Tensor | None = None,
    tell: Progress = silent,
) -> dict[str, dict[str, Value]]:
    """`score` of several predictions for the same items, such as one model's raw and tempered ones, by name."""
    for predictions in log_probs.values():
        check_matrix(predictions, "log_probs")
        check_same_shape(target, predictions, "target")
        for name, part in (("counts", counts), ("truth", truth)):
            if part is not None:
                check_same_shape(part, predictions, name)
    people = PeopleItems.of(target, gold, counts, tell)
    absent = {need for need, given in (("counts", counts), ("truth", truth)) if given is None}
    wanted = {name: metric for name, metric in METRICS.items() if metric.needs not in absent}
    known = None if truth is None else checked_target(truth, truth)

    def scored(predictions: Rows, stage: str) -> dict[str, Value]:
        case = _Case(predictions, people, ModelItems.of(predictions, people, tell, stage), known)
        return {key: metric.compute(case) for key, metric in wanted.items()}

    return {name: scored(rows, f"scoring {name.replace('_', ' to ')}") for name, rows in log_probs.items()}


@dataclass(frozen=True, eq=False)
class _Case:
    """The checked input of `score`, and what several metrics share, computed once.

    `items` and `people` have one value per item. `log_probs`, `probs` and `target` are whole matrices, made when a metric
    asks for them; no metric of this package does, except for simulated crowds.
    """

    predictions: Rows
    people: PeopleItems
    items: ModelItems
    truth: Tensor | None

    @cached_property
    def log_probs(self) -> Tensor:
        return checked_log_probs(self.predictions[:])

    @cached_property
    def probs(self) -> Tensor:
        return self.log_probs.exp()

    @cached_property
    def target(self) -> Tensor:
        whole = self.people.target[:]
        return checked_target(whole, whole)

    @property
    def gold(self) -> Tensor:
        return self.people.gold

    @cached_property
    def counts(self) -> Tensor | None:
        return None if self.people.counts is None else checked_counts(self.people.counts[:])

    @property
    def top(self) -> tuple[Tensor, Tensor]:
        return self.items.confidence, self.items.correct

    @cached_property
    def top_in_order(self) -> tuple[Tensor, Tensor]:
        """`top`, by rising confidence: metrics that sort find it sorted, and what they sum stays in the same order."""
        order = torch.from_numpy(self.items.confidence.numpy().argsort(kind="stable"))
        return self.items.confidence[order], self.items.correct[order]

    @cached_property
    def brier(self) -> BrierDecomposition:
        return brier_decomposition(*self.top_in_order)

    @property
    def known(self) -> Tensor:
        assert self.truth is not None, "a metric that needs the truth says so in METRICS"
        return self.truth

    @property
    def unbiased(self) -> Tensor:
        return self.items.brier_unbiased

    @property
    def of_truth(self) -> TruthScores:
        return self.people.of_truth

    def entropy_correlation(self, kind: Kind) -> float | None:
        """As `metrics.entropy_correlation`, with the people's ranks found once for all models."""
        if kind == "pearson":
            return correlation(self.items.entropy, self.people.entropy, kind=kind)
        return correlation(ranks(self.items.entropy), self.people.entropy_ranks, kind="pearson")

    def second_best_accuracy(self, well_defined: bool = False) -> float | None:
        """As `metrics.second_best_accuracy`."""
        if self.people.well_defined is None:
            return None
        agrees = self.items.agrees_second[self.people.well_defined] if well_defined else self.items.agrees_second
        return float(agrees.mean()) if len(agrees) else None


@dataclass(frozen=True)
class Metric:
    """One key of `score`: which direction is better, its unit, what it needs beside the predictions, what it means."""

    name: str
    direction: Direction
    unit: str
    needs: Need
    about: str
    compute: Callable[[_Case], Value]


def _mean(values: Tensor) -> float | None:
    """None where there are no values, or JSON cannot hold their mean."""
    mean = float(values.mean()) if len(values) else math.nan
    return mean if math.isfinite(mean) else None


def _that_may_be_infinite(name: str, needs: Need, about: str) -> list[Metric]:
    def values(c: _Case) -> Tensor:
        per_item: Tensor = getattr(c.items, name)
        return per_item

    def infinite(c: _Case) -> Value:
        return int(values(c).isinf().sum())

    def finite_mean(c: _Case) -> Value:
        return _mean(values(c)[values(c).isfinite()])

    return [
        Metric(name, "lower", "nats", needs, about, lambda c: _mean(values(c))),
        Metric(f"{name}_infinite_items", "lower", "items", needs, f"items whose {name} is infinite", infinite),
        Metric(f"{name}_finite_mean", "lower", "nats", needs, f"mean {name} over the other items", finite_mean),
    ]


def _estimates(
    name: str, unit: str, metric: str, error: str, estimate: Callable[[_Case], RangedEstimate]
) -> list[Metric]:
    about = f"estimate of the true distributions' {metric}, typically within {error} from 5 votes per item on"
    low, high = (f"the {end} {name} that the votes leave open" for end in ("lowest", "highest"))
    return [
        Metric(name, "neither", unit, "counts", about, lambda c: estimate(c).value),
        Metric(f"{name}_low", "neither", unit, "counts", low, lambda c: estimate(c).low),
        Metric(f"{name}_high", "neither", unit, "counts", high, lambda c: estimate(c).high),
    ]


# fmt: off
_ROWS = [
    *_that_may_be_infinite("soft_nll", "target", "cross-entropy to what people said"),
    *_that_may_be_infinite("kl", "target", "Kullback–Leibler divergence of the model from the people"),
    Metric("js", "lower", "nats", "target", "Jensen–Shannon divergence of model and people",
           lambda c: _mean(c.items.js)),
    Metric("soft_brier", "lower", "", "target", "squared distance to what people said, summed over classes, 0 to 2",
           lambda c: _mean(c.items.soft_brier)),
    *_that_may_be_infinite("nll_gold", "gold", "negative log-likelihood of the label"),
    Metric("accuracy", "higher", "share", "gold", "items whose top class is the label",
           lambda c: _mean(c.top[1].double())),
    Metric("second_best_accuracy", "higher", "share", "target", "items whose second choice is the people's, all items",
           lambda c: c.second_best_accuracy()),
    Metric("second_best_accuracy_well_defined", "higher", "share", "target",
           "the same over items whose people have a strict first, second and third",
           lambda c: c.second_best_accuracy(well_defined=True)),
    Metric("ece_width_10", "lower", "probability", "gold", "calibration error of the top class, 10 bins of equal width",
           lambda c: ece(*c.top, binning="width", bins=10)),
    Metric("ece_width_15", "lower", "probability", "gold", "calibration error of the top class, 15 bins of equal width",
           lambda c: ece(*c.top, binning="width", bins=15)),
    Metric("ece_mass_15", "lower", "probability", "gold", "calibration error of the top class, 15 bins of equal mass",
           lambda c: ece(*c.top_in_order, binning="mass", bins=15)),
    Metric("smooth_ece", "lower", "probability", "gold", "calibration error of the top class, without bins",
           lambda c: smooth_ece(*c.top_in_order)),
    Metric("brier_top", "lower", "", "gold", "Brier score of the event that the top class is the label, 0 to 1",
           lambda c: c.brier.score),
    Metric("brier_reliability", "lower", "", "gold", "part of brier_top lost to miscalibration",
           lambda c: c.brier.reliability),
    Metric("brier_resolution", "higher", "", "gold", "part of brier_top won by telling right from wrong items",
           lambda c: c.brier.resolution),
    Metric("brier_uncertainty", "neither", "", "gold", "part of brier_top that the accuracy alone fixes",
           lambda c: c.brier.uncertainty),
    Metric("brier_within_bin_variance", "neither", "", "gold", "part of brier_top: spread of confidences inside bins",
           lambda c: c.brier.within_bin_variance),
    Metric("brier_within_bin_covariance", "neither", "", "gold", "part of brier_top won by confidences inside bins",
           lambda c: c.brier.within_bin_covariance),
    Metric("entropy_pearson", "higher", "correlation", "target", "Pearson correlation of model and people entropies",
           lambda c: c.entropy_correlation("pearson")),
    Metric("entropy_spearman", "higher", "correlation", "target", "Spearman correlation of model and people entropies",
           lambda c: c.entropy_correlation("spearman")),
    Metric("confidence_right", "neither", "probability", "gold", "mean top probability where the model is right",
           lambda c: confidence_right(*c.top)),
    Metric("confidence_wrong", "neither", "probability", "gold", "mean top probability where the model is wrong",
           lambda c: confidence_wrong(*c.top)),
    Metric("soft_nll_floor", "neither", "nats", "target", "the least soft_nll possible: the entropy of the votes",
           lambda c: _mean(torch.from_numpy(c.people.entropy))),
    Metric("gold", "neither", "", "gold", "whether the labels were given, or are the majority's",
           lambda c: c.people.gold_is),
    *_estimates("soft_nll_expected", "nats", "soft_nll", "4%", lambda c: c.of_truth.soft_nll),
    Metric("soft_brier_unbiased", "lower", "", "counts", "soft_brier to the true distribution, free of the votes' noise",
           lambda c: _mean(c.unbiased[~c.unbiased.isnan()])),
    Metric("soft_brier_unbiased_left_out", "neither", "items", "counts", "items with one vote, left out there",
           lambda c: int(c.unbiased.isnan().sum())),
    *_estimates("entropy_pearson_ceiling", "correlation", "entropy_pearson", "0.05",
                lambda c: c.of_truth.entropy_pearson),
    *_estimates("entropy_spearman_ceiling", "correlation", "entropy_spearman", "0.05",
                lambda c: c.of_truth.entropy_spearman),
    Metric("kl_to_truth", "lower", "nats", "truth", "divergence from the known distribution of a simulated crowd",
           lambda c: _mean(kl(c.log_probs, c.known))),
    Metric("soft_nll_of_truth", "neither", "nats", "truth", "soft_nll of the known true distribution itself",
           lambda c: _mean(soft_nll(c.known.log(), c.target))),
    Metric("entropy_pearson_of_truth", "neither", "correlation", "truth",
           "entropy_pearson of the known true distribution itself",
           lambda c: entropy_correlation(c.known, c.target, kind="pearson")),
    Metric("entropy_spearman_of_truth", "neither", "correlation", "truth",
           "entropy_spearman of the known true distribution itself",
           lambda c: entropy_correlation(c.known, c.target, kind="spearman")),
]
# fmt: on

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ROWS}

"""All metrics at once: a table of what there is, and `score`, which computes it.

Per-item values come out of every proper score; the mean is taken once, here, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from torch import Tensor

from dissensus.errors import InputError
from dissensus.metrics.agreement import entropy_correlation, majority, second_best_accuracy
from dissensus.metrics.calibration import (
    BrierDecomposition,
    brier_decomposition,
    confidence_right,
    confidence_wrong,
    ece,
    smooth_ece,
    top_label,
)
from dissensus.metrics.ceiling import (
    RangedEstimate,
    TruthScores,
    estimate_truth_scores,
    soft_brier_unbiased,
    soft_nll_floor,
)
from dissensus.metrics.checks import SHARES_TOLERANCE, checked_counts, checked_gold, checked_log_probs, checked_target
from dissensus.metrics.proper import js, kl, nll_gold, soft_brier, soft_nll

Value = float | int | str | None
Direction = Literal["lower", "higher", "neither"]
Need = Literal["target", "gold", "counts", "truth"]


def score(
    log_probs: Tensor,
    target: Tensor,
    gold: Tensor | None = None,
    counts: Tensor | None = None,
    truth: Tensor | None = None,
) -> dict[str, Value]:
    """Every metric of `METRICS` that these inputs allow, as plain numbers; None where one is infinite or undefined.

    `target` [N, K] is what people said, `gold` [N] the data set's own labels: without them the majority is used (ties go
    to the lowest class index), and `"gold"` says so. `counts` [N, K] are the votes behind `target`; some metrics need
    their number. `truth` [N, K] is the distribution that the votes of a simulated crowd were drawn from.
    """
    log_probs = checked_log_probs(log_probs)
    target = checked_target(target, log_probs)
    labels = majority(target) if gold is None else checked_gold(gold, log_probs)
    if counts is not None:
        counts = checked_counts(counts, log_probs)
        if float((counts / counts.sum(1, keepdim=True).double() - target).abs().max()) > SHARES_TOLERANCE:
            raise InputError("the counts do not give the shares in `target`", where="counts", state="")
    if truth is not None:
        truth = checked_target(truth, log_probs)
    case = _Case(log_probs, target, labels, "majority" if gold is None else "given", counts, truth)
    absent = {need for need, given in (("counts", counts), ("truth", truth)) if given is None}
    return {name: metric.compute(case) for name, metric in METRICS.items() if metric.needs not in absent}


@dataclass(frozen=True, eq=False)
class _Case:
    """The checked input of `score`, and what several metrics share, computed once."""

    log_probs: Tensor
    target: Tensor
    gold: Tensor
    gold_is: str
    counts: Tensor | None
    truth: Tensor | None

    @cached_property
    def probs(self) -> Tensor:
        return self.log_probs.exp()

    @cached_property
    def top(self) -> tuple[Tensor, Tensor]:
        return top_label(self.log_probs, self.gold)

    @cached_property
    def brier(self) -> BrierDecomposition:
        return brier_decomposition(*self.top)

    @cached_property
    def items(self) -> dict[str, Tensor]:
        """The per-item scores that may be infinite."""
        return {
            "soft_nll": soft_nll(self.log_probs, self.target),
            "kl": kl(self.log_probs, self.target),
            "nll_gold": nll_gold(self.log_probs, self.gold),
        }

    @property
    def votes(self) -> Tensor:
        assert self.counts is not None, "a metric that needs counts says so in METRICS"
        return self.counts

    @property
    def known(self) -> Tensor:
        assert self.truth is not None, "a metric that needs the truth says so in METRICS"
        return self.truth

    @cached_property
    def unbiased(self) -> Tensor:
        return soft_brier_unbiased(self.probs, self.votes)

    @cached_property
    def of_truth(self) -> TruthScores:
        return estimate_truth_scores(self.votes)


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
    def infinite(c: _Case) -> Value:
        return int(c.items[name].isinf().sum())

    def finite_mean(c: _Case) -> Value:
        return _mean(c.items[name][c.items[name].isfinite()])

    return [
        Metric(name, "lower", "nats", needs, about, lambda c: _mean(c.items[name])),
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
           lambda c: _mean(js(c.probs, c.target))),
    Metric("soft_brier", "lower", "", "target", "squared distance to what people said, summed over classes, 0 to 2",
           lambda c: _mean(soft_brier(c.probs, c.target))),
    *_that_may_be_infinite("nll_gold", "gold", "negative log-likelihood of the label"),
    Metric("accuracy", "higher", "share", "gold", "items whose top class is the label",
           lambda c: _mean(c.top[1].double())),
    Metric("second_best_accuracy", "higher", "share", "target", "items whose second choice is the people's, all items",
           lambda c: second_best_accuracy(c.log_probs, c.target)),
    Metric("second_best_accuracy_well_defined", "higher", "share", "target",
           "the same over items whose people have a strict first, second and third",
           lambda c: second_best_accuracy(c.log_probs, c.target, well_defined=True)),
    Metric("ece_width_10", "lower", "probability", "gold", "calibration error of the top class, 10 bins of equal width",
           lambda c: ece(*c.top, binning="width", bins=10)),
    Metric("ece_width_15", "lower", "probability", "gold", "calibration error of the top class, 15 bins of equal width",
           lambda c: ece(*c.top, binning="width", bins=15)),
    Metric("ece_mass_15", "lower", "probability", "gold", "calibration error of the top class, 15 bins of equal mass",
           lambda c: ece(*c.top, binning="mass", bins=15)),
    Metric("smooth_ece", "lower", "probability", "gold", "calibration error of the top class, without bins",
           lambda c: smooth_ece(*c.top)),
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
           lambda c: entropy_correlation(c.probs, c.target, kind="pearson")),
    Metric("entropy_spearman", "higher", "correlation", "target", "Spearman correlation of model and people entropies",
           lambda c: entropy_correlation(c.probs, c.target, kind="spearman")),
    Metric("confidence_right", "neither", "probability", "gold", "mean top probability where the model is right",
           lambda c: confidence_right(*c.top)),
    Metric("confidence_wrong", "neither", "probability", "gold", "mean top probability where the model is wrong",
           lambda c: confidence_wrong(*c.top)),
    Metric("soft_nll_floor", "neither", "nats", "target", "the least soft_nll possible: the entropy of the votes",
           lambda c: _mean(soft_nll_floor(c.target))),
    Metric("gold", "neither", "", "gold", "whether the labels were given, or are the majority's", lambda c: c.gold_is),
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

"""Judging predictions against people. `score` gives everything at once; `METRICS` says what each of its keys means."""

from __future__ import annotations

from dissensus.metrics.agreement import (
    correlation,
    entropy,
    entropy_correlation,
    high_disagreement,
    majority,
    normalised_entropy,
    partial_correlation,
    second_best_accuracy,
    second_best_agreement,
    top_class,
)
from dissensus.metrics.binned_means import zero_then_equal_mass
from dissensus.metrics.calibration import (
    BrierDecomposition,
    SmoothReliability,
    accuracy,
    brier_decomposition,
    confidence_right,
    confidence_wrong,
    ece,
    smooth_ece,
    smooth_reliability,
    top_label,
)
from dissensus.metrics.ceiling import (
    RangedEstimate,
    TruthScores,
    estimate_truth_scores,
    soft_brier_unbiased,
    soft_nll_floor,
)
from dissensus.metrics.concentration import Concentration, entropy_concentration
from dissensus.metrics.detection import auroc, fpr_at_95
from dissensus.metrics.proper import js, js_distance, kl, nll_gold, soft_brier, soft_nll
from dissensus.metrics.running import PER_ITEM, RunningMetric
from dissensus.metrics.scoring import METRICS, Metric, Value, score

__all__ = [
    "METRICS",
    "PER_ITEM",
    "BrierDecomposition",
    "Concentration",
    "Metric",
    "RangedEstimate",
    "RunningMetric",
    "SmoothReliability",
    "TruthScores",
    "Value",
    "accuracy",
    "auroc",
    "brier_decomposition",
    "confidence_right",
    "confidence_wrong",
    "correlation",
    "ece",
    "entropy",
    "entropy_concentration",
    "entropy_correlation",
    "estimate_truth_scores",
    "fpr_at_95",
    "high_disagreement",
    "js",
    "js_distance",
    "kl",
    "majority",
    "nll_gold",
    "normalised_entropy",
    "partial_correlation",
    "score",
    "second_best_accuracy",
    "second_best_agreement",
    "smooth_ece",
    "smooth_reliability",
    "soft_brier",
    "soft_brier_unbiased",
    "soft_nll",
    "soft_nll_floor",
    "top_class",
    "top_label",
    "zero_then_equal_mass",
]

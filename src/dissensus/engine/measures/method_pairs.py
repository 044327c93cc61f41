"""Two methods, run for run: tests and relative improvements."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

import numpy as np

from dissensus import stats
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell, finite
from dissensus.engine.measures.stored_predictions import StoredPredictions
from dissensus.errors import InputError
from dissensus.store.ledger import Ledger
from dissensus.store.run_source import RunSource
from dissensus.store.spec import Json

COMPARED = {"kl": -1, "accuracy": 1, "entropy_pearson": 1}
"""The metrics of "Soft-Label Training Preserves Epistemic Uncertainty" (2025), and the sign of an improvement."""


@dataclass(frozen=True)
class Paired(Measure):
    """One method's runs against another's: the first one's runs and then, in the same order, the other's.

    For each compared metric the paired t test and the exact Wilcoxon test over the runs, and the improvement of the first
    method's mean as a share of the other's. For KL also the interval of the difference that is bootstrapped over the
    evaluation items, each with its mean over the runs: what other items might have said of the same training.
    """

    checkpoint: str = "best"

    runs: ClassVar[int | None] = None
    cheap: ClassVar[bool] = True

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        scores = self.from_records(run_ids, ledger)
        methods = _halves(run_ids)
        divergences = [
            np.stack([StoredPredictions.read(run, ledger, self.checkpoint).kl.numpy() for run in runs])
            for runs in methods
        ]
        over_items = stats.paired_bootstrap(*divergences)
        scores["difference_kl"] = over_items.mean_difference
        scores["low_kl_over_items"], scores["high_kl_over_items"] = over_items.low, over_items.high
        return MeasureResult(scores, {"runs": len(methods[0]), "items": over_items.n})

    def from_records(self, run_ids: tuple[str, ...], runs: RunSource) -> Json:
        scores: Json = {}
        for metric, sign in COMPARED.items():
            values = (
                [runs.read(run).scores[self.checkpoint]["raw"][metric] for run in of_method]
                for of_method in _halves(run_ids)
            )
            pairs = [(a, b) for a, b in zip(*values, strict=True) if a is not None and b is not None]
            if pairs:
                a, b = zip(*pairs, strict=True)
                gain = sign * (fmean(a) - fmean(b))
                scores[f"relative_improvement_{metric}"] = finite(gain / fmean(b)) if fmean(b) else None
            if len(pairs) > 1:
                scores[f"p_t_{metric}"] = stats.paired_t(a, b).p
                scores[f"p_wilcoxon_{metric}"] = stats.wilcoxon(a, b).p
        return scores


def _halves(run_ids: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The runs of the first method, and those of the other."""
    if len(run_ids) % 2:
        raise InputError(f"{len(run_ids)} runs are not two of every pair", where="paired", state="")
    return run_ids[: len(run_ids) // 2], run_ids[len(run_ids) // 2 :]


@dataclass(frozen=True)
class MeanScore(Measure):
    """The mean over several measures of each score that all of them have."""

    runs: ClassVar[int | None] = None
    cheap: ClassVar[bool] = True

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        return MeasureResult(self.from_records(run_ids, ledger), {"runs": len(run_ids)})

    def from_records(self, run_ids: tuple[str, ...], runs: RunSource) -> Json:
        measured = [runs.read(run_id).scores for run_id in run_ids]
        shared = [name for name in measured[0] if all(scores.get(name) is not None for scores in measured)]
        return {name: fmean(scores[name] for scores in measured) for name in shared}

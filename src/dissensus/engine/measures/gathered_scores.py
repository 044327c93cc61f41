"""Scores of several finished runs: those of a training run beside what was measured of it, and differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dissensus import metrics
from dissensus.engine.measures.measure import Measure, MeasureResult, Tell, finite
from dissensus.engine.measures.stored_predictions import StoredPredictions
from dissensus.errors import InputError
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json


@dataclass(frozen=True)
class Gathered(Measure):
    """The raw scores of a training run's checkpoint and those of measures of it, in one record.

    Given the training run first. A score that an earlier run has already is not replaced. `kernels` also scores the
    calibration of softmax(K) where the run's probabilities are kernels K over their sum, as DUQ's are:
    `ece_width_10_of_softmax`.
    """

    checkpoint: str = "last"
    kernels: bool = False

    runs: ClassVar[int | None] = None
    cheap: ClassVar[bool] = True

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        trained, *measured = (ledger.read(run_id) for run_id in run_ids)
        if trained.spec.kind != "train":
            raise InputError("the first run is not a training run", where="gathered", state="")
        scores: Json = dict(trained.scores[self.checkpoint]["raw"])
        facts: Json = {"items": trained.facts["items"], "parameters": trained.facts["parameters"]}
        for run in measured:
            scores = {**run.scores, **scores}
            if "uncertainty" in run.facts:
                facts["uncertainty"] = run.facts["uncertainty"]
        if self.kernels:
            stored = StoredPredictions.read(run_ids[0], ledger, self.checkpoint)
            softmax = stored.logits.double().exp().log_softmax(1)
            ece = metrics.ece(*metrics.top_label(softmax, stored.labels), binning="width", bins=10)
            scores["ece_width_10_of_softmax"] = finite(ece)
        return MeasureResult(scores, facts)


@dataclass(frozen=True)
class ScoreDifference(Measure):
    """Each score of the first of two measures minus that of the second, where both have it."""

    runs: ClassVar[int | None] = 2
    cheap: ClassVar[bool] = True

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        first, second = (ledger.read(run_id).scores for run_id in run_ids)
        return MeasureResult({name: first[name] - second[name] for name in _in_all([first, second])})


@dataclass(frozen=True)
class ScoreRatio(Measure):
    """Each score of the first of two measures as a multiple of that of the second, where both have it and it is not 0."""

    runs: ClassVar[int | None] = 2
    cheap: ClassVar[bool] = True

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        first, second = (ledger.read(run_id).scores for run_id in run_ids)
        return MeasureResult({name: first[name] / second[name] for name in _in_all([first, second]) if second[name]})


@dataclass(frozen=True)
class WeightedMean(Measure):
    """Each score that all of several runs have, as a mean with these weights, one per run.

    Of a run with checkpoints the raw scores of `checkpoint` are taken.
    """

    weights: tuple[float, ...]
    checkpoint: str = "best"

    runs: ClassVar[int | None] = None
    cheap: ClassVar[bool] = True

    def compute(self, run_ids: tuple[str, ...], ledger: Ledger, tell: Tell) -> MeasureResult:
        if len(run_ids) != len(self.weights) or not sum(self.weights) > 0:
            problem = f"{len(run_ids)} runs have the weights {', '.join(map(str, self.weights))}"
            raise InputError(problem, where="weighted_mean", hint="Give one weight per run", state="")
        recorded = [ledger.read(run_id).scores for run_id in run_ids]
        scores = [run.get(self.checkpoint, {}).get("raw", run) for run in recorded]
        weighted = list(zip(self.weights, scores, strict=True))
        means = {name: sum(weight * of_run[name] for weight, of_run in weighted) for name in _in_all(scores)}
        return MeasureResult({name: value / sum(self.weights) for name, value in means.items()})


def _in_all(scores: Sequence[Json]) -> list[str]:
    """The names of the numbers that all of these scores have."""
    return [name for name in scores[0] if all(isinstance(of_run.get(name), int | float) for of_run in scores)]

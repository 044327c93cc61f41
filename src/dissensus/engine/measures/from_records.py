"""What a run's own record says beyond its scores: how fast it learned (003, figure 8), reliability (3), slices (10)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dissensus import metrics
from dissensus.engine.measures.finished_run import kept_checkpoint, kept_predictions
from dissensus.engine.measures.measure import Analysis, Outcome, series
from dissensus.errors import InputError
from dissensus.metrics import Value
from dissensus.models.predictions import Predictions
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json, Spec


def convergence(of: str, *, column: str = "soft_nll", share: float = 0.95) -> Spec:
    """Measure: after how many epochs a run's curve came within `share` of its best, and when it was best.

    Within means at most best / share, for a column of which less is better. The first epoch is 1.
    """
    return Spec("measure", {"name": "convergence", "column": column, "share": share}, {"of": (of,)})


def reliability(of: tuple[str, ...], checkpoint: str = "last", *, points: int = 51) -> Spec:
    """How often an item is right at each confidence, by a smooth curve, with the smooth ECE that belongs to it.

    Of one run (measure), or of the held-out items of several seeds pooled (relate). On all of them, and on those of high
    disagreement, found in each run's own evaluation split. The curve has gaps where it would rest on a few items.
    """
    settings = {"name": "reliability", "checkpoint": checkpoint, "points": points}
    return Spec("measure" if len(of) == 1 else "relate", settings, {"of": of})


def slices(of: str, checkpoint: str = "last") -> Spec:
    """Measure: every score of `metrics.score` on the items of high disagreement, and on the rest of those held out."""
    return Spec("measure", {"name": "slices", "checkpoint": checkpoint}, {"of": (of,)})


def _convergence(spec: Spec, ledger: Ledger) -> Outcome:
    run, column = ledger.read(spec.inputs["of"][0]), spec.settings["column"]
    values = np.array([np.nan if value is None else value for value in run.curve.get(column, [])], dtype=np.float64)
    if not np.isfinite(values).any():
        raise InputError(
            f"run {run.id} has no {column!r} in its curve",
            where="convergence",
            hint=f"Choose among {', '.join(run.curve)}",
            state="",
        )
    best = float(np.nanmin(values))
    near = np.flatnonzero(values <= best / spec.settings["share"])  # NaN is not
    scores = {
        "epochs_to_near_best": int(near[0]) + 1,
        "best_epoch": int(np.nanargmin(values)) + 1,
        "best": best,
        "epochs": len(values),
    }
    return scores, {}, {}


def _reliability(spec: Spec, ledger: Ledger) -> Outcome:
    asked = spec.settings
    parts = [_Judged.of(run_id, ledger, asked["checkpoint"]) for run_id in spec.inputs["of"]]
    confidence, correct = (torch.cat([part.top[place] for part in parts]) for place in (0, 1))
    high = torch.cat([part.high for part in parts])
    scores: Json = {}
    facts: Json = {"checkpoints": [part.checkpoint for part in parts], "items": {}}
    for name, chosen in (("full", torch.ones_like(high)), ("high", high)):
        events = confidence[chosen], correct[chosen]
        fine = metrics.smooth_reliability(*events, points=4 * (asked["points"] - 1) + 1)
        scores[f"smooth_ece_{name}"] = metrics.smooth_ece(*events)
        facts["items"][name] = len(events[0])
        accuracy = np.where(fine.is_supported, fine.accuracy, np.nan)
        facts[name] = {
            "x": series(fine.grid[::4]),
            "y": series(accuracy[::4]),
            "density": series(fine.density[::4]),
            "sigma": fine.sigma,
        }
    return scores, facts, {}


def _slices(spec: Spec, ledger: Ledger) -> Outcome:
    judged = _Judged.of(spec.inputs["of"][0], ledger, spec.settings["checkpoint"])
    scores: Json = {}
    facts: Json = {"checkpoint": judged.checkpoint, "items": {}}
    for name, chosen in (("high", judged.high), ("rest", ~judged.high)):
        facts["items"][name] = int(chosen.sum())
        scores.update((f"{metric}_{name}", value) for metric, value in judged.scores(chosen).items())
    return scores, facts, {}


@dataclass(frozen=True, eq=False)
class _Judged:
    """What a run recorded of one checkpoint on the items it held out, beside what people said of them."""

    checkpoint: str
    log_probs: Tensor
    people: Tensor
    labels: Tensor

    @classmethod
    def of(cls, run_id: str, ledger: Ledger, wanted: str) -> _Judged:
        checkpoint = kept_checkpoint(ledger.read(run_id), wanted)
        kept = kept_predictions(run_id, ledger, checkpoint)
        logits, people, labels = (torch.from_numpy(kept[name]) for name in ("logits", "people", "labels"))
        return cls(checkpoint, Predictions(logits).log_probs, people, labels)

    @property
    def high(self) -> Tensor:
        """The items of high disagreement."""
        return metrics.high_disagreement(self.people)

    @property
    def top(self) -> tuple[Tensor, Tensor]:
        """Confidence, and whether it is right."""
        return metrics.top_label(self.log_probs, self.labels)

    def scores(self, chosen: Tensor) -> dict[str, Value]:
        """Of the chosen items; none where none is."""
        if not bool(chosen.any()):
            return {}
        found = metrics.score(self.log_probs[chosen], self.people[chosen], gold=self.labels[chosen])
        return {name: value for name, value in found.items() if name != "gold"}


ANALYSES: dict[str, Analysis] = {"convergence": _convergence, "reliability": _reliability, "slices": _slices}

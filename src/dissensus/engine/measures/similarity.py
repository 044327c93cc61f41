"""Do two runs see the same? Features (003, figure 12) and Grad-CAM maps (figure 9) of the items that both held out."""

from __future__ import annotations

from dissensus import metrics
from dissensus.engine.measures.finished_run import Subject, held_out_in_both
from dissensus.engine.measures.measure import Analysis, Outcome, finite
from dissensus.probes import representation
from dissensus.probes.representation import Stability
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json, Spec


def cka(of: tuple[str, ...], checkpoint: str = "last") -> Spec:
    """Relate: linear CKA of two runs' penultimate features, as papers print it (biased upwards) and unbiased."""
    return Spec("relate", {"name": "cka", "checkpoint": checkpoint}, {"of": of})


def grad_cam(of: tuple[str, ...], checkpoint: str = "last", *, layer: str | None = None) -> Spec:
    """Relate: the correlation of two runs' Grad-CAM maps for the class that each predicts, averaged over items.

    Over all items that both held out, and over those of them with vote entropy at or above their 90th percentile. `layer`
    names a submodule; None is the last one before global pooling.
    """
    return Spec("relate", {"name": "grad_cam", "checkpoint": checkpoint, "layer": layer}, {"of": of})


def _cka(spec: Spec, ledger: Ledger) -> Outcome:
    one, other = _pair(spec, ledger)
    rows = held_out_in_both(one.stage, other.stage)
    features = one.features(rows), other.features(rows)
    scores = {
        "cka": representation.linear_cka(*features),
        "cka_unbiased": representation.linear_cka(*features, unbiased=True),
    }
    return scores, _facts(one, other, len(rows)), {}


def _grad_cam(spec: Spec, ledger: Ledger) -> Outcome:
    one, other = _pair(spec, ledger)
    rows = held_out_in_both(one.stage, other.stage)
    high = metrics.high_disagreement(one.stage.data.people[rows])
    maps = [representation.grad_cam(each.model, each.x(rows), layer=spec.settings["layer"]) for each in (one, other)]
    everywhere = representation.stability(*maps)
    disputed = representation.stability(*(each[high] for each in maps))
    facts = _facts(one, other, len(rows))
    facts["items"]["high"] = int(high.sum())
    facts["left_out"] = {"all": everywhere.left_out, "high": disputed.left_out}
    return {"stability": _mean(everywhere), "stability_high": _mean(disputed)}, facts, {}


def _pair(spec: Spec, ledger: Ledger) -> tuple[Subject, Subject]:
    one, other = (Subject.of(run_id, ledger, spec.settings["checkpoint"]) for run_id in spec.inputs["of"])
    return one, other


def _facts(one: Subject, other: Subject, items: int) -> Json:
    return {"checkpoints": [one.checkpoint, other.checkpoint], "items": {"evaluation": items}}


def _mean(found: Stability) -> float | None:
    return finite(float(found.correlation.mean())) if len(found.correlation) else None


ANALYSES: dict[str, Analysis] = {"cka": _cka, "grad_cam": _grad_cam}

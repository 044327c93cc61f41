"""The shape of the loss around finished runs: sharpness (003, tables 4 and 6), barriers (figure 11), label noise (7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial

import torch
from torch import nn

from dissensus import metrics
from dissensus.engine.measures.finished_run import Subject, at_most, features_of, held_out_in_both, in_all, placed
from dissensus.engine.measures.measure import Analysis, LongAnalysis, Outcome, Tell, finite, series
from dissensus.probes import geometry
from dissensus.probes.geometry import EIGENVALUES, TRACES, Estimate, Hessian
from dissensus.store.ledger import Ledger
from dissensus.store.spec import Json, Spec
from dissensus.training import evaluate

SLICES = ("full", "high")
"""The whole evaluation split; and its items of high disagreement (DESIGN §4)."""


def hessian(
    of: str,
    checkpoint: str = "best",
    *,
    slices: tuple[str, ...] = SLICES,
    items: int | None = None,
    eigenvalues: tuple[str, ...] = ("power_iteration", "lanczos"),
    traces: tuple[str, ...] = ("hutchinson",),
    eigenvalue_tolerance: float = 1e-3,
    most_products: int = 100,
    trace_tolerance: float = 0.02,
    most_probes: int = 1000,
    micro_batch: int = 50,
) -> Spec:
    """Measure: the largest eigenvalue and the trace of the Hessian of soft NLL on the items that a run held out.

    `items` caps how many of each slice are used, drawn by the run's seed: a product with the Hessian takes time in
    proportion. `eigenvalues` and `traces` name estimators of `geometry`; what the paper used comes first.
    """
    settings = {
        "name": "hessian",
        "checkpoint": checkpoint,
        "slices": list(slices),
        "items": items,
        "eigenvalues": list(eigenvalues),
        "traces": list(traces),
        "eigenvalue_tolerance": eigenvalue_tolerance,
        "most_products": most_products,
        "trace_tolerance": trace_tolerance,
        "most_probes": most_probes,
        "micro_batch": micro_batch,
    }
    return Spec("measure", settings, {"of": (of,)})


def barrier(
    of: tuple[str, ...], checkpoint: str = "best", *, points: int = 21, training_items: int | None = None
) -> Spec:
    """Relate: soft NLL on the straight line between two runs' weights, on the items that both held out.

    Batch-norm statistics both ways: interpolated like weights, and measured anew on the items that both were trained on
    (at most `training_items` of them).
    """
    settings = {"name": "barrier", "checkpoint": checkpoint, "points": points, "training_items": training_items}
    return Spec("relate", settings, {"of": of})


def gradient_variance(
    of: str, checkpoint: str = "best", *, checked: int = 100, draws: int = 1000, bins: int = 20
) -> Spec:
    """Measure: how the label noise of the last layer's gradient goes with vote entropy, over a run's training items.

    In closed form; `checked` items also by drawing `draws` labels each. Beside it the same for the network before any
    training, and for 1 − ‖p‖² alone, which no network enters: what they reach is no finding about training.
    """
    settings = {"name": "gradient_variance", "checkpoint": checkpoint, "checked": checked, "draws": draws, "bins": bins}
    return Spec("measure", settings, {"of": (of,)})


def _hessian(spec: Spec, ledger: Ledger, tell: Tell) -> Outcome:
    asked, subject = spec.settings, Subject.of(spec.inputs["of"][0], ledger, spec.settings["checkpoint"])
    whole, people = subject.stage.held_out, subject.stage.data.people
    of_slice = {"full": whole, "high": whole[metrics.high_disagreement(people[whole])]}
    scores: Json = {}
    facts: Json = {"checkpoint": subject.checkpoint, "items": {"evaluation": len(whole)}, "estimates": {}}
    most = len(asked["eigenvalues"]) * asked["most_products"] + len(asked["traces"]) * asked["most_probes"]
    for number, name in enumerate(asked["slices"]):
        rows = at_most(of_slice[name], asked["items"], subject.seed)
        matrix = Hessian(subject.model, subject.stage.x(rows), people[rows], micro_batch=asked["micro_batch"])
        told = partial(_told, tell, number * most, most * len(asked["slices"]))
        found = _estimates(matrix, asked, subject.seed, told)
        for quantity, methods in (("lambda_max", asked["eigenvalues"]), ("trace", asked["traces"])):
            for place, method in enumerate(methods):
                key = f"{quantity}_{name}" if place == 0 else f"{quantity}_{name}_{method}"
                scores[key] = finite(found[method].value)
        scores[f"soft_nll_{name}"] = finite(float(metrics.soft_nll(subject.predict(rows).log_probs, people[rows]).mean()))
        facts["items"][name] = len(rows)
        facts["estimates"][name] = {
            method: {**asdict(one), "value": finite(one.value), "error": finite(one.error)}
            for method, one in found.items()
        }
    return scores, facts, {}


def _estimates(matrix: Hessian, asked: Json, seed: int, told: Callable[[int, Estimate], None]) -> dict[str, Estimate]:
    """By the name of the estimator; `told` of every product, after those that the estimators before may have taken."""
    found, before = {}, 0
    for method in asked["eigenvalues"]:
        tolerance, most = asked["eigenvalue_tolerance"], asked["most_products"]
        progress = partial(told, before)
        found[method] = EIGENVALUES[method](matrix, seed=seed, tolerance=tolerance, most=most, progress=progress)
        before += most
    for method in asked["traces"]:
        tolerance, most = asked["trace_tolerance"], asked["most_probes"]
        progress = partial(told, before)
        found[method] = TRACES[method](matrix, seed=seed, tolerance=tolerance, most=most, progress=progress)
        before += most
    return found


def _told(tell: Tell, start: int, of: int, before: int, estimate: Estimate) -> None:
    tell(start + before + estimate.products, of)


def _barrier(spec: Spec, ledger: Ledger) -> Outcome:
    asked = spec.settings
    one, other = (Subject.of(run_id, ledger, asked["checkpoint"]) for run_id in spec.inputs["of"])
    rows = held_out_in_both(one.stage, other.stage)
    trained_on = at_most(in_all([one.stage.train, other.stage.train]), asked["training_items"], one.seed)
    x, people = one.x(rows), one.stage.data.people[rows]

    def loss(model: nn.Module) -> float:
        return float(metrics.soft_nll(evaluate.predict(model, x).log_probs, people).mean())

    scores: Json = {}
    facts: Json = {
        "checkpoints": [one.checkpoint, other.checkpoint],
        "items": {"evaluation": len(rows), "train": len(trained_on)},
        "x": [point / (asked["points"] - 1) for point in range(asked["points"])],
    }
    ends = one.model.state_dict(), other.model.state_dict()
    for batch_norm, reestimate in (("interpolated", None), ("reestimated", one.x(trained_on))):
        found = geometry.barrier(one.model, *ends, loss, points=asked["points"], reestimate=reestimate)
        scores[f"barrier_{batch_norm}"] = finite(found.height)
        facts[batch_norm] = series(found.losses)
    return scores, facts, {}


def _gradient_variance(spec: Spec, ledger: Ledger) -> Outcome:
    asked, subject = spec.settings, Subject.of(spec.inputs["of"][0], ledger, spec.settings["checkpoint"])
    stage, model = subject.stage, subject.model
    rows, people = stage.train, stage.data.people[stage.train]
    head = model.get_submodule("head")
    bias, scale = any(one.ndim == 1 for one in head.parameters()), float(getattr(head, "scale", 1.0))
    features = {
        "trained": subject.features(rows),
        "untrained": features_of(evaluate.predict(placed(stage.model(), stage), subject.x(rows))),
    }
    variance = {
        name: geometry.last_layer_gradient_variance(people, one, bias=bias, scale=scale).numpy()
        for name, one in features.items()
    }
    variance["labels_alone"] = (1 - people.square().sum(1)).clamp(min=0).numpy()
    entropy = metrics.entropy(people).numpy()
    scores: Json = {
        f"spearman_{name}": metrics.correlation(entropy, one, kind="spearman") for name, one in variance.items()
    }
    disputed = torch.nonzero(people.amax(1) < 1).flatten()  # of a unanimous item both are 0, and agree for free
    some = at_most(disputed, asked["checked"], subject.seed)
    sampled = geometry.sampled_gradient_variance(
        head, people[some], features["trained"][some], draws=asked["draws"], seed=subject.seed
    )
    ratio = (sampled / torch.from_numpy(variance["trained"])[some]).numpy()
    scores["sampled_over_closed_form"] = finite(float(ratio.mean())) if len(ratio) else None
    facts: Json = {
        "checkpoint": subject.checkpoint,
        "items": {"train": len(rows), "checked": len(some)},
        "sampled_over_closed_form_sd": finite(float(ratio.std(ddof=1))) if len(ratio) > 1 else None,
        "bins": {name: metrics.zero_then_equal_mass(entropy, one, asked["bins"]) for name, one in variance.items()},
    }
    return scores, facts, {}


ANALYSES: dict[str, Analysis] = {"barrier": _barrier, "gradient_variance": _gradient_variance}
LONG: dict[str, LongAnalysis] = {"hessian": _hessian}

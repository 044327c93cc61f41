"""A network judged in one go: against people and labels, on shifted data, out of distribution, under attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dissensus import metrics
from dissensus.datasets.data import Data
from dissensus.engine.judging import judge, judge_elsewhere, one_temperature
from dissensus.engine.measures.finished_run import at_most
from dissensus.engine.measures.measure import series
from dissensus.engine.measures.shifted_data import check_classes, predict_told
from dissensus.errors import InputError
from dissensus.metrics.row_blocks import Progress, silent
from dissensus.models import Model
from dissensus.models.predictions import Predictions
from dissensus.probes.attacks import matched_noise, pgd
from dissensus.probes.detectors import DETECTORS, DetectorInput
from dissensus.store.spec import Json
from dissensus.training import evaluate

WITHOUT_TRAINING_ITEMS = tuple(name for name in DETECTORS if name != "knn")
"""The detectors that need nothing but the network: the neighbours of `knn` are training items, which nobody has here."""
ATTACKED_AT_ONCE = 500


@dataclass(frozen=True)
class AttackSettings:
    """ε and steps in units of [0, 1]; `items` caps how many are attacked, drawn by the seed."""

    epsilon: float = 4 / 255
    steps: int = 10
    step_size: float = 1 / 255
    random_start: bool = False
    items: int | None = 1000


USUAL = AttackSettings()


def judge_checkpoint(
    model: Model,
    data: Data,
    rows: Tensor,
    *,
    attacks: Sequence[str] = (),
    attack: AttackSettings = USUAL,
    outside: Sequence[Data] = (),
    shifted: Sequence[Data] = (),
    seed: int = 0,
    tell: Progress = silent,
) -> Json:
    """All scores of a network in eval mode on these rows of the data, and beside them those elsewhere.

    `attacks` are fgsm, pgd or both. Images go through the network in batches, and of each only its predictions are kept.
    """
    x, device = _images(data), next(model.parameters()).device
    for other in (*outside, *shifted):
        if _images(other).shape[1:] != x.shape[1:]:
            what = f"its images are {list(_images(other).shape[1:])}, those of {data.name} {list(x.shape[1:])}"
            raise InputError(what, where=other.name, hint="Name a data set with images of the same size", state="")
    for other in shifted:
        check_classes(data.classes, other)

    def predicted(of: Data, chosen: Tensor) -> Predictions:
        return predict_told(model, _images(of), chosen, lambda done, total: tell(f"predicting {of.name}", done, total))

    predictions = predicted(data, rows)
    scores, temperatures = judge(predictions, data, rows, seed, tell)
    document: Json = {
        "data": {"name": data.name, "digest": data.digest, "items": len(rows)},
        "scores": scores,
        "temperatures": temperatures,
        "notes": list(data.notes),
    }
    fitted = one_temperature(predictions.logits, data, rows)
    document["shifted"] = {}
    for other in shifted:
        every = torch.arange(len(other))
        elsewhere = judge_elsewhere(predicted(other, every).logits, other, every, fitted)
        document["shifted"][other.name] = {"items": len(other), "scores": elsewhere, "notes": list(other.notes)}
    inside = DetectorInput(model, x[rows].to(device), predictions, torch.empty(0, 0)) if outside else None
    own = {name: DETECTORS[name](inside) for name in WITHOUT_TRAINING_ITEMS} if inside is not None else {}
    document["ood"] = {}
    for other in outside:
        every = torch.arange(len(other))
        foreign = DetectorInput(model, _images(other).to(device), predicted(other, every), torch.empty(0, 0))
        aurocs = {f"auroc_{name}": metrics.auroc(own[name], DETECTORS[name](foreign)) for name in own}
        document["ood"][other.name] = {"items": len(other), "scores": aurocs, "notes": list(other.notes)}
    attacked_rows = at_most(rows, attack.items, seed)
    document["attacks"] = {name: _attacked(model, data, attacked_rows, name, attack, seed, tell) for name in attacks}
    return document


def _attacked(
    model: Model, data: Data, rows: Tensor, name: str, settings: AttackSettings, seed: int, tell: Progress
) -> Json:
    """Scores before and after one attack on the labels, and under noise of the same norm."""
    if name not in ("fgsm", "pgd"):
        raise InputError(f"{name!r} is not one of fgsm, pgd", where="attack", state="")
    one_step = name == "fgsm"
    steps, size = (1, settings.epsilon) if one_step else (settings.steps, settings.step_size)
    random_start = settings.random_start and not one_step
    logits: dict[str, list[Tensor]] = {"clean": [], "attacked": [], "noise": []}
    losses = []
    for number, block in enumerate(torch.split(rows, ATTACKED_AT_ONCE)):
        x, done = _images(data)[block], number * ATTACKED_AT_ONCE
        attacked = pgd(
            model,
            x,
            data.labels[block],
            epsilon=settings.epsilon,
            steps=steps,
            step_size=size,
            random_start=random_start,
            seed=seed + number,
            progress=lambda part, _, done=done: tell(f"attacking with {name}", done + part, len(rows)),  # type: ignore[misc]
        )
        noise = matched_noise(x, attacked.x, seed=seed + number).to(next(model.parameters()).device)
        logits["clean"].append(attacked.clean_logits)
        logits["attacked"].append(attacked.logits)
        logits["noise"].append(evaluate.predict(model, noise).logits)
        losses.append(attacked.losses)
    scores: Mapping[str, Json] = {
        part: judge_elsewhere(torch.cat(pieces), data, rows, {}) for part, pieces in logits.items()
    }
    curve = series(torch.cat(losses, 1).mean(1))
    return {
        "items": len(rows),
        "epsilon": settings.epsilon,
        "steps": steps,
        "step_size": size,
        "random_start": random_start,
        "scores": scores,
        "loss_per_step": curve,
        "attack_decrease": scores["clean"]["accuracy"] - scores["attacked"]["accuracy"],
    }


def _images(data: Data) -> Tensor:
    if data.x is None or data.x.ndim != 4:
        hint = "Name a data set of images (`dissensus data list`)"
        raise InputError("these data have no images", where=data.name, hint=hint, state="")
    return data.x

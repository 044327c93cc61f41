"""Scores for items that do not belong: higher is stranger, one float64 per item, nothing tuned.

`metrics.auroc` says how well a score tells the two kinds apart.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from dissensus.datasets.data import to_float
from dissensus.errors import InputError
from dissensus.models.model import Model
from dissensus.models.predictions import Predictions
from dissensus.probes.requirements import features_of


@dataclass(frozen=True, eq=False)
class DetectorInput:
    """All that a detector may look at: the model, items `x` and its predictions for them, and what it was trained on.

    `train_features` [M, D] are the penultimate features of the training items, unaugmented; `k` is that of `knn`.
    """

    model: Model
    x: Tensor
    predictions: Predictions
    train_features: Tensor
    k: int = 50


def energy(logits: Tensor) -> Tensor:
    """−log Σ exp z (Liu et al., 2020)."""
    return -logits.double().logsumexp(1)


def msp(logits: Tensor) -> Tensor:
    """Minus the largest probability (Hendrycks & Gimpel, 2017)."""
    return -torch.softmax(logits.double(), 1).amax(1)


def predictive_entropy(logits: Tensor) -> Tensor:
    """The entropy of the prediction, in nats."""
    log_probs = torch.log_softmax(logits.double(), 1)
    return -(log_probs.exp() * log_probs).masked_fill(log_probs.isneginf(), 0).sum(1)


def margin(logits: Tensor) -> Tensor:
    """Minus the lead of the largest logit over the second."""
    first, second = logits.double().topk(2, dim=1).values.unbind(1)
    return second - first


def odin(model: Model, x: Tensor, *, temperature: float = 1000.0, epsilon: float = 0.0014, batch: int = 250) -> Tensor:
    """Minus the largest tempered probability, after a small step that makes the model surer (Liang et al., 2018).

    The step is `epsilon` in pixels ([0, 1]), along the sign of the input gradient of the predicted class's tempered
    log-probability. Two deviations from the paper: the result is clipped to [0, 1] (theirs may leave it), and a gradient
    of exactly 0 takes no step (theirs counts 0 as positive). At this temperature softmax is near uniform, so that the
    gradient of a sure prediction does not vanish in float32. In eval mode, on a copy of the model.
    """
    fixed = copy.deepcopy(model).eval().requires_grad_(False)
    scores = []
    for part in torch.split(x, batch):
        pixels = to_float(part).detach().requires_grad_()
        logits = fixed.predict(pixels).logits
        doubt = cross_entropy(logits / temperature, logits.argmax(1), reduction="sum")
        (slope,) = torch.autograd.grad(doubt, pixels)
        with torch.no_grad():
            surer = (pixels - epsilon * slope.sign()).clamp(0, 1)
            scores.append(msp(fixed.predict(surer).logits.double() / temperature).cpu())
    return torch.cat(scores)


def knn(features: Tensor, train_features: Tensor, *, k: int = 50, block: int = 2048) -> Tensor:
    """The distance to the `k`-th nearest training item, features scaled to length 1 (Sun et al., 2022).

    [N, D] against [M, D], in blocks: memory is `block`², not N·M.
    """
    if not 1 <= k <= len(train_features):
        raise InputError(
            f"there is no {k}-th nearest among {len(train_features)} training items",
            where="knn",
            hint="Choose a smaller k",
            state="",
        )
    train = normalize(train_features.double(), dim=1)
    distances = []
    for query in torch.split(normalize(features.double(), dim=1), block):
        nearest = query.new_empty(len(query), 0)
        for neighbours in torch.split(train, block):
            pool = torch.cat([nearest, torch.cdist(query, neighbours)], 1)
            nearest = pool.topk(min(k, pool.shape[1]), dim=1, largest=False).values
        distances.append(nearest.amax(1))
    return torch.cat(distances)


DETECTORS: dict[str, Callable[[DetectorInput], Tensor]] = {
    "energy": lambda given: energy(given.predictions.logits),
    "msp": lambda given: msp(given.predictions.logits),
    "odin": lambda given: odin(given.model, given.x),
    "predictive_entropy": lambda given: predictive_entropy(given.predictions.logits),
    "margin": lambda given: margin(given.predictions.logits),
    "knn": lambda given: knn(features_of(given.predictions, "knn"), given.train_features, k=given.k),
}

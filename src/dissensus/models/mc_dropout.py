"""MC dropout: Gal & Ghahramani, Dropout as a Bayesian Approximation (ICML 2016).

Dropout stays on when the network is asked: the prediction is the mean of the softmax over `samples` masks. Its entropy
is the total uncertainty; what it exceeds the mean entropy of the single masks by, the mutual information, is the part
that the masks disagree on.

The masks of predictions are fixed: the same for every item and every call, from a stream of their own. The prediction
is thus a function of the input alone, whatever else is in its batch, and an attack can differentiate it.

Where: a block of a convolutional family has its dropout before its last convolution (as Zagoruyko & Komodakis 2016, who
also take 0.3; Shake-Shake in each branch), and a network that has dropout already gets this rate there. Elsewhere it
goes before every convolution and dense layer but the first, and before the head. Of maps whole channels are dropped
(Tompson et al. 2015): neighbouring pixels say nearly the same, so that dropping single ones hides little, and costs
half a step more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout
from typing_extensions import override

from dissensus import random
from dissensus.models.classifier import Classifier
from dissensus.models.model import Architecture
from dissensus.models.on_trunk import OnTrunk, build_trunk
from dissensus.models.predictions import Predictions
from dissensus.models.resnet import ResNet20
from dissensus.models.stages import DropoutBlock

VALUES_AT_ONCE = 2**20
"""How many input values, repeated for the masks, go through the network in one pass: 341 images of 3×32×32, which
is faster than more."""


@dataclass(frozen=True)
class McDropout:
    """Dropout of `rate` in any trunk, predictions over `samples` masks."""

    trunk: Architecture = field(default_factory=ResNet20)
    rate: float = 0.3
    samples: int = 20
    published: ClassVar[str] = "MC dropout on ResNet-20 (Gal & Ghahramani 2016)"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> McDropoutModel:
        """For inputs of `shape` (without the batch)."""
        return McDropoutModel(build_trunk(self.trunk, shape, classes, mean, std), self)


class MaskedDropout(nn.Dropout):
    """Dropout of features, or of whole channels of maps, that can also apply fixed masks.

    Those are the masks of its `place`, one after another, applied to equal parts of the batch.
    """

    def __init__(self, rate: float, place: int) -> None:
        super().__init__(rate)
        self.place = place
        self.masks = range(0)  # which ones to apply; none outside of predictions

    @override
    def forward(self, x: Tensor) -> Tensor:
        """[masks · B, C] or [masks · B, C, H, W] to the same."""
        if not self.training and not self.masks:
            return x
        if self.training:
            kept = dropout(torch.ones(x.shape[:2], device=x.device, dtype=x.dtype), self.p)
        else:
            masks = torch.stack([self._mask(number, x.shape[1]) for number in self.masks])
            kept = masks.to(x.device, x.dtype).repeat_interleave(len(x) // len(self.masks), 0)
        return x * kept.reshape(*kept.shape, *[1] * (x.ndim - 2))

    def _mask(self, number: int, channels: int) -> Tensor:
        stream = random.generator(0, "dropout", "masks", self.place, number)
        return (torch.rand(channels, generator=stream) >= self.p) / (1 - self.p)


class McDropoutModel(OnTrunk):
    """A classifier with dropout, asked many times."""

    uncertainty: ClassVar[str] = "mutual information of the prediction and the mask"

    def __init__(self, trunk: Classifier, settings: McDropout) -> None:
        super().__init__(trunk, keep_head=True)
        self.settings = settings
        insert_dropout(trunk, settings.rate)
        parts = list(trunk.body)
        self._first = next(i for i, part in enumerate(parts) if any(isinstance(p, MaskedDropout) for p in part.modules()))

    @property
    @override
    def passes(self) -> int:
        return self.settings.samples

    @override
    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """Mean cross-entropy, under a mask drawn for each item."""
        return self.trunk.loss(x, target)

    @override
    def preview(self, x: Tensor) -> Predictions:
        """One pass without dropout, as ordinary networks with dropout are asked."""
        return self.trunk.predict(x)

    @override
    def predict(self, x: Tensor) -> Predictions:
        """The mean over the masks; in training mode one mask per item, as the loss sees it.

        What comes before the first dropout is computed once.
        """
        if self.training:
            return self.trunk.predict(x)
        before, after = self.trunk.body[: self._first], self.trunk.body[self._first :]
        shared = before(self.trunk.normalise(x))
        numbers = range(self.settings.samples)
        at_once = max(1, VALUES_AT_ONCE // max(1, x.numel()))
        features, log_probs = [], []
        for start in range(0, len(numbers), at_once):
            masks = numbers[start : start + at_once]
            with self._masked(masks):
                part = after(shared.repeat(len(masks), *[1] * (shared.ndim - 1)))
            features.append(part.reshape(len(masks), len(x), -1))
            log_probs.append(unsaturated_log_softmax(self.trunk.head(part)).reshape(len(masks), len(x), -1))
        every = torch.cat(log_probs)
        mean = every.logsumexp(0) - math.log(len(every))
        information = entropy(mean) - entropy(every).mean(0)
        return Predictions(mean, torch.cat(features).mean(0), information.clamp_min(0.0))

    @contextmanager
    def _masked(self, masks: range) -> Iterator[None]:
        places = [part for part in self.trunk.modules() if isinstance(part, MaskedDropout)]
        try:
            for place in places:
                place.masks = masks
            yield
        finally:
            for place in places:
                place.masks = range(0)


def unsaturated_log_softmax(logits: Tensor) -> Tensor:
    """`log_softmax` of [B, K], whose gradient does not vanish where a probability rounds to 1.

    The gradient of an attack on the mean over masks goes through each mask's softmax. That of the largest logit, in the
    plain form 1 − q, would be 0 for every mask that is sure. Here the largest is 0 by definition, without a gradient of
    its own; it gets minus that of the others.
    """
    top = logits.argmax(1, keepdim=True)
    is_top = torch.zeros_like(logits, dtype=torch.bool).scatter(1, top, value=True)
    behind = logits - logits.gather(1, top)
    others = behind.masked_fill(is_top, -torch.inf).exp().sum(1, keepdim=True)
    return behind.masked_fill(is_top, 0.0) - others.log1p()


def entropy(log_probs: Tensor) -> Tensor:
    """In nats, over the last axis, float64."""
    exact = log_probs.double()
    return -(exact.exp() * exact).sum(-1)


def insert_dropout(trunk: Classifier, rate: float) -> None:
    """Put dropout into a network, by the rule at the head of this file."""
    body, places = trunk.body, 0
    for part in body.modules():
        if isinstance(part, DropoutBlock):
            part.dropout, places = MaskedDropout(rate, places), places + 1
    for index, part in enumerate(body):
        if isinstance(part, nn.Dropout):
            body[index], places = MaskedDropout(rate, places), places + 1
    if places:
        return
    layers = list[nn.Module]()
    for part in body:
        later = any(isinstance(layer, nn.Conv2d | nn.Linear) for layer in layers)
        if later and isinstance(part, nn.Conv2d | nn.Linear):
            layers.append(MaskedDropout(rate, places))
            places += 1
        layers.append(part)
    trunk.body = nn.Sequential(*layers, MaskedDropout(rate, places))

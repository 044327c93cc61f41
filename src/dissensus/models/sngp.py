"""SNGP: Liu, Lin, Padhy, Tran, Bedrax-Weiss & Lakshminarayanan, Simple and Principled Uncertainty Estimation with
Deterministic Deep Learning via Distance Awareness (NeurIPS 2020).

The trunk's convolutions and dense layers are held at a spectral norm of at most `bound`, so that distances between
inputs survive in the features h. On them sits a Gaussian process with an RBF kernel, by random Fourier features

    φ(h) = a √(2 / D) cos(Ω h + b),   Ω fixed, rows from N(0, I / (ℓ² d)),   b fixed, from U(0, 2π),

with logits g = φ β. The Laplace approximation of β around its trained value has the precision

    P = τ I + Σᵢ qᵢ (1 − qᵢ) φᵢ φᵢᵀ   over the training items, with qᵢ the largest probability of item i,

so that a logit has the variance σ² = φᵀ P⁻¹ φ, and the prediction is softmax(g / √(1 + λ σ²)), λ = π / 8 (mean field).

Deviations. The paper has one precision per class, with that class's q (1 − q); here all classes share one, with the
largest of them, which is that of the largest probability: equal for two classes, and 1/K of the memory. Distances in the
kernel are mean squares over the d features, so that ℓ means the same at every width: with 64 features the authors' length
scale of 2 is ℓ = 0.25. The paper has a = 1, the authors' code for images a = √(D / 2), 22.6 with 1,024 features. Here
ℓ = 1 and a = 5, with which a ResNet-20's training loss falls as fast at the start as under a linear head, at one learning
rate; it falls more slowly with a shorter ℓ, and hardly with a = 1. Weights
beyond the bound are scaled back after each step, as in the paper's equation; the authors' code scales a copy in the
forward pass. The precision is summed during every epoch, from 0, while the weights still move, as the paper does in its
last epoch; `momentum` gives its running average instead. Batch norm is not bounded, as in the paper.

Precision does not depend on labels: with equal logits, soft and one-hot targets give the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, layer_norm, linear
from typing_extensions import override

from dissensus.models.classifier import Classifier
from dissensus.models.model import Architecture
from dissensus.models.on_trunk import OnTrunk, build_trunk
from dissensus.models.predictions import Predictions
from dissensus.models.resnet import ResNet20
from dissensus.models.spectral import SpectralBound

ITERATIONS = 2  # of power iteration, after each step
EPOCH_ITERATIONS = 20  # before each epoch


@dataclass(frozen=True)
class Sngp:
    """SNGP on any trunk: `features` random features, `bound` on spectral norms (c), length scale ℓ, amplitude a, ridge τ.

    `layer_norm` standardises the features of each item first, as the authors do for images. Leave it out
    where there are few: `Sngp(Linear(), layer_norm=False)`. `momentum` is None
    (the exact sum over an epoch) or that of a running average over batches. With `likelihood="gaussian"` every item
    counts 1 in the precision, as in the authors' code: where a network is sure of its training items, q (1 − q) is near 0
    and the variance near its prior everywhere.
    """

    trunk: Architecture = field(default_factory=ResNet20)
    features: int = 1024
    bound: float = 6.0
    length_scale: float = 1.0
    amplitude: float = 5.0
    ridge: float = 1.0
    layer_norm: bool = True
    momentum: float | None = None
    likelihood: Literal["softmax", "gaussian"] = "softmax"
    mean_field: float = math.pi / 8
    published: ClassVar[str] = "SNGP on ResNet-20 (Liu et al. 2020)"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> SngpModel:
        """For inputs of `shape` (without the batch)."""
        return SngpModel(build_trunk(self.trunk, shape, classes, mean, std), classes, self)


class GaussianProcessHead(nn.Module):
    """From features [B, d] to logits [B, K] and their variance [B].

    `precision` [D, D] is the sum over the training items, without the ridge; it is saved with the weights. The covariance
    is computed from it when a prediction first needs it, and kept until the precision changes.
    """

    precision: Tensor
    covariance: Tensor | None

    def __init__(self, width: int, classes: int, settings: Sngp) -> None:
        super().__init__()
        self.settings = settings
        frequencies = torch.randn(settings.features, width) / (settings.length_scale * math.sqrt(width))
        phases = 2 * math.pi * torch.rand(settings.features)
        self.frequencies = nn.Parameter(frequencies, requires_grad=False)
        self.phases = nn.Parameter(phases, requires_grad=False)
        self.weight = nn.Parameter(torch.empty(classes, settings.features))
        nn.init.normal_(self.weight, std=0.05)
        self.register_buffer("precision", torch.zeros(settings.features, settings.features))
        self.register_buffer("covariance", None, persistent=False)
        self.register_load_state_dict_post_hook(_forget_covariance)  # type: ignore[no-untyped-call]

    def random_features(self, features: Tensor) -> Tensor:
        """φ [B, D], whose inner products approximate the kernel."""
        with torch.autocast(features.device.type, enabled=False):  # a phase has no accuracy to lose
            inputs = features.to(self.frequencies.dtype)
            if self.settings.layer_norm:
                inputs = layer_norm(inputs, inputs.shape[1:])
            scale = self.settings.amplitude * math.sqrt(2 / self.settings.features)
            return scale * torch.cos(linear(inputs, self.frequencies, self.phases))

    @override
    def forward(self, random_features: Tensor) -> Tensor:
        """Logits [B, K] of random features."""
        with torch.autocast(random_features.device.type, enabled=False):
            return linear(random_features, self.weight)

    @torch.no_grad()
    def observe(self, random_features: Tensor, logits: Tensor) -> None:
        """Add a batch to the precision."""
        weighted = random_features
        if self.settings.likelihood == "softmax":
            largest = torch.softmax(logits, 1).amax(1, keepdim=True)
            weighted = largest * (1 - largest) * random_features
        momentum = self.settings.momentum
        with torch.autocast(logits.device.type, enabled=False):
            if momentum is None:
                self.precision.addmm_(random_features.T, weighted)
            else:
                self.precision.addmm_(random_features.T, weighted, beta=momentum, alpha=1 - momentum)
        self.covariance = None

    def restart(self) -> None:
        """Forget the batches seen so far; a running average goes on."""
        if self.settings.momentum is None:
            self.precision.zero_()
            self.covariance = None

    def variance(self, random_features: Tensor) -> Tensor:
        """Of each item's logits [B], the same for every class."""
        if self.covariance is None:
            with torch.no_grad():
                ridge = self.settings.ridge * torch.eye(len(self.precision), device=self.precision.device)
                inverse = torch.cholesky_inverse(torch.linalg.cholesky((self.precision + ridge).double()))
                self.covariance = inverse.to(self.precision.dtype)
        with torch.autocast(random_features.device.type, enabled=False):
            return ((random_features @ self.covariance) * random_features).sum(1)


def _forget_covariance(head: GaussianProcessHead, _: Any) -> None:
    head.covariance = None


class SngpModel(OnTrunk):
    """Features from a bounded trunk, logits from a Gaussian process; cross-entropy on the logits without variance."""

    uncertainty: ClassVar[str] = "Dempster–Shafer, K / (K + Σ exp g)"
    shares_batches: ClassVar[bool] = False

    def __init__(self, trunk: Classifier, classes: int, settings: Sngp) -> None:
        super().__init__(trunk)
        self.process = GaussianProcessHead(self.width, classes, settings)
        self.spectral = SpectralBound(trunk.body, trunk.normalise.shape, settings.bound)

    @override
    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """Mean cross-entropy; in training the batch is added to the precision."""
        random_features = self.process.random_features(self.trunk.features(x))
        logits = self.process(random_features)
        if self.training:
            self.process.observe(random_features, logits)
        return cross_entropy(logits, target)

    @override
    def predict(self, x: Tensor) -> Predictions:
        """Mean-field logits, and the Dempster–Shafer uncertainty of them."""
        features = self.trunk.features(x)
        random_features = self.process.random_features(features)
        variance = self.process.variance(random_features)
        scale = torch.sqrt(1 + self.process.settings.mean_field * variance)
        logits = self.process(random_features) / scale.unsqueeze(1)
        classes = logits.shape[1]
        return Predictions(logits, features, classes / (classes + logits.double().logsumexp(1).exp()))

    def variance(self, x: Tensor) -> Tensor:
        """The posterior variance of an item's logits [B]."""
        return self.process.variance(self.process.random_features(self.trunk.features(x)))

    @override
    def start_epoch(self) -> None:
        self.process.restart()
        self.spectral.hold(self.trunk.body, EPOCH_ITERATIONS)

    @override
    def after_step(self, x: Tensor, target: Tensor) -> None:
        self.spectral.hold(self.trunk.body, ITERATIONS)

"""DUQ: van Amersfoort, Smith, Teh & Gal, Uncertainty Estimation Using a Single Deep Deterministic Neural Network
(ICML 2020).

Features h become one embedding per class, z_k = W_k h in M dimensions, and class k is as likely as its embedding is near
its centroid e_k:

    d_k = mean_m (z_k − e_k)² / (2 ℓ²),   kernel K_k = exp(−d_k).

The loss of an item with target p, one-hot or not, is the binary cross-entropy of each kernel value to p_k, summed over
classes, and a two-sided penalty on how fast the kernels change with the (normalised) input:

    −Σ_k [p_k log K_k + (1 − p_k) log(1 − K_k)] + λ (‖∇ₓ Σ_k K_k‖ − 1)².

Centroids follow the embeddings by exponential averages over batches, each item weighed by its distribution:

    n_k ← γ n_k + (1 − γ) Σᵢ p_ik,   m_k ← γ m_k + (1 − γ) Σᵢ p_ik z_ik,   e_k = m_k / n_k.

With one-hot targets these are the paper's.

Predictions are kernels over their sum: logits −d_k. `probabilities="softmax"` is the softmax of the kernels, in which no
probability exceeds e / (e + K − 1); that fits the ECE of 0.69 that the document 000 prints. The
uncertainty is the least d_k, the distance to the nearest centroid: minus the log of the largest kernel, in the same
order, and it does not underflow far away.

Deviations. Loss, penalty and centroids all see batch norm in training mode: the centroids are moved by the embeddings
that the step's own loss was computed from. (The authors' code computes the penalty in training mode, then the
embeddings again, after the step, in eval mode; that costs a forward pass more.) The sum over classes is the paper's;
the authors' code takes the mean, which learns more slowly at one learning rate, and against which λ counts K times as
much. The norm in the penalty is as in the authors' code; the paper writes its square. log(1 − K) is computed from d,
without rounding K to 1. Where K < 1e-12, d > 27.6, −log K = d is continued by its tangent in √d, so that the pull of an
item on its embedding stops growing with its distance: with large features the first batch can be hundreds away, where
steps at a learning rate of 0.05 are too long.
(PyTorch's binary cross-entropy, in the authors' code, lets the gradient fade to 0 there; such items would never learn.)
The mean over M in d makes steps larger as M gets smaller, like 1/M: with few dimensions, lower the learning rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot
from typing_extensions import override

from dissensus.models.classifier import Classifier
from dissensus.models.model import Architecture
from dissensus.models.on_trunk import OnTrunk, build_trunk
from dissensus.models.predictions import Predictions
from dissensus.models.resnet import ResNet20
from dissensus.models.twice_differentiable import inputs_only, make_twice_differentiable

FIRST_COUNT = 13.0  # n_k before the first batch: about that of a class in a batch of 128, as in the authors' code
FIRST_SPREAD = 0.05  # of centroids
FAR = -math.log(1e-12)  # where the gradient of PyTorch's binary cross-entropy begins to fade


@dataclass(frozen=True)
class Duq:
    """DUQ on any trunk: `embedding` dimensions M, length scale ℓ (fixed, or learned from there), `decay` γ, `penalty` λ.

    `own_head` keeps the trunk's own head beside it, unused, as the parameter count of the document 000 implies.
    """

    trunk: Architecture = field(default_factory=ResNet20)
    embedding: int = 1024
    length_scale: float = 0.1
    learn_length_scale: bool = False
    decay: float = 0.999
    penalty: float = 0.5
    own_head: bool = False
    probabilities: Literal["kernels", "softmax"] = "kernels"
    published: ClassVar[str] = "DUQ on ResNet-20 (van Amersfoort et al. 2020)"

    def build(self, shape: tuple[int, ...], classes: int, mean: Tensor, std: Tensor) -> DuqModel:
        """For inputs of `shape` (without the batch)."""
        return DuqModel(build_trunk(self.trunk, shape, classes, mean, std), classes, self)


class DuqModel(OnTrunk):
    """One embedding per class of the trunk's features; centroids are moved after each step."""

    uncertainty: ClassVar[str] = "distance to the nearest centroid"
    compiles: ClassVar[bool] = False  # the penalty needs the gradient of a gradient
    shares_batches: ClassVar[bool] = False

    counts: Tensor
    sums: Tensor

    def __init__(self, trunk: Classifier, classes: int, settings: Duq) -> None:
        super().__init__(trunk, keep_head=settings.own_head)
        self.settings = settings
        make_twice_differentiable(trunk.body)
        self.weight = nn.Parameter(torch.empty(classes, settings.embedding, self.width))
        nn.init.normal_(self.weight, std=math.sqrt(2 / (classes * self.width)))  # as in the authors' code
        self.log_length_scale = nn.Parameter(torch.tensor(math.log(settings.length_scale)))
        if not settings.learn_length_scale:
            del self.log_length_scale
        self.register_buffer("counts", torch.full((classes,), FIRST_COUNT))
        self.register_buffer("sums", FIRST_COUNT * FIRST_SPREAD * torch.randn(classes, settings.embedding))
        self._embedded: Tensor | None = None  # of the batch of the last loss, for its centroids

    @property
    def centroids(self) -> Tensor:
        """[K, M]."""
        return self.sums / self.counts.unsqueeze(1)

    def embed(self, features: Tensor) -> Tensor:
        """Of features [B, D], one embedding per class [B, K, M]."""
        with torch.autocast(features.device.type, enabled=False):
            return torch.einsum("bd,kmd->bkm", features.to(self.weight.dtype), self.weight)

    def distances(self, embedded: Tensor) -> Tensor:
        """d [B, K]: squared distances to the centroids, in units of the kernel's exponent."""
        scale: Tensor | float = self.settings.length_scale
        if self.settings.learn_length_scale:
            scale = self.log_length_scale.exp()
        return (embedded - self.centroids).square().mean(2) / (2 * scale**2)

    @override
    def loss(self, x: Tensor, target: Tensor) -> Tensor:
        """Binary cross-entropy of the kernels, summed over classes, and in training the gradient penalty."""
        penalised = self.training and self.settings.penalty > 0
        inputs = self.trunk.normalise(x)
        if penalised and not inputs.requires_grad:
            inputs = inputs.detach().requires_grad_()
        embedded = self.embed(self.trunk.body(inputs.view_as(inputs)))  # torch's FLOP counter cannot follow a leaf
        distances = self.distances(embedded)
        if self.training:
            self._embedded = embedded.detach()
        share = target if target.ndim == 2 else one_hot(target, distances.shape[1]).to(distances.dtype)
        apart = distances.clamp_min(torch.finfo(distances.dtype).tiny)  # an item may lie on a centroid
        log_rest = torch.log(-torch.expm1(-apart))
        loss = (share * bounded_slope(distances) - (1 - share) * log_rest).sum(1).mean()
        if not penalised:
            return loss
        with inputs_only():
            (slope,) = torch.autograd.grad(torch.exp(-distances).sum(), inputs, create_graph=True)
        steepness = torch.linalg.vector_norm(slope.flatten(1).to(loss.dtype), dim=1)
        penalised_loss: Tensor = loss + self.settings.penalty * (steepness - 1).square().mean()
        return penalised_loss

    @override
    def predict(self, x: Tensor) -> Predictions:
        """Probabilities are kernels over their sum, unless the settings want their softmax."""
        features = self.trunk.features(x)
        distances = self.distances(self.embed(features))
        logits = -distances if self.settings.probabilities == "kernels" else torch.exp(-distances)
        return Predictions(logits, features, distances.amin(1))

    @override
    @torch.no_grad()
    def after_step(self, x: Tensor, target: Tensor) -> None:
        """Move the centroids towards the embeddings of this step's batch."""
        if self._embedded is None:
            return
        embedded, self._embedded = self._embedded, None
        share = target if target.ndim == 2 else one_hot(target, embedded.shape[1])
        share, kept = share.to(embedded.dtype), self.settings.decay
        self.counts.lerp_(share.sum(0), 1 - kept)
        self.sums.lerp_(torch.einsum("bk,bkm->km", share, embedded), 1 - kept)


def bounded_slope(distances: Tensor) -> Tensor:
    """d, and beyond `FAR` its tangent in √d: smooth, and its slope in an embedding grows no further."""
    return torch.where(distances <= FAR, distances, 2 * torch.sqrt(FAR * distances.clamp_min(FAR)) - FAR)
